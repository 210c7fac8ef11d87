"""What a person sees while a run moves: its steps, drawn anew after each event; without a terminal nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live

from . import run_events
from .answer import View, parts
from .doors import now
from .run_page import live
from .screen import Screen

LINES: Final = 6
"""How many of the latest events stand below the steps."""
_AROUND: Final = 12
"""The lines of a screen that the header and the margin need."""
_LEAST: Final = 5


class Watcher(AbstractContextManager["Watcher"]):
    """Draws a run where somebody looks; what it drew is gone afterwards, and the answer stands in its place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: list[View] = []
        self._whose = run_events.Steps()
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    @classmethod
    def of(cls, screen: Screen) -> Self:
        """One on this screen."""
        return cls(screen.console)

    @property
    def show(self) -> Callable[[View], None] | None:
        """What draws a look at the run; None where nobody looks."""
        return None if self._live is None else self._show

    def _show(self, view: View) -> None:
        self._latest = [*self._latest, *map(self._whose.of, parts(view, "events"))][-LINES:]
        if self._live is not None and not view.get("more"):
            self._live.update(self._drawn(view), refresh=True)

    def _drawn(self, view: View) -> RenderableType:
        room = max(_LEAST, self._console.height - _AROUND - LINES)
        events = (run_events.event_line(event, view.get("started_at")) for event in self._latest)
        return Group(live(view, now(), most=room), "", *events)

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the screen as it was."""
        if self._live is not None:
            self._live.stop()


class Printer:
    """Prints each event on a line of its own, where no terminal draws."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._whose = run_events.Steps()

    def show(self, view: View) -> None:
        """Print what this look at the run has new."""
        for event in map(self._whose.of, parts(view, "events")):
            self._screen.line(run_events.event_line(event, view.get("started_at")))
