"""What holds for every answer on the wire, whatever was asked: the table of codes, and what strict clients check.

Written down from the public description of the answers, not from the product's own lists, and so importing none of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

WAITING: Final = frozenset({"awaiting_approval", "queued", "dispatched", "awaiting_external"})
WITHOUT_ERROR: Final = frozenset({"success", "no_result", "partial"})
AFTER_DISPATCH: Final = frozenset({"unavailable", "denied", "invalid_arguments", "version_conflict"})
MEMBERS: Final = frozenset(
    {
        *("call_id", "tool", "version", "state", "outcome", "sent", "output"),
        *("error", "evidence", "attempts", "replayed", "approval", "truncated", "next"),
    }
)
PROBLEM: Final = frozenset({"path", "expected", "got", "nearest"})
DRY_RUN: Final = frozenset(
    {"dry_run", "verdict", "assurance", "rule_id", "reason", "missing_scopes", "arguments"},
)


def _rows(codes: str, *triples: tuple[str, str, str]) -> dict[str, frozenset[tuple[str, str, str]]]:
    return dict.fromkeys(codes.split(), frozenset(triples))


CODES: Final[Mapping[str, frozenset[tuple[str, str, str]]]] = {
    **_rows(
        "invalid_arguments not_visible stale_schema not_read_only key_conflict version_conflict plan_invalid "
        "plan_stale not_found",
        ("refused", "invalid_request", "no"),
    ),
    **_rows(
        "unknown_tool insufficient_scope denied blocked_definition held approval_rejected approval_expired "
        "approval_invalid budget_exhausted repeated_failure authority_expired",
        ("refused", "denied", "no"),
    ),
    **_rows("rate_limited resource_busy unavailable", ("refused", "retryable_failure", "no")),
    **_rows(
        "cannot_record",
        ("refused", "retryable_failure", "no"),
        ("refused", "retryable_failure", "unknown"),  # a closed-world read that ran and cannot be recorded
    ),
    **_rows("cancelled deadline_exceeded internal", ("settled", "permanent_failure", "no")),
    **_rows("ambiguous", ("awaiting_reconciliation", "ambiguous", "unknown"), ("refused", "denied", "no")),
    **_rows(
        "tool_failed",
        *(
            ("settled", outcome, sent)
            for outcome in ("permanent_failure", "retryable_failure")
            for sent in ("no", "yes", "unknown")
        ),
    ),
    **_rows("output_invalid", ("settled", "success", "yes")),
}
"""State, outcome and sent that each code may come with; `in_progress` reports another call's and has no row.

A tool that knows that nothing left may say so after its dispatch, by a refusal's code; that call is settled.
"""


def _told_by_the_tool(view: Mapping[str, Any]) -> bool:
    return view["attempts"] > 0 and view["sent"] == "no" and view["error"]["code"] in AFTER_DISPATCH


def check_call_view(view: Mapping[str, Any]) -> None:
    """A call view keeps the table and has every member."""
    assert view.keys() >= MEMBERS, MEMBERS - view.keys()
    error = view["error"]
    if error is None:
        wanted = {None} if view["state"] in WAITING else WITHOUT_ERROR
        assert view["outcome"] in wanted, view
        return
    assert error.keys() == {"code", "message", "retryable", "details"}, error
    assert error["message"], error
    if error["code"] == "in_progress":
        return
    state = "refused" if view["state"] == "settled" and _told_by_the_tool(view) else view["state"]
    assert (state, view["outcome"], view["sent"]) in CODES[error["code"]], view
    for problem in error["details"].get("problems", ()):
        assert problem.keys() == PROBLEM, error
    if error["code"] == "tool_failed":
        assert error["details"]["effect"] in {"none", "unknown"}, error
    if view["state"] == "refused" and error["code"] == "ambiguous":
        assert "call_id" in error["details"], error


def strictly(text: str | bytes) -> Any:
    """The value of strict JSON text: no NaN, no infinity, no key twice."""

    def no(found: str) -> NoReturn:
        raise AssertionError(f"{found} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        assert len(members) == len(pairs), f"a key stands twice: {pairs}"
        return members

    return json.loads(text, parse_constant=no, object_pairs_hook=once)
