"""Each rule of `check` finds the row that breaks it, planted by hand into a ledger that real facts have written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counterfoil.ledger.check import check
from counterfoil.ledger.rules import RULES
from tests.property.model import Ask
from tests.property.story import Story
from tests.property.world import DONE, NOBODY_KNOWS, NOT_DONE, TOOLS

TOLD = {tool.name: tool for tool in TOOLS}


@pytest.fixture(scope="module")
def ledger() -> Iterator[Path]:
    """Calls in every state.

    call_003 is in doubt and sent again, call_004 dispatched with a key and two resources, call_005 settled; call_007
    and its apr_008 are undecided, call_009 and its apr_010 approved, call_011 is sent with apr_012.
    """
    story = Story()

    def ask(tool: str, subject: str, order: str, key: str | None = None) -> str:
        call = story.asks(Ask(TOLD[tool], subject, order, key))
        assert call is not None
        return call.call_id

    calls = story.model.calls
    twice = calls[ask("charge", "ann", "1")]
    story.reports(twice, NOBODY_KNOWS[0])
    story.sends_again(twice, absent=False)
    assert story.sends(twice)
    ask("move", "ann", "1", "k1")
    done = calls[ask("note", "ann", "1", "k2")]
    story.acts(done)
    story.reports(done, DONE[0])
    ask("refund", "ann", "2")
    story.approves(calls[ask("refund", "bob", "3")])
    sent = calls[ask("refund", "bob", "4")]
    story.approves(sent)
    assert story.sends(sent, charge=True)
    ask("audit", "bob", "5")
    assert check(story.book.path).breaches == ()
    yield story.book.path
    story.close()


@pytest.fixture
def copy(ledger: Path, tmp_path: Path) -> Path:
    target = tmp_path / "ledger.db"
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(target)) as made:
        source.backup(made)
    return target


SETTLED_AS_ABSENT = (
    "UPDATE calls SET state = 'settled', outcome = 'retryable_failure', sent = 'no', settled_at = 1,"
    " settled_by = 'execution' WHERE call_id = 'call_003'; DELETE FROM leases WHERE call_id = 'call_003'"
)
PLANTED = [
    ("attempts_counted", "call_004", "UPDATE calls SET attempts = 2 WHERE call_id = 'call_004'"),
    ("attempts_counted", "call_004", "UPDATE calls SET generation = 2 WHERE call_id = 'call_004'"),
    ("attempts_counted", "call_004", "DELETE FROM attempts WHERE call_id = 'call_004'"),
    ("attempts_in_events", "call_004", "UPDATE events SET type = 'probed' WHERE call_id = 'call_004'"),
    ("absence_known", "call_003", SETTLED_AS_ABSENT),
    ("lease_has_attempt", "call_007", "UPDATE leases SET call_id = 'call_007' WHERE call_id = 'call_011'"),
    ("leases_held", "call_004", "DELETE FROM leases WHERE call_id = 'call_004' AND shared = 1"),
    ("leases_held", "call_011", "INSERT INTO leases VALUES ('t', 'more', 'call_011', 0, 1)"),
    ("leases_exclude", "call_011", "INSERT INTO leases VALUES ('t', 'order:4', 'call_004', 1, 1)"),
    ("key_of_its_call", "call_004", "UPDATE keys SET args_digest = 'other' WHERE call_id = 'call_004'"),
    ("key_of_its_call", "call_004", "UPDATE keys SET subject = 'bob' WHERE call_id = 'call_004'"),
    ("key_of_its_call", "call_007", "INSERT INTO keys VALUES ('t', 'ann', 'refund', 'k', 'call_007', '2', 1, NULL)"),
    ("key_bound", "call_005", "DELETE FROM keys WHERE call_id = 'call_005'"),
    ("key_lasts", "call_004", "UPDATE keys SET expires_at = 5 WHERE call_id = 'call_004'"),
    ("approval_has_call", "apr_008", "UPDATE places SET call_id = 'nobody' WHERE approval_id = 'apr_008'"),
    ("approval_open", "apr_008", "UPDATE calls SET approval_id = NULL WHERE call_id = 'call_007'"),
    ("approval_open", "apr_010", "UPDATE approvals SET state = 'pending' WHERE approval_id = 'apr_010'"),
    ("approval_open", "apr_012", "UPDATE approvals SET state = 'approved' WHERE approval_id = 'apr_012'"),
    ("approval_consumed", "apr_010", "UPDATE approvals SET state = 'consumed' WHERE approval_id = 'apr_010'"),
    ("approval_awaited", "call_007", "UPDATE approvals SET state = 'rejected' WHERE approval_id = 'apr_008'"),
    ("budget_positive", "tenant:t", "UPDATE budgets SET used = -1"),
]


@pytest.mark.parametrize(("rule", "row", "sql"), PLANTED)
def test_a_planted_breach_is_named_with_its_row(copy: Path, rule: str, row: str, sql: str) -> None:
    with closing(sqlite3.connect(copy)) as hand:
        hand.executescript(sql)
    assert row in {breach.row for breach in check(copy).breaches if breach.rule == rule}


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule for rule, _, _ in PLANTED} <= {rule.name for rule in RULES}


def test_a_call_that_late_news_reopened_may_hold_what_another_one_took_meanwhile() -> None:
    story = Story()
    first = story.asks(Ask(TOLD["move"], "ann", "1", None))
    assert first is not None
    story.lapses(first.owner or "", killed=False)
    story.takes_over(first)
    story.person_says(first, happened=False)
    second = story.asks(Ask(TOLD["move"], "bob", "1", None))
    assert second is not None
    story.acts(first)
    story.reports(first, DONE[0])
    assert (first.state, second.state) == ("awaiting_reconciliation", "dispatched")
    assert check(story.book.path).breaches == ()
    story.close()


def test_a_settlement_that_says_otherwise_than_late_news_is_named_unless_it_is_about_a_read() -> None:
    story = Story()
    named: list[str] = []
    for tool in ("note", "audit"):
        call = story.asks(Ask(TOLD[tool], "ann", "1", None), answered=True)
        assert call is not None
        story.lapses(call.owner or "", killed=False)
        story.takes_over(call)
        story.reports(call, NOT_DONE[0])
        story.reads_late_evidence(call)
        story.book.connection.execute(
            "UPDATE attempts SET late = replace(late, 'retryable_failure', 'success') WHERE call_id = ?",
            (call.call_id,),
        )
        named += [breach.row for breach in check(story.book.path).breaches if breach.rule == "late_agrees"]
    assert named == ["call_003/1", "call_003/1"]
    story.close()
