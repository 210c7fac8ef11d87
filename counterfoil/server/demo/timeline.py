"""How a run's calls stood at each time, from the run's events as `status` tells them. Pure.

The server's own deaths are in no chain: they are handed in, and from a death on a call that was under way is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from ..cli.answer import View, part


class Mark(StrEnum):
    """What is known of a call, or of our server, at a time."""

    WAITS = "waits"
    SENT = "sent"
    UNKNOWN = "unknown"
    SERVES = "serves"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Span:
    """From one time to another, in seconds since the start of the run."""

    begin: float
    end: float
    mark: Mark


@dataclass(slots=True)
class Row:
    """One line of the picture: its spans in order, and what it ended with."""

    name: str
    spans: list[Span] = field(default_factory=list[Span])
    end: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """When a process of our server was first and last there; `died` if it was killed."""

    begin: datetime
    end: datetime
    died: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened, over so many seconds."""

    rows: Sequence[Row]
    seconds: float


_FROM_HERE: Final = {
    "proposed": Mark.WAITS,
    "decided": None,
    "dispatched": Mark.SENT,
    "retried": None,
    "lost": Mark.UNKNOWN,
    "settled": None,
    "resolved": None,
}
"""How a call is from each of these events on; None: there is nothing to draw."""


def timeline(events: Sequence[View], lives: Sequence[Life]) -> Timeline:
    """A row for our server and one for each call, in the order in which they began."""
    start, end = _at(events[0]), _at(events[-1])
    deaths = [(life.end - start).total_seconds() for life in lives if life.died]
    rows = [_row(_name(chain[0]), chain, start, deaths) for chain in _by_call(events).values()]
    seconds = max((end - start).total_seconds(), 0.001)
    return Timeline([_serving(lives, start, seconds), *rows], seconds)


def _by_call(events: Iterable[View]) -> dict[str, list[View]]:
    """The events of each call, by its action; what comes before its dispatch names its proposal instead."""
    told = [(event, part(event, "data")) for event in events]
    acts = {data["approval_id"]: data["action_id"] for _, data in told if "approval_id" in data and "action_id" in data}
    calls: dict[str, list[View]] = {}
    for event, data in told:
        proposal = data.get("approval_id")
        if key := data.get("action_id") or acts.get(proposal, proposal):
            calls.setdefault(key, []).append(event)
    return calls


def _name(first: View) -> str:
    step, item = part(first, "data")["step"], part(first, "data").get("item")
    return str(step) if item is None else f"{step}[{item}]"


def _row(name: str, chain: Sequence[View], start: datetime, deaths: Sequence[float]) -> Row:
    row, since, mark = Row(name), 0.0, None
    for event in chain:
        if event["type"] not in _FROM_HERE:
            continue
        now = (_at(event) - start).total_seconds()
        if mark is not None:
            row.spans += _split(Span(since, now, mark), deaths)
        since, mark = now, _FROM_HERE[event["type"]]
        row.end = str(part(event, "data").get("outcome") or row.end)
    return row


def _split(span: Span, deaths: Sequence[float]) -> list[Span]:
    """What was under way when our server died is unknown from then on."""
    death = next((at for at in deaths if span.mark is Mark.SENT and span.begin < at < span.end), None)
    if death is None:
        return [span]
    return [Span(span.begin, death, Mark.SENT), Span(death, span.end, Mark.UNKNOWN)]


def _serving(lives: Sequence[Life], start: datetime, seconds: float) -> Row:
    row = Row("our server")
    for life in lives:
        begin, end = ((at - start).total_seconds() for at in (life.begin, life.end))
        row.spans.append(Span(max(begin, 0.0), min(end, seconds), Mark.SERVES))
        if life.died:
            row.spans.append(Span(end, end, Mark.KILLED))
    return row


def _at(event: View) -> datetime:
    return datetime.fromisoformat(event["at"])
