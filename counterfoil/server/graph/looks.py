"""How a state, an effect and an undo look: a sign, a word, a colour and an outline each. None says anything alone.

Colours are light, and text on them is nearly black: at least 12 to 1.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from ...visible import visible
from .model import Graph, Node, Undone

INK: Final = "#1a1a1a"


@dataclass(frozen=True, slots=True)
class Look:
    """`sign` stands before the state's word; an empty `dash` is a whole outline; `ends` are the shape in Mermaid."""

    sign: str
    fill: str
    line: str
    dash: str = ""
    ends: tuple[str, str] = ("[", "]")


_WAITING: Final = Look("…", "#ffffff", "#5f6368", ends=("[", "]"))
_PERSON: Final = Look("?", "#fff0c2", "#8a5a00", "8 3", ("{{", "}}"))
_DONE: Final = Look("✓", "#d9f0dc", "#1b6b2f", ends=("(", ")"))
_WRONG: Final = Look("✗", "#fbd9d5", "#a1211a", ends=("[[", "]]"))
_LEFT_OUT: Final = Look("◌", "#ececec", "#5f6368", "3 3", (">", "]"))
LOOKS: Final = {
    "waiting": _WAITING,
    "ready": _WAITING,
    "running": Look("▶", "#d6e8fb", "#1c5a9c", ends=("([", "])")),
    "awaiting_approval": _PERSON,
    "awaiting_reconciliation": Look("‽", "#ffe0b8", "#9a4a00", "8 3", ("{{", "}}")),
    "awaiting_external": Look("⇄", "#e6defa", "#5a3ea1", "8 3", ("{{", "}}")),
    "succeeded": _DONE,
    "failed": _WRONG,
    "rejected": Look("⊘", "#fbd9d5", "#a1211a", "3 3", ("[[", "]]")),
    "skipped": _LEFT_OUT,
    "not_run": _LEFT_OUT,
    "cancelled": Look("□", "#ececec", "#5f6368", "3 3", (">", "]")),
}
PLANNED: Final = Look("", "#ffffff", "#5f6368")
"""A step of a plan that does not run yet."""


def look_of(node: Node) -> Look:
    """How a step looks; a state that is not known here looks like one that waits."""
    return PLANNED if node.state is None else LOOKS.get(node.state, _WAITING)


def said(text: object) -> str:
    """Text that somebody else wrote, on one line, with what is unseen written out."""
    return visible(" ".join(str(text).split()) if str(text).strip() else str(text))


def lines_of(node: Node) -> list[str]:
    """What is written of a step, its name first."""
    name = said(node.id) if node.stands_for == 1 else f"{node.stands_for} steps: {said(node.id)}"
    lines = [name, said(node.tool) + (f" {said(node.version)}" if node.version else "")]
    needs = [said(node.effect)] if node.effect else []
    needs += [f"approval {said(node.approval)}"] if node.approval not in (None, "none") else []
    if needs:
        lines.append(", ".join(needs))
    if node.state is not None:
        tries = f", {node.attempts} attempts" if node.attempts > 1 and not node.items else ""
        lines.append(f"{look_of(node).sign} {_words(node.state)}{tries}")
    marks = ["when"] if node.conditional else []
    marks += ["for each"] if node.repeats and not node.items else []
    marks += ["after any end"] if node.any_end else []
    marks += ["may fail"] if node.may_fail else []
    if marks:
        lines.append(", ".join(marks))
    if node.items:
        counts = ", ".join(f"{count} {_words(state)}" for state, count in node.items.items())
        lines.append(f"{sum(node.items.values())} items: {counts}")
    if node.waits:
        lines.append(f"awaits {said(node.waits)}")
    if node.reason:
        lines.append(said(node.reason))
    return lines


def wrapped(text: str, cells: int, most: int = 1) -> list[str]:
    """A text on at most so many lines of so many cells, with a mark where the rest is left out; at words, if it can."""
    lines: list[str] = []
    while len(lines) < most - 1 and (size := _fitting(text, cells)) < len(text):
        at = text.rfind(" ", 0, size + 1)
        at = at if at > 0 else size
        lines.append(text[:at])
        text = text[at:].lstrip(" ")
    return [*lines, text if _fitting(text, cells) == len(text) else f"{text[: _fitting(text, cells - 1)]}…"]


def _fitting(text: str, cells: int) -> int:
    """How many characters fit; a wide one takes two cells."""
    for index, one in enumerate(text):
        cells -= 2 if unicodedata.east_asian_width(one) in "WF" else 1
        if cells < 0:
            return index
    return len(text)


def undo_line(undos: tuple[Undone, ...]) -> str | None:
    """What has become of a step's effects, in a line; None where nothing was to be undone."""
    if not undos:
        return None
    states = dict.fromkeys(undo.state for undo in undos)
    counts = [(sum(undo.state == state for undo in undos), _words(state)) for state in states]
    told = counts[0][1] if len(undos) == 1 else ", ".join(f"{count} {state}" for count, state in counts)
    tools = ", ".join(dict.fromkeys(said(undo.tool) for undo in undos if undo.tool))
    return f"↶ undo{f' by {tools}' if tools else ''}: {told}"


def sentence(graph: Graph) -> str:
    """The picture in words, for whoever does not see it."""
    steps, last = sum(node.stands_for for node in graph.nodes), max((node.wave for node in graph.nodes), default=-1)
    told = [f"{_counted(steps, 'step')} in {_counted(last + 1, 'wave')}"]
    if graph.status is not None:
        why = f" ({said(graph.reason)})" if graph.reason else ""
        told.append(f"the run is {_words(graph.status)}{why}")
        counts: dict[str, int] = {}
        for node in graph.nodes:
            counts[str(node.state)] = counts.get(str(node.state), 0) + node.stands_for
        told.append(", ".join(f"{count} {_words(state)}" for state, count in sorted(counts.items())))
    if graph.compensation not in (None, "none"):
        told.append(f"compensation {_words(graph.compensation)}")
    return "; ".join(told) + "."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _words(state: object) -> str:
    return said(state).replace("_", " ")
