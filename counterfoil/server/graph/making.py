"""From a plan's document, what is known of its tools, and the view of a run, to the graph of it.

The document says which step waits for which and why; the view says how each step stands. Both are as the wire has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ...canonical import JsonObject, JsonValue
from ...runtime.plan.graph import waves
from ...runtime.plan.values import needed
from .model import Edge, EdgeKind, Graph, Node, Undone

View = Mapping[str, Any]
_FIELDS: Final = ("args", "for_each", "when", "if_version")
"""Where a step refers to what others give."""
_AWAITED: Final = {
    "client": "the user at the client",
    "operator": "an operator",
    "second_person": "a second person",
}
_WAITS: Final = {
    "awaiting_approval": "a person's decision",
    "awaiting_reconciliation": "somebody who finds out what happened: reconcile",
    "awaiting_external": "the far side, which still works",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one step's tool."""

    effect: str | None = None
    approval: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """A run's view by step."""

    steps: Mapping[str, View] = field(default_factory=dict[str, View])
    undos: Mapping[str, Sequence[Undone]] = field(default_factory=dict[str, "list[Undone]"])
    decided_by: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, view: View) -> _Known:
        undos: dict[str, list[Undone]] = {}
        for one in _parts(view.get("compensations")):
            undos.setdefault(str(one.get("step")), []).append(_undone(one))
        proposals = {_step_of(one): str(one.get("approval_id")) for one in _parts(view.get("pending"))}
        return cls({str(step.get("id")): step for step in _parts(view.get("steps"))}, undos, proposals)


def graph_of(
    document: JsonValue, facts: Mapping[str, Facts], view: View | None = None, name: str | None = None
) -> Graph:
    """The graph of a valid plan, whose id is `name`, or of its run where there is a view of one.

    `facts` are those of each step's tool, by the id of the step.
    """
    steps = list(_parts(document.get("steps") if isinstance(document, dict) else None))
    edges = tuple(_edges(steps))
    before: list[list[int]] = [[] for _ in steps]
    for edge in edges:
        before[edge.after].append(edge.before)
    known = _Known() if view is None else _Known.of(view)
    placed = zip(steps, waves(before), strict=True)
    nodes = tuple(_node(step, wave, facts.get(str(step.get("id")), Facts()), known) for step, wave in placed)
    goal = str(document.get("goal") or "") if isinstance(document, dict) else ""
    if view is None:
        return Graph(goal, nodes, edges, name)
    return Graph(
        goal=str(view.get("goal") or goal),
        nodes=nodes,
        edges=edges,
        name=_text(view.get("run_id")),
        status=_text(view.get("status")),
        reason=_text(view.get("reason")),
        compensation=_text(view.get("compensation")),
    )


def _edges(steps: Sequence[View]) -> Iterator[Edge]:
    """Each dependency once: one that is both stated and used is used."""
    named = {str(step[key]): n for n, step in enumerate(steps) for key in ("save_as", "id") if step.get(key)}
    for after, step in enumerate(steps):
        used = {named[name] for part in _FIELDS for name in needed(cast("JsonValue", step.get(part))) if name in named}
        stated = {named[str(name)] for name in step.get("depends_on") or () if str(name) in named}
        for before in sorted(used | stated):
            yield Edge(before, after, EdgeKind.VALUE if before in used else EdgeKind.ORDER)


def _node(step: View, wave: int, facts: Facts, known: _Known) -> Node:
    name = str(step.get("id"))
    seen = known.steps.get(name, {})
    state = _text(seen.get("state"))
    items = Counter(str(item.get("state")) for item in _parts(seen.get("items")))
    return Node(
        id=name,
        tool=str(step.get("tool")),
        wave=wave,
        version=facts.version or _text(step.get("version")),
        effect=facts.effect,
        approval=facts.approval,
        state=state,
        outcome=_text(seen.get("outcome")),
        attempts=int(seen.get("attempts") or 0),
        repeats=step.get("for_each") is not None,
        conditional=step.get("when") is not None,
        any_end=step.get("needs") == "settled",
        may_fail=step.get("on_failure") == "continue",
        items=dict(sorted(items.items())),
        waits=_waits(name, state, items, facts, known),
        reason=_reason(seen, state),
        undos=tuple(known.undos.get(name, ())),
    )


def _waits(name: str, state: str | None, items: Iterable[str], facts: Facts, known: _Known) -> str | None:
    waiting = next((one for one in (state, *items) if one in _WAITS), None)
    if waiting is None:
        return None
    if waiting != "awaiting_approval":
        return _WAITS[waiting]
    who = _AWAITED.get(facts.approval or "", "a person")
    proposal = known.decided_by.get(name)
    return f"the decision of {who}" + (f": {proposal}" if proposal else "")


def _reason(step: View, state: str | None) -> str | None:
    """Why it stands there: the step that it was left out because of, its error, or what its state has to say."""
    error, reason = step.get("error"), _text(step.get("reason"))
    if isinstance(error, dict):
        found = cast("JsonObject", error)
        return f"{found.get('code')}: {found.get('message')}"
    if state == "not_run" and reason is not None:
        return f"because of {reason}"
    return "its when was false" if state == "skipped" and reason is None else reason


def _undone(one: View) -> Undone:
    item = one.get("item")
    return Undone(
        state=str(one.get("state")),
        item=item if isinstance(item, int) else None,
        tool=_text(one.get("tool")),
        call_id=_text(one.get("undo_call_id")),
        reason=_text(one.get("reason")),
    )


def _step_of(pending: View) -> str:
    """The step of a proposal, which may be about one item of it: `tell[3]`."""
    return str(pending.get("step")).partition("[")[0]


def _parts(value: object) -> Iterator[View]:
    if isinstance(value, list | tuple):
        yield from (one for one in cast("Sequence[View]", value) if isinstance(one, dict))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
