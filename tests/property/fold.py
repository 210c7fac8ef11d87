"""A call's row, made again from nothing but its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Folded:
    """What the events say of a call."""

    state: str = "new"
    outcome: str | None = None
    attempts: int = 0


def fold(events: Iterable[tuple[str, dict[str, Any]]]) -> Folded:
    """Follow the events of one call, each a type and its data, in order."""
    row = Folded()
    for kind, data in events:
        _apply(row, kind, data)
    return row


def _apply(row: Folded, kind: str, data: dict[str, Any]) -> None:
    match kind:
        case "proposed":
            row.state, row.outcome = "awaiting_approval", None
        case "queued" | "retried":
            row.state, row.outcome = "queued", None
        case "decided" if data["decision"] == "approve":
            row.state = "queued"
        case "dispatched":
            row.state, row.outcome, row.attempts = "dispatched", None, data["attempt"]
        case "observed":
            row.state, row.outcome, row.attempts = "settled", data["outcome"], 1
        case "lost" | "reopened":
            row.state, row.outcome = "awaiting_reconciliation", "ambiguous"
        case "taken_over" if row.state == "dispatched":
            row.state, row.outcome = "awaiting_reconciliation", "ambiguous"
        case "settled" | "abandoned" | "cancelled" | "expired" | "refused" | "decided":
            _end(row, kind, data["outcome"])
        case "resolved" if "outcome" in data:
            _end(row, kind, data["outcome"])
        case _:
            pass


def _end(row: Folded, kind: str, outcome: str) -> None:
    row.outcome = outcome
    if outcome == "ambiguous":
        row.state = "awaiting_reconciliation"
    elif kind in {"expired", "refused", "decided"} and row.attempts == 0:
        row.state = "refused"
    else:
        row.state = "settled"
