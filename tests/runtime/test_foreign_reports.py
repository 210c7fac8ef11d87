"""Whatever an adapter raises or reports, an outcome comes of it that can be recorded."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.vocabulary import Effect, ErrorCode, OutcomeClass, Sent
from counterfoil.runtime.attempt import as_reported, raised

READ, WRITE = (
    Contract("t", Text("t", "d"), Schemas({"type": "object"}), Gate(effect)) for effect in (Effect.READ, Effect.WRITE)
)


class MuteError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize("tool", [READ, WRITE])
def test_an_error_without_a_text_is_known_by_its_type(tool: Contract) -> None:
    assert "MuteError" in raised(tool, MuteError()).message


def reported(**parts: Any) -> Any:
    return Outcome(**{"kind": OutcomeClass.RETRYABLE_FAILURE, **parts})


def test_words_in_a_report_become_our_own() -> None:
    said = reported(kind="retryable_failure", sent="no", code="unavailable", after_s=5, message=MuteError())
    found = as_reported(WRITE, said)
    assert (found.kind, found.sent, found.code) == (OutcomeClass.RETRYABLE_FAILURE, Sent.NO, ErrorCode.UNAVAILABLE)
    assert all(isinstance(one, OutcomeClass | Sent | ErrorCode) for one in (found.kind, found.sent, found.code))
    assert (found.after_s, found.message) == (5, "(MuteError)")
    assert as_reported(READ, reported(kind="ambiguous", sent="unknown")).kind is OutcomeClass.RETRYABLE_FAILURE
    assert as_reported(WRITE, reported(after_s=10**400)).after_s is None


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (reported(kind="won"), "kind"),
        (reported(kind=None), "kind"),
        (reported(sent="perhaps"), "sent"),
        (reported(sent=False), "sent"),
        (reported(code="weird"), "code"),
        (reported(after_s="5"), "after_s"),
        (reported(after_s=True), "after_s"),
        (reported(evidence=["r"]), "evidence"),
        (reported(evidence={1: "r"}), "evidence"),
        (reported(details="x"), "details"),
        (reported(details={"x": object()}), "details"),
        (Outcome.success(Probe("maybe")), "answer"),  # type: ignore[arg-type]  # that is the point
        ({"kind": "success"}, "no Outcome"),
        (None, "no Outcome"),
    ],
)
def test_a_report_that_cannot_be_read_leaves_a_write_unknown_and_fails_a_read(said: Any, part: str) -> None:
    written, read = as_reported(WRITE, said), as_reported(READ, said)
    assert (written.kind, written.sent) == (OutcomeClass.AMBIGUOUS, Sent.UNKNOWN)
    assert (read.kind, read.sent) == (OutcomeClass.PERMANENT_FAILURE, Sent.YES)
    assert part in written.message
    assert part in read.message
