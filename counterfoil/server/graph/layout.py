"""Where everything stands in a layered drawing: rows from top to bottom, few crossings, long edges in lanes.

A wave is a row, or several where it is wide. An edge over several rows goes through a lane in each row between; those
with one end in common share their lanes. Deterministic, and near linear in nodes and edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from .model import Edge, EdgeKind

COLUMNS: Final = 6
"""The most nodes in a row."""
LANES: Final = 8_000
"""The most lanes in a drawing; edges beyond them are drawn straight."""
ROUNDS: Final = 6
BOX: Final = 252.0
LANE: Final = 18.0
GAP: Final = 28.0


@dataclass(slots=True)
class Spot:
    """A node (`node` is its place) or a lane, in its row; `x` is its middle."""

    row: int
    node: int | None
    width: float
    x: float = 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of edges between neighbouring rows, by places of spots; `ends` where it reaches the step that waits."""

    above: int
    below: int
    kind: EdgeKind
    ends: bool


@dataclass(slots=True)
class Layout:
    """A drawing: all spots, the nodes' first; the spots of each row from left to right; the segments; the width."""

    spots: list[Spot]
    rows: list[list[int]]
    segments: list[Segment] = field(default_factory=list[Segment])
    width: float = 0.0


def lay_out(waves: Sequence[int], edges: Sequence[Edge], least: float = 0.0) -> Layout:
    """Place nodes, whose waves are given, and route the edges between them, on at least so much width."""
    rows = _rows(waves, edges)
    spots = [Spot(0, place, BOX) for place in range(len(waves))]
    for number, row in enumerate(rows):
        for place in row:
            spots[place].row = number
    layout = Layout(spots, rows)
    layout.segments = _Router(layout, edges).routed()
    _order(layout)
    _place(layout, least)
    return layout


