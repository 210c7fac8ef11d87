"""The graph of a plan: which steps wait for which, its cycles, and its waves. Linear in steps and edges.

Steps are indexes here; what they are called, and where an edge was stated, is for whoever tells of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Edges: TypeAlias = Sequence[Sequence[int]]
"""For each step the indexes of those that it waits for."""


def ordered(edges: Edges) -> list[int]:
    """The steps, each after all that it waits for; those on a cycle, or behind one, are left out."""
    left = [len(before) for before in edges]
    after = followers(edges)
    order = [step for step, count in enumerate(left) if count == 0]
    for step in order:  # grows while it is read
        for next_step in after[step]:
            left[next_step] -= 1
            if left[next_step] == 0:
                order.append(next_step)
    return order


def followers(edges: Edges) -> list[list[int]]:
    """For each step the indexes of those that wait for it."""
    after: list[list[int]] = [[] for _ in edges]
    for step, before in enumerate(edges):
        for earlier in before:
            after[earlier].append(step)
    return after


def waves(edges: Edges) -> list[int]:
    """For each step of a graph without cycles the length of the longest way to it, from 0."""
    wave = [0] * len(edges)
    for step in ordered(edges):
        wave[step] = max((wave[earlier] + 1 for earlier in edges[step]), default=0)
    return wave


def cycles(edges: Edges) -> list[list[int]]:
    """One cycle for each group of steps that wait for one another, each step waiting for the next of its list."""
    inside = set(range(len(edges))).difference(ordered(edges))
    return [_way_round(edges, group) for group in _groups(edges, inside) if len(group) > 1]


def _way_round(edges: Edges, group: list[int]) -> list[int]:
    """Each step of such a group waits for another one of it, so that following these comes back."""
    members = set(group)
    step = min(group)
    seen: dict[int, int] = {}
    way: list[int] = []
    while step not in seen:
        seen[step] = len(way)
        way.append(step)
        step = next(earlier for earlier in edges[step] if earlier in members)
    return way[seen[step] :]


def _groups(edges: Edges, inside: set[int]) -> list[list[int]]:
    """Tarjan's strongly connected components, with a stack of our own in place of recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_steps: list[int] = []
    is_open: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(inside):
        if root in number:
            continue
        walk = [(root, iter(edges[root]))]
        number[root] = low[root] = len(number)
        open_steps.append(root)
        is_open.add(root)
        while walk:
            step, rest = walk[-1]
            nearer = next((one for one in rest if one in inside and (one not in number or one in is_open)), None)
            if nearer is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[step])
                if low[step] == number[step]:
                    found.append(_closed(step, open_steps, is_open))
            elif nearer in number:
                low[step] = min(low[step], number[nearer])
            else:
                number[nearer] = low[nearer] = len(number)
                open_steps.append(nearer)
                is_open.add(nearer)
                walk.append((nearer, iter(edges[nearer])))
    return found


def _closed(step: int, open_steps: list[int], is_open: set[int]) -> list[int]:
    group: list[int] = []
    while not group or group[-1] != step:
        group.append(open_steps.pop())
    is_open.difference_update(group)
    return group
