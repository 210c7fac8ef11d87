"""The graph as Mermaid text, which many places render: a flowchart whose nodes we name ourselves.

What somebody else wrote stands in quoted labels only, and every character of it that could mean something to Mermaid,
to the HTML that it makes or to Markdown around it is written as its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .folding import folded
from .looks import INK, LOOKS, PLANNED, Look, lines_of, look_of, said, sentence, undo_line, wrapped
from .model import EdgeKind, Graph, Node

LINE: Final = 48
MOST_LINES: Final = 3
"""How wide a label is, and how many lines of it one text takes at most."""
MOST_EDGES: Final = 5_000
_RAW: Final = frozenset(" _.,:()+=/…→◌✓▶□↶⇄⊘✗‽-")
_ARROWS: Final = {EdgeKind.VALUE: "-->", EdgeKind.ORDER: "-.->"}


def mermaid(graph: Graph) -> str:
    """A flowchart, the first wave at the top; the same text for the same graph."""
    shown = folded(graph)
    return "\n".join(_lines(graph, shown)) + "\n"


def _lines(graph: Graph, shown: Graph) -> Iterator[str]:
    yield "flowchart TD"
    yield f"  accTitle: {_plain(graph.goal or 'A chain of steps')}"
    yield f"  accDescr: {_plain(sentence(graph))}"
    for place, node in enumerate(shown.nodes):
        yield from _node(place, node)
    for edge in shown.edges[:MOST_EDGES]:
        yield f"  n{edge.before} {_ARROWS[edge.kind]} n{edge.after}"
    left = len(shown.edges) - MOST_EDGES
    if left > 0:
        yield f"  more[{_label([f'{left:,} more dependencies are not drawn'])}]"
    yield from _classes(shown)


def _node(place: int, node: Node) -> Iterator[str]:
    look = look_of(node)
    opening, closing = look.ends
    yield f"  n{place}{opening}{_label(lines_of(node))}{closing}:::{_class(look)}"
    undo = undo_line(node.undos)
    if undo is not None:
        yield f"  u{place}([{_label([undo])}]):::undo"
        yield f"  n{place} -. undo .-> u{place}"


def _label(lines: list[str]) -> str:
    parts = (part for line in lines for part in wrapped(line, LINE, MOST_LINES))
    return '"' + "<br/>".join(map(_escaped, parts)) + '"'


def _escaped(text: str) -> str:
    return "".join(one if one.isalnum() or one in _RAW else f"#{ord(one)};" for one in text)


def _plain(text: str) -> str:
    """For a line that Mermaid reads to its end and unescapes nothing in: letters, digits and a few signs."""
    kept = "".join(one if one.isalnum() or one in " _.,()-" else " " for one in said(text).replace(";", ","))
    return " ".join(kept.split())[:200] or "A chain of steps"


def _class(look: Look) -> str:
    """A name of ours for one look."""
    if look == PLANNED:
        return "planned"
    return next(f"s_{state}" for state, known in LOOKS.items() if known == look)


def _classes(shown: Graph) -> Iterator[str]:
    """The colours of the states that occur."""
    for look in dict.fromkeys(map(look_of, shown.nodes)):
        dashed = f",stroke-dasharray:{look.dash}" if look.dash else ""
        yield f"  classDef {_class(look)} fill:{look.fill},stroke:{look.line},color:{INK}{dashed}"
    if any(node.undos for node in shown.nodes):
        yield f"  classDef undo fill:#ffffff,stroke:#5f6368,color:{INK},stroke-dasharray:3 3"
