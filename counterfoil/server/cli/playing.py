"""`demo`: starts the play and gives its result."""

from __future__ import annotations

import asyncio
from pathlib import Path

from .exits import CommandError, Exit
from .invocation import Invocation
from .plain import print_json
from .screen import Screen


def demo(invocation: Invocation, keep: Path | None) -> int:
    """Play the main job on real parts."""
    from ..demo.play import play  # noqa: PLC0415 (no other command needs an MCP client)
    from ..demo.stage import PlayError  # noqa: PLC0415

    screen = Screen.of(invocation)
    try:
        result = asyncio.run(play(screen.say, keep))
    except PlayError as error:
        raise CommandError(Exit.NO, "demo_failed", f"the demo stopped: {error}") from error
    if invocation.json:
        print_json(result.wire())
    return Exit.DONE if result.ok else Exit.NO
