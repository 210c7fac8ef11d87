"""A chain of thousands of steps made small enough to be looked at: quiet steps that are alike become one node.

What a person looks for (a failure, somebody who is awaited, what runs) always stands alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from .model import Edge, EdgeKind, Graph, Node

MOST: Final = 240
"""Steps up to which each has a node of its own."""
_LOUD: Final = frozenset({
    "failed", "rejected", "awaiting_approval", "awaiting_reconciliation", "awaiting_external", "running",
})  # fmt: skip


def folded(graph: Graph, most: int = MOST) -> Graph:
    """The same chain with at most about so many nodes, as far as steps of one wave are alike."""
    if len(graph.nodes) <= most:
        return graph
    groups: dict[Hashable, int] = {}
    into: list[int] = []
    members: list[list[Node]] = []
    for node in graph.nodes:
        place = groups.setdefault(_alike(node), len(members))
        if place == len(members):
            members.append([])
        members[place].append(node)
        into.append(place)
    edges: dict[tuple[int, int], Edge] = {}
    for edge in graph.edges:
        before, after = into[edge.before], into[edge.after]
        if (before, after) not in edges or edge.kind is EdgeKind.VALUE:
            edges[before, after] = replace(edge, before=before, after=after)
    return replace(graph, nodes=tuple(map(_one, members)), edges=tuple(edges.values()))


def _alike(node: Node) -> Hashable:
    if node.state in _LOUD or node.undos or any(state in _LOUD for state in node.items):
        return node.id
    return (node.wave, node.tool, node.version, node.effect, node.approval, node.state, node.repeats)


def _one(nodes: list[Node]) -> Node:
    first, last = nodes[0], nodes[-1]
    if len(nodes) == 1:
        return first
    counts: dict[str, int] = {}
    for node in nodes:
        for state, count in node.items.items():
            counts[state] = counts.get(state, 0) + count
    name = f"{first.id} … {last.id}"
    return replace(first, id=name, stands_for=len(nodes), items=counts, reason=None, attempts=0, outcome=None)
