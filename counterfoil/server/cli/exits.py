"""The exit codes of the command line and the one error that its commands raise.

CommandError    what a command could not do, with its exit code and a code for programs
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Section 11 of the design."""

    DONE = 0
    NO = 1
    USAGE = 2
    WAITING = 3
    LEDGER = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """A command could not be carried out; `code` is for programs, the message for people."""

    def __init__(self, exit_code: Exit, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.details = details or {}

    def wire(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return {"ok": False, "error": {"code": self.code, "message": self.message, "details": self.details}}


def usage(message: str) -> CommandError:
    """The command line itself is wrong."""
    return CommandError(Exit.USAGE, "usage", message)