def _rows(waves: Sequence[int], edges: Sequence[Edge]) -> list[list[int]]:
    """The nodes of each wave near those that they wait for, in rows of at most `COLUMNS`."""
    before: list[list[int]] = [[] for _ in waves]
    for edge in edges:
        before[edge.after].append(edge.before)
    by_wave: list[list[int]] = [[] for _ in range(max(waves, default=-1) + 1)]
    for place, wave in enumerate(waves):
        by_wave[wave].append(place)
    at = [0.0] * len(waves)
    rows: list[list[int]] = []
    for members in by_wave:
        members.sort(key=lambda place: (_mean([at[one] for one in before[place]], 0.0), place))
        count = -(-len(members) // COLUMNS)
        size = -(-len(members) // count) if count else 0
        rows.extend(members[start : start + size] for start in range(0, len(members), size or 1))
        for index, place in enumerate(members):
            at[place] = (index + 0.5) / len(members)
    return rows


class _Router:
    """Leads edges through lanes."""

    def __init__(self, layout: Layout, edges: Sequence[Edge]) -> None:
        self.layout = layout
        self.edges = edges
        self.lanes: dict[Hashable, int] = {}
        self.found: dict[tuple[int, int, EdgeKind], Segment] = {}

    def routed(self) -> list[Segment]:
        """The segments, each once."""
        count = len(self.layout.spots)
        into, out = [0] * count, [0] * count
        for edge in self.edges:
            into[edge.after] += 1
            out[edge.before] += 1
        for edge in self.edges:
            rows = range(self.layout.spots[edge.before].row + 1, self.layout.spots[edge.after].row)
            if len(self.lanes) + len(rows) > LANES:
                self._add(edge, edge.before, edge.after)
            elif into[edge.after] >= out[edge.before]:
                self._lead_into(edge, rows)
            else:
                self._lead_out(edge, rows)
        return list(self.found.values())

    def _lead_into(self, edge: Edge, rows: range) -> None:
        """Down to the first lane that leads to the same step already."""
        at = edge.before
        for row in rows:
            lane, is_new = self._lane(row, (row, "into", edge.after, edge.kind))
            self._add(edge, at, lane)
            if not is_new:
                return
            at = lane
        self._add(edge, at, edge.after)

    def _lead_out(self, edge: Edge, rows: range) -> None:
        """Up to the last lane that comes from the same step already."""
        at = edge.after
        for row in reversed(rows):
            lane, is_new = self._lane(row, (row, "out", edge.before, edge.kind))
            self._add(edge, lane, at)
            if not is_new:
                return
            at = lane
        self._add(edge, edge.before, at)

    def _lane(self, row: int, key: Hashable) -> tuple[int, bool]:
        known = self.lanes.get(key)
        if known is not None:
            return known, False
        place = self.lanes[key] = len(self.layout.spots)
        self.layout.rows[row].append(place)
        self.layout.spots.append(Spot(row, None, LANE))
        return place, True

    def _add(self, edge: Edge, above: int, below: int) -> None:
        key = (above, below, edge.kind)
        self.found.setdefault(key, Segment(above, below, edge.kind, ends=below == edge.after))


def _order(layout: Layout) -> None:
    """Sort each row by where its neighbours above, then below, stand; the order with the fewest crossings stays."""
    above: list[list[int]] = [[] for _ in layout.spots]
    below: list[list[int]] = [[] for _ in layout.spots]
    for segment in layout.segments:
        above[segment.below].append(segment.above)
        below[segment.above].append(segment.below)
    best, fewest = [list(row) for row in layout.rows], _crossings(layout.rows, below)
    for turn in range(ROUNDS):
        if not fewest:
            break
        down = turn % 2 == 0
        _sweep(layout.rows if down else layout.rows[::-1], above if down else below)
        crossings = _crossings(layout.rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in layout.rows], crossings
    layout.rows[:] = best


def _sweep(rows: Sequence[list[int]], neighbours: Sequence[Sequence[int]]) -> None:
    at: dict[int, float] = {}
    for row in rows:
        own = {spot: (index + 0.5) / len(row) for index, spot in enumerate(row)}
        row.sort(key=lambda spot: (_mean([at[one] for one in neighbours[spot] if one in at], own[spot]), own[spot]))
        at |= {spot: (index + 0.5) / len(row) for index, spot in enumerate(row)}


def _crossings(rows: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> int:
    """How many pairs of segments cross, counted with a tree of sums for each two rows."""
    total = 0
    for upper, lower in pairwise(rows):
        at = {spot: index for index, spot in enumerate(lower)}
        sums = [0] * (len(lower) + 1)
        seen = 0
        for spot in upper:
            ends = sorted(at[one] for one in below[spot] if one in at)
            total += sum(seen - _sum(sums, end + 1) for end in ends)
            for end in ends:
                _add(sums, end + 1)
            seen += len(ends)
    return total


def _sum(sums: list[int], place: int) -> int:
    total = 0
    while place > 0:
        total += sums[place]
        place -= place & -place
    return total


def _add(sums: list[int], place: int) -> None:
    while place < len(sums):
        sums[place] += 1
        place += place & -place


def _place(layout: Layout, least: float) -> None:
    """Each row near the middle of what it hangs on, and none beyond the widest one: a long chain does not drift."""
    above: list[list[int]] = [[] for _ in layout.spots]
    for segment in layout.segments:
        above[segment.below].append(segment.above)
    spots = layout.spots
    packed = [_packed([spots[spot].width for spot in row]) for row in layout.rows]
    widest = max((width for _, width in packed), default=0.0)
    for row, (middles, width) in zip(layout.rows, packed, strict=True):
        wanted = [_mean([spots[one].x for one in above[spot]], 0.0) for spot in row]
        shift = _mean([want - middle for want, middle in zip(wanted, middles, strict=True)], 0.0)
        free = (widest - width) / 2
        shift = min(max(shift, -free), free)
        for place, middle in zip(row, middles, strict=True):
            spots[place].x = middle + shift
    first = min((spot.x - spot.width / 2 for spot in spots), default=0.0)
    last = max((spot.x + spot.width / 2 for spot in spots), default=0.0)
    layout.width = max(least, last - first + 2 * GAP)
    margin = (layout.width - (last - first)) / 2
    for spot in spots:
        spot.x = round(spot.x - first + margin, 1)


def _packed(widths: Sequence[float]) -> tuple[list[float], float]:
    """Middles side by side around nought, and how wide they are together."""
    found: list[float] = []
    right = 0.0
    for width in widths:
        found.append(right + width / 2)
        right += width + (GAP if width > LANE else GAP / 3)
    return [middle - right / 2 for middle in found], right


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise
