"""`signal`: a far side may be done with what it accepted, so it is asked now; nothing is settled here."""

from __future__ import annotations

from rich.text import Text

from ...visible import visible
from .answer import part, parts
from .doors import with_app
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import App, View
from .screen import Screen


def signal(invocation: Invocation, name: str, step: str | None) -> int:
    """Have the far side of a step, or of a direct call, asked by whichever server has its tool."""

    async def use(app: App) -> View:
        return await app.runtime.signals.signal(name, step)

    view = with_app(invocation, use)
    wire = view.wire()
    if view.is_error:
        error = part(wire, "error")
        raise CommandError(Exit.NO, str(error.get("code")), str(error.get("message")), error.get("details") or {})
    woken = [str(one["step"] or one["call_id"]) for one in parts(wire, "signalled")]
    said = (
        f"Woken: {', '.join(woken)}. A running server that has the tool asks the far side now, and its answer decides."
    )
    Screen.of(invocation).answer(wire, Text(visible(said)))
    return Exit.DONE
