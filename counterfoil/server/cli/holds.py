"""`hold` and `release`: an operator stops what may be sent, at once and for every server on this ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...registry.nearest import nearest
from ...registry.vocabulary import HOLD_KINDS
from ...visible import visible
from .answer import part, parts
from .doors import account, with_app
from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .ports import App, View
from .screen import Screen

_NEEDS: Final = f"expected one of {', '.join(HOLD_KINDS)}, and a name for each but all"


def hold(invocation: Invocation, kind: str | None, name: str | None, reason: str | None) -> int:
    """Stop these dispatches; without a kind show what is held."""
    if kind is None:
        return _show(invocation)
    _check(kind, name)

    async def use(app: App) -> View:
        if kind == "tool":
            _require_tool(app, name or "")
        return await app.runtime.holding.hold(kind, name or "", by=account(), reason=reason or "")

    return _tell(invocation, with_app(invocation, use), f"Held: {_named(kind, name)}. What was sent goes to its end.")


def release(invocation: Invocation, kind: str, name: str | None) -> int:
    """Let these be sent again."""
    _check(kind, name)

    async def use(app: App) -> View:
        return await app.runtime.holding.release(kind, name or "", by=account())

    return _tell(invocation, with_app(invocation, use), f"Released: {_named(kind, name)}. A running server goes on.")


def _show(invocation: Invocation) -> int:
    view = with_app(invocation, lambda app: app.runtime.holding.all()).wire()
    Screen.of(invocation).answer(view, _table(parts(view, "holds")))
    return Exit.DONE


def _tell(invocation: Invocation, view: View, said: str) -> int:
    wire = view.wire()
    if view.is_error:
        error = part(wire, "error")
        raise CommandError(Exit.NO, str(error.get("code")), str(error.get("message")), error.get("details") or {})
    if wire["hold"] is None:
        raise CommandError(Exit.NO, "not_found", "that is not held; `counterfoil hold` lists what is")
    Screen.of(invocation).answer(wire, Text(said))
    return Exit.DONE


def _check(kind: str, name: str | None) -> None:
    if kind not in HOLD_KINDS or (kind == "all") != (name is None):
        raise usage(f"{_NEEDS}; got {visible(_named(kind, name))!r}")


def _require_tool(app: App, name: str) -> None:
    """A slip of the pen must not look like a hold. What is held already can be released whether it is there or not."""
    names = app.catalogue.names()
    if name not in names:
        near = nearest(name, names)
        meant = f"did you mean {near}?" if near else "`counterfoil tools list` names them."
        said = f"Nothing was held: there is no tool {visible(name)} in this configuration; {meant}"
        raise CommandError(Exit.NO, "unknown_tool", said, {"nearest": near})


def _named(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind} {name}"


def _table(holds: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not holds:
        return Text("Nothing is held.")
    table = Table("held", "since", "by", "why", box=None)
    for one in holds:
        what = f"{one['kind']} {one['name']}".rstrip()
        table.add_row(visible(what), str(one["since"]), visible(str(one["by"])), visible(str(one["reason"])))
    return table
