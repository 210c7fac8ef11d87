"""The graph as one SVG file: no script, nothing fetched, readable without colour, and said in words for a reader.

Made with the standard library alone, and deterministic: the same graph has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from .folding import folded
from .layout import BOX, GAP, Layout, Segment, lay_out
from .looks import INK, lines_of, look_of, said, sentence, undo_line, wrapped
from .model import Edge, EdgeKind, Graph, Node

MOST_EDGES: Final = 20_000
"""Dependencies beyond these are counted and not drawn."""
_LINE: Final = 17.0
_PAD: Final = 10.0
_BETWEEN: Final = 46.0
_TOP: Final = 64.0
_BOTTOM: Final = 64.0
_LEAST_WIDTH: Final = 640.0
_CELLS: Final = 36
"""Cells of text in a box; a wide character takes two."""
_DASHES: Final = ' stroke-dasharray="5 4"'
_KINDS: Final = {EdgeKind.VALUE: "is given a value", EdgeKind.ORDER: "only waits"}
_HEAD: Final = 2
"""The first lines, name and tool, are cut and not wrapped."""
_MOST_LINES: Final = 3
_GREY: Final = "#4a4d51"
_FONT: Final = 'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif"'
_HEADS: Final = (
    '<defs><marker id="cf-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    f'<path d="M0 0 8 4 0 8Z" fill="{_GREY}"/></marker></defs>'
)


def svg(graph: Graph) -> str:
    """The drawing as a whole document, the first wave at the top."""
    shown = folded(graph)
    edges = shown.edges[:MOST_EDGES]
    layout = lay_out([node.wave for node in shown.nodes], edges, least=_LEAST_WIDTH)
    return "\n".join(_Drawing(graph, shown.nodes, edges, layout, len(shown.edges) - len(edges)).parts()) + "\n"


class _Drawing:
    """One drawing: heights are known once all texts are."""

    def __init__(
        self, graph: Graph, nodes: Sequence[Node], edges: Sequence[Edge], layout: Layout, left_out: int
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.edges = edges
        self.layout = layout
        self.left_out = left_out
        self.texts = [_text_of(node) for node in nodes]
        self.tops: list[float] = []
        self.heights: list[float] = []
        bottom = _TOP
        for row in layout.rows:
            boxes = [_height(self.texts[spot]) for spot in row if spot < len(nodes)]
            self.tops.append(bottom)
            self.heights.append(max(boxes, default=0.0))
            bottom += self.heights[-1] + _BETWEEN
        self.bottom = bottom - (_BETWEEN if layout.rows else 0.0)

    def parts(self) -> Iterator[str]:
        """The document, line by line."""
        width, height = self.layout.width, self.bottom + _BOTTOM
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        goal = said(self.graph.goal) or "A chain of steps"
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="cf-title cf-desc" {_FONT}>'
        yield f'<title id="cf-title">{escape(goal)}</title>'
        yield f'<desc id="cf-desc">{escape(sentence(self.graph))}</desc>'
        yield _HEADS
        yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
        yield _text(GAP, 28, wrapped(goal, int((width - 2 * GAP) / 10))[0], size=16, bold=True)
        yield _text(GAP, 48, wrapped(sentence(self.graph), int((width - 2 * GAP) / 7))[0], ink=_GREY)
        yield f'<g fill="none" stroke="{_GREY}" stroke-width="1.4">'
        yield from map(self._path, self.layout.segments)
        yield "</g>"
        for place, node in enumerate(self.nodes):
            yield from self._box(place, node)
        yield from self._legend(height)
        yield "</svg>"

    def _path(self, segment: Segment) -> str:
        spots = self.layout.spots
        above, below = spots[segment.above], spots[segment.below]
        top = self.tops[above.row]
        start = top if above.node is None else top + self._height_of(segment.above)
        bottom, end = top + self.heights[above.row], self.tops[below.row]
        half = (end - bottom) / 2
        curve = f"C{above.x:.1f} {bottom + half:.1f} {below.x:.1f} {end - half:.1f} {below.x:.1f} {end:.1f}"
        dashed = _DASHES if segment.kind is EdgeKind.ORDER else ""
        head = ' marker-end="url(#cf-head)"' if segment.ends else ""
        return f'<path d="M{above.x:.1f} {start:.1f}V{bottom:.1f}{curve}"{dashed}{head}/>'

    def _height_of(self, place: int) -> float:
        return _height(self.texts[place])

    def _box(self, place: int, node: Node) -> Iterator[str]:
        spot, look = self.layout.spots[place], look_of(node)
        left, top, height = spot.x - BOX / 2, self.tops[spot.row], self._height_of(place)
        thick = 3 if node.effect == "destructive" else 1.5
        dashed = f' stroke-dasharray="{look.dash}"' if look.dash else ""
        round_ = 12 if look.ends[0].startswith("(") else 3
        yield f"<g><title>{escape('; '.join(_whole(node)))}</title>"
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{BOX:.0f}" height="{height:.1f}" rx="{round_}" '
            f'fill="{look.fill}" stroke="{look.line}" stroke-width="{thick}"{dashed}/>'
        )
        for number, (text, bold) in enumerate(self.texts[place]):
            yield _text(left + _PAD, top + _PAD + _LINE * (number + 1) - 5, text, bold=bold)
        yield "</g>"

    def _legend(self, height: float) -> Iterator[str]:
        y, at, kinds = height - 26, GAP, {edge.kind for edge in self.edges}
        for kind, told in _KINDS.items():
            if kind not in kinds:
                continue
            dashed = _DASHES if kind is EdgeKind.ORDER else ""
            line = f'stroke="{_GREY}" stroke-width="1.4"{dashed} marker-end="url(#cf-head)"'
            yield f'<path d="M{at:.0f} {y - 4:.0f}h36" {line}/>'
            yield _text(at + 44, y, told, ink=_GREY)
            at += 64 + 7 * len(told)
        if self.left_out:
            yield _text(at, y, f"{self.left_out:,} more dependencies are not drawn.", ink=_GREY)
        elif any(node.effect == "destructive" for node in self.nodes):
            yield _text(at, y, "A thick outline is a destructive step.", ink=_GREY)


def _text(x: float, y: float, text: str, *, size: int = 12, ink: str = INK, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{ink}"{weight}>{escape(text)}</text>'


def _whole(node: Node) -> list[str]:
    undo = undo_line(node.undos)
    return [*lines_of(node), *([undo] if undo else [])]


def _text_of(node: Node) -> list[tuple[str, bool]]:
    """The lines of a box, as wide as it is, and which are its name or its state."""
    sign = look_of(node).sign
    found: list[tuple[str, bool]] = []
    for number, line in enumerate(_whole(node)):
        bold = number == 0 or (bool(sign) and line.startswith(f"{sign} "))
        found += [(part, bold) for part in wrapped(line, _CELLS, 1 if number < _HEAD else _MOST_LINES)]
    return found


def _height(lines: Sequence[object]) -> float:
    return len(lines) * _LINE + 2 * _PAD - 2
