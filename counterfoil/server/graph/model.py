"""A chain as a picture has it: values that any drawing is made from. No behaviour but their wire form lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ...canonical import JsonObject


class EdgeKind(StrEnum):
    """Why a step waits for another one."""

    VALUE = "value"  # it is given something of its output
    ORDER = "order"  # its plan says `depends_on`, and nothing is given


@dataclass(frozen=True, slots=True)
class Undone:
    """What has become of one effect of a step under a plan that compensates; `tool` is what undoes it."""

    state: str
    item: int | None = None
    tool: str | None = None
    call_id: str | None = None
    reason: str | None = None

    def wire(self) -> JsonObject:
        """One of a node's `undos`."""
        return {
            "state": self.state,
            "item": self.item,
            "tool": self.tool,
            "call_id": self.call_id,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Node:
    """One step. Before a run it has no `state`; `effect` and `approval` are None where its tool is not here.

    `any_end`: it needs its dependencies settled, not successful; `may_fail`: a failure of it is no failure of the run.
    `items` counts the items of a `for_each` by state, once there are any; `stands_for` is the number of steps that a
    node was folded from. `waits` says who or what is awaited.
    """

    id: str
    tool: str
    wave: int = 0
    version: str | None = None
    effect: str | None = None
    approval: str | None = None
    state: str | None = None
    outcome: str | None = None
    attempts: int = 0
    repeats: bool = False
    conditional: bool = False
    any_end: bool = False
    may_fail: bool = False
    items: Mapping[str, int] = field(default_factory=dict[str, int])
    waits: str | None = None
    reason: str | None = None
    undos: tuple[Undone, ...] = ()
    stands_for: int = 1

    def wire(self) -> JsonObject:
        """One of `nodes`."""
        return {
            "id": self.id,
            "tool": self.tool,
            "version": self.version,
            "wave": self.wave,
            "effect": self.effect,
            "approval": self.approval,
            "state": self.state,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "for_each": self.repeats,
            "when": self.conditional,
            "needs": "settled" if self.any_end else "success",
            "on_failure": "continue" if self.may_fail else "fail",
            "items": dict(self.items) or None,
            "waits": self.waits,
            "reason": self.reason,
            "undos": [undo.wire() for undo in self.undos],
        }


@dataclass(frozen=True, slots=True)
class Edge:
    """One dependency, by places in `nodes`."""

    before: int
    after: int
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Graph:
    """A chain: of a run where it has a `status`, else of a plan."""

    goal: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    name: str | None = None
    status: str | None = None
    reason: str | None = None
    compensation: str | None = None

    def wire(self) -> JsonObject:
        """What `--json` prints: nodes, and edges by the ids of their steps."""
        return {
            "id": self.name,
            "goal": self.goal,
            "status": self.status,
            "reason": self.reason,
            "compensation": self.compensation,
            "nodes": [node.wire() for node in self.nodes],
            "edges": [
                {"from": self.nodes[edge.before].id, "to": self.nodes[edge.after].id, "kind": edge.kind.value}
                for edge in self.edges
            ],
        }
