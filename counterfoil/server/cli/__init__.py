"""The command line. `main` is the console script.

`serve` is on the way of every client's start, so nothing here imports typer or rich before it is known that another
command was asked for.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from .exits import CommandError, Exit
from .invocation import Invocation, check_text, command_of, split
from .plain import refuse
from .serving import options_of


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line; the exit code of section 11 of the design."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        invocation, rest = split(arguments)
        check_text(rest)
        if command_of(rest) == "serve":
            return _serve(invocation, rest[1:])
        from .commands import run  # noqa: PLC0415 (typer and rich stay out of `serve`)

        return run(invocation, rest)
    except CommandError as error:
        return refuse(error, json_mode="--json" in arguments)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _serve(invocation: Invocation, options: Sequence[str]) -> int:
    stated = options_of(options)
    gc.disable()  # collecting while a thousand modules load costs a fifth of the start
    try:
        from ..serve import serve  # noqa: PLC0415 (the other commands need no MCP server)
    finally:
        gc.enable()
        gc.freeze()
    return serve(invocation.config, stated)
