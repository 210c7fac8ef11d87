"""The picture of a run shows, call by call, what was known when: sent, waiting for a person, unknown, ended."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from counterfoil.server.demo.picture import Picture
from counterfoil.server.demo.timeline import Life, Mark, Row, Span, Timeline, timeline

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(seconds: float, kind: str, action_id: str | None = None, **data: Any) -> dict[str, Any]:
    named = data if action_id is None else data | {"action_id": action_id}
    return {"at": at(seconds).isoformat(), "type": kind, "data": named}


EVENTS = [
    event(0, "run_created"),
    event(1, "dispatched", "act_a", step="order"),
    event(2, "settled", "act_a", outcome="success"),
    event(2, "proposed", step="refund", approval_id="apr_b"),
    event(5, "decided", approval_id="apr_b"),
    event(5, "dispatched", "act_b", approval_id="apr_b"),
    event(6, "lost", "act_b", outcome="ambiguous"),
    event(7, "probed", answer="happened"),
    event(7, "resolved", "act_b", outcome="success"),
    event(7, "dispatched", "act_c", step="tell", item=0),
    event(9, "taken_over"),
    event(10, "resolved", "act_c", outcome="success"),
    event(10, "run_finished"),
]
LIVES = [Life(at(-1), at(8), died=True), Life(at(8.5), at(11))]


def test_a_call_is_sent_until_its_end_is_known() -> None:
    order = timeline(EVENTS, LIVES).rows[1]
    assert (order.name, order.spans, order.end) == ("order", [Span(1, 2, Mark.SENT)], "success")


def test_a_call_waits_for_its_decision_and_is_unknown_from_its_loss_until_it_is_resolved() -> None:
    refund = timeline(EVENTS, LIVES).rows[2]
    assert refund.spans == [Span(2, 5, Mark.WAITS), Span(5, 6, Mark.SENT), Span(6, 7, Mark.UNKNOWN)]


def test_what_was_under_way_when_the_server_died_is_unknown_from_then_on() -> None:
    tell = timeline(EVENTS, LIVES).rows[3]
    assert tell.name == "tell[0]"
    assert tell.spans == [Span(7, 8, Mark.SENT), Span(8, 10, Mark.UNKNOWN)]


def test_the_servers_lives_and_its_death_are_a_row_within_the_time_of_the_run() -> None:
    server = timeline(EVENTS, LIVES).rows[0]
    assert server.spans == [Span(0, 8, Mark.SERVES), Span(8, 8, Mark.KILLED), Span(8.5, 10, Mark.SERVES)]


def drawn(*, terminal: bool) -> list[str]:
    return shown(timeline(EVENTS, LIVES), terminal=terminal)


def shown(what: Timeline, *, terminal: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None, legacy_windows=False)
    console.print(Picture(what))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_without_a_terminal_the_picture_is_of_plain_characters_and_80_columns_hold_it() -> None:
    lines = drawn(terminal=False)
    assert "".join(lines).isascii()
    assert max(map(len, lines)) <= 80
    refund = next(line for line in lines if line.startswith("refund"))
    assert refund.index(".") < refund.index("=") < refund.index("?") < refund.index("success")


def test_a_span_too_short_for_a_column_still_has_one() -> None:
    brief = Timeline([Row("tell", [Span(0, 0.001, Mark.SENT), Span(0.001, 90, Mark.UNKNOWN)])], 100)
    assert "=??" in shown(brief, terminal=False)[1]


def test_on_a_terminal_it_has_blocks() -> None:
    assert any("█" in line and line.startswith("order") for line in drawn(terminal=True))
