"""How a run and its steps stand, made again from nothing but the events of its chain."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.ledger.queries import EventRow
from tests.property.fold import Folded, fold

Place = tuple[str, int]
ENDED = frozenset({"succeeded", "failed", "rejected", "skipped", "not_run", "cancelled"})
WAITS = ("awaiting_reconciliation", "awaiting_external", "awaiting_approval")


@dataclass(slots=True)
class FoldedRun:
    """What the events say: how the run stands, how each place does, and how many items a step has."""

    status: str = "queued"
    places: dict[Place, str] = field(default_factory=dict[Place, str])
    items: dict[str, int] = field(default_factory=dict[str, int])
    undos: dict[str, int] = field(default_factory=dict[str, int])
    ended: bool = False
    _of: dict[str, Place] = field(default_factory=dict[str, Place])
    _told: dict[str, list[tuple[str, dict[str, Any]]]] = field(
        default_factory=dict[str, list[tuple[str, dict[str, Any]]]]
    )

    def step(self, name: str) -> str:
        """The state of a step, from its items where it has any."""
        if not self.items.get(name):
            return self.places.get((name, -1), "waiting")
        states = {self.places.get((name, number), "waiting") for number in range(self.items[name])}
        if not states <= ENDED:
            return "running" if not states <= ENDED | set(WAITS) else next(wait for wait in WAITS if wait in states)
        if len(states) == 1:
            return states.pop()
        if "failed" in states or states <= {"succeeded", "not_run"}:
            return "failed"
        return "rejected" if "rejected" in states else "cancelled"

    def take(self, event: EventRow) -> None:
        """Follow one more event."""
        body = json.loads(event.body)
        data: dict[str, Any] = body.get("data", body)
        call_id = body.get("call_id")
        if "undoes" in data:
            self.undos[call_id] = self.undos.get(call_id, 0) + 1
        elif call_id is not None:
            self._call(call_id, event.type, data)
        elif event.type == "step_expanded":
            self.items[data["step"]] = data["items"]
            self.places[data["step"], -1] = data["state"]
        elif event.type == "step_ended":
            self.places[data["step"], data.get("item", -1)] = data["state"]
        else:
            self._run(event.type, data)

    def _call(self, call_id: str, kind: str, data: dict[str, Any]) -> None:
        if "step" in data:
            self._of[call_id] = (data["step"], data.get("item", -1))
        told = self._told.setdefault(call_id, [])
        told.append((kind, data))
        self.places[self._of[call_id]] = _state(fold(told), *_last_word(told))

    def _run(self, kind: str, data: dict[str, Any]) -> None:
        match kind:
            case "run_claimed":
                self.status = "running"
            case "run_created":
                self.status = "running" if data.get("owner") else "queued"
            case "run_parked" | "run_finished":
                self.status, self.ended = data["status"], kind == "run_finished"
            case "compensation_resumed" if self.ended:
                self.status, self.ended = "queued", False
            case "run_released":
                self.status = "queued"
            case _:
                pass


def _last_word(told: Sequence[tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """The event that gave the call its outcome."""
    return next((one for one in reversed(told) if "outcome" in one[1] or one[0] == "decided"), told[-1])


def _state(call: Folded, kind: str, data: dict[str, Any]) -> str:
    match call.state:
        case "dispatched":
            return "running"
        case "queued":
            return "running" if call.attempts else "ready"
        case "refused":
            return "rejected" if kind in {"decided", "expired"} else "failed"
        case "settled" if kind == "cancelled" or data.get("code") == "cancelled":
            return "cancelled"
        case "settled":
            good = call.outcome in {"success", "no_result"} and data.get("code") != "output_invalid"
            return "succeeded" if good else "failed"
        case state:
            return state


def fold_run(events: Sequence[EventRow], look: Callable[[FoldedRun, EventRow], None] = lambda *_: None) -> FoldedRun:
    """Follow all events of a run; `look` sees what was known before each."""
    run = FoldedRun()
    for event in events:
        look(run, event)
        run.take(event)
    return run
