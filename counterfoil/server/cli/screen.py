"""Where a command's answer goes: JSON on stdout for programs, or a rendering for a person.

With `--json` stdout holds exactly one JSON document and everything for people goes to stderr.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from .exits import CommandError, Exit
from .invocation import Invocation
from .plain import print_json


class Screen:
    """One command's stdout and stderr."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.console = Console(stderr=json, markup=False, highlight=False, emoji=False, soft_wrap=False)

    @classmethod
    def of(cls, invocation: Invocation) -> Screen:
        """The screen that this command line asked for."""
        return cls(json=invocation.json)

    def answer(self, data: Any, shown: RenderableType, copy: Iterable[str] = ()) -> None:  # noqa: ANN401 (any JSON value)
        """The command's one answer, in the form that was asked for; a person can copy the last lines whole."""
        if self.json:
            print_json(data)
        else:
            self.say(shown, copy=copy)

    def say(self, shown: RenderableType, style: str = "", copy: Iterable[str] = ()) -> None:
        """Something for a person, beside the answer; the lines of `copy` are never wrapped or cut."""
        self.console.print(Text(shown, style=style) if isinstance(shown, str) else shown)
        for line in copy:
            self.line(Text(line))

    def line(self, shown: Text) -> None:
        """One line, never wrapped or cut."""
        self.console.print(shown, soft_wrap=True)

    def ask(self, question: str, *, otherwise: str) -> str:
        """Ask the person at the terminal. Only where `has_person` is true.

        Raises:
            CommandError: Ctrl-C or Ctrl-D instead of an answer; its message ends with `otherwise`.
        """
        try:
            typed = self._line_typed(question)
        except KeyboardInterrupt:
            self.console.print()
            raise CommandError(Exit.INTERRUPTED, "interrupted", otherwise) from None
        if not typed:
            self.console.print()
            raise CommandError(Exit.NO, "nothing_typed", f"nothing was typed; {otherwise}")
        return typed.strip()

    def _line_typed(self, question: str) -> str:
        """A line with its end, or nothing at the end of the input.

        One Ctrl-C ends the wait, whatever handler another part has set.
        """
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.console.print(Text(question), end="")
            return sys.stdin.readline()
        finally:
            signal.signal(signal.SIGINT, before)

    @staticmethod
    def has_person() -> bool:
        """True if somebody can read a question and type an answer."""
        return sys.stdin.isatty()
