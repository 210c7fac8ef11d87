"""A timeline on a screen: a line for each row, blocks and colours on a terminal, plain characters elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions
from rich.text import Text

from .timeline import Mark, Row, Timeline

WIDTH: Final = 46
"""How many columns the whole time takes: with names, outcomes and gaps it fits into 80."""
_LABEL: Final = 8
_TICKS_S: Final = (0.5, 1, 2, 5, 10, 20, 60)
_DRAWN: Final = {
    Mark.SERVES: ("─", "-", "cyan", "alive"),
    Mark.KILLED: ("✗", "X", "red", "killed"),
    Mark.WAITS: ("░", ".", "yellow", "waits for a person"),
    Mark.SENT: ("█", "=", "green", "sent"),
    Mark.UNKNOWN: ("▒", "?", "red", "unknown"),
}
"""The block, the plain character, the colour and the meaning of each mark."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What rich draws of a timeline."""

    timeline: Timeline

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        plain = options.ascii_only or not console.is_terminal
        names = max(len(row.name) for row in self.timeline.rows) + 2
        yield Text(" " * names + self._axis(), style="dim", no_wrap=True)
        for row in self.timeline.rows:
            yield Text(f"{row.name:{names}}", no_wrap=True) + self._bar(row, plain=plain) + Text(f"  {row.end}")
        yield Text(" " * names) + Text("  ").join(_key(mark, plain=plain) for mark in _DRAWN)

    def _axis(self) -> str:
        """Seconds, as close as their labels allow."""
        seconds = self.timeline.seconds
        step = next((tick for tick in _TICKS_S if seconds / tick * _LABEL <= WIDTH), seconds)
        axis = ""
        for n in range(int(seconds / step) + 1):
            axis = f"{axis:{self._column(n * step)}}{n * step:g} s"
        return axis

    def _bar(self, row: Row, *, plain: bool) -> Text:
        cells: list[Mark | None] = [None] * WIDTH
        begin = -1
        for span in row.spans:
            begin = min(max(self._column(span.begin), begin + 1), WIDTH - 1)  # a column at least for the one before
            end = min(max(math.ceil(span.end / self.timeline.seconds * WIDTH), begin + 1), WIDTH)
            cells[begin:end] = [span.mark] * (end - begin)
        return Text.assemble(*(_cell(mark, plain=plain) for mark in cells))

    def _column(self, at: float) -> int:
        return int(at / self.timeline.seconds * WIDTH)


def _cell(mark: Mark | None, *, plain: bool) -> tuple[str, str]:
    if mark is None:
        return " ", ""
    block, character, style, _ = _DRAWN[mark]
    return character if plain else block, style


def _key(mark: Mark, *, plain: bool) -> Text:
    return Text.assemble(_cell(mark, plain=plain), (f" {_DRAWN[mark][3]}", "dim"))
