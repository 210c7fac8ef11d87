"""`approvals`: a person sees the exact proposal and decides it, at a terminal.

Typing the first characters of the digest ties the decision to what was on the screen. Without a terminal nobody is
known to have looked, so a decision is refused unless the configuration allows automation and the digest is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from rich.console import RenderableType

from ...canonical import JsonValue
from ...visible import masked
from . import following, render
from .answer import part
from .doors import account, with_app
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import App, View
from .screen import Screen

CODE_LENGTH = 6
Via = Literal["cli", "automation"]
_NOBODY: Final = (
    "a decision needs a person at a terminal, and this is none. A script may decide only where the configuration says "
    "so ([approvals] automation = true), and names what it decides with --digest"
)
_AFTER: Final = {
    "approve": "Approved. A running server sends it now; without one, repeat the call or start `counterfoil serve`.",
    "reject": "Rejected. It will not be sent.",
}
_AFTER_STEP: Final = {
    "approve": "Approved. A running server goes on with its run now; without one, take it up with the command above.",
    "reject": "Rejected. It will not be sent; a running server ends its run, or the command above does.",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What was asked for on the command line."""

    decision: Literal["approve", "reject"]
    digest: str | None = None
    note: str | None = None


def show_all(invocation: Invocation, *, pending_only: bool) -> int:
    """List proposals."""

    async def use(app: App) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        found = await app.runtime.approvals(pending_only=pending_only)
        views: list[Mapping[str, Any]] = [view.wire() for view in found]
        return views, [{**view, "arguments": _masked(app, view)} for view in views]

    views, shown = with_app(invocation, use)
    Screen.of(invocation).answer({"approvals": views}, render.approvals_list(shown))
    return Exit.DONE


def show(invocation: Invocation, approval_id: str) -> int:
    """Show one proposal."""

    async def use(app: App) -> tuple[Mapping[str, Any], bool]:
        view = await app.runtime.approval(approval_id)
        if not view.is_error:
            wire = view.wire()
            Screen.of(invocation).answer(wire, _panel(app, wire), following.commands_of_approval(wire))
        return view.wire(), view.is_error

    view, refused = with_app(invocation, use)
    if refused:
        raise _refusal(view)
    return Exit.DONE


def decide(invocation: Invocation, approval_id: str, decision: Decision) -> int:
    """Show the proposal, make sure of a person or of automation, and record the decision.

    Nothing is open while a person thinks: no event loop stands still, and the digest is looked at again afterwards.
    """
    screen = Screen.of(invocation)
    shown = with_app(invocation, lambda app: _proposal(app, approval_id))
    via = _person_or_automation(screen, shown, decision)
    digest = str(shown.wire["digest"] if via == "cli" else decision.digest)
    after = with_app(invocation, lambda app: _record(app, shown.wire["approval_id"], decision, digest, via))
    said = (_AFTER_STEP if after.wire.get("run_id") else _AFTER)[decision.decision]
    screen.answer(after.wire, after.panel, [*following.commands_of_approval(after.wire), said])
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _Shown:
    """A proposal, as it is told to programs and to a person, and whether a script may decide here."""

    wire: Mapping[str, Any]
    panel: RenderableType
    automation: bool


async def _proposal(app: App, approval_id: str) -> _Shown:
    return _shown(app, await app.runtime.approval(approval_id))


async def _record(app: App, approval_id: str, decision: Decision, digest: str, via: Via) -> _Shown:
    from ...runtime.deciding import Decider  # noqa: PLC0415 (only a decision needs it)

    decider = Decider(by=account(), strength="same_user", via=via)
    return _shown(
        app,
        await app.runtime.decide(approval_id, decision.decision, digest=digest, note=decision.note, decider=decider),
    )


def _shown(app: App, view: View) -> _Shown:
    wire = view.wire()
    if view.is_error:
        raise _refusal(wire)
    return _Shown(wire, _panel(app, wire), app.config.approvals.automation)


def _person_or_automation(screen: Screen, shown: _Shown, decision: Decision) -> Via:
    """Who decides here; nobody may decide what another digest than the named one is of."""
    if decision.digest is not None and decision.digest != shown.wire["digest"]:
        look = f"counterfoil approvals show {shown.wire['approval_id']}"
        raise _invalid(
            f"that is not the digest of this proposal; look at it again: {look}", {"approval": dict(shown.wire)}
        )
    if decision.digest is not None and shown.automation:
        return "automation"
    if not screen.has_person():
        raise _invalid(_NOBODY)
    _ask(screen, shown, decision)
    return "cli"


def _ask(screen: Screen, shown: _Shown, decision: Decision) -> None:
    screen.say(shown.panel, copy=[f"digest {shown.wire['digest']}"])
    code = str(shown.wire["digest"])[:CODE_LENGTH]
    question = f"To {decision.decision} exactly this, type the first {CODE_LENGTH} characters of its digest: "
    typed = screen.ask(question, otherwise="nothing was decided")
    if typed.lower() != code.lower():
        raise _invalid("these are other characters; nothing was decided")


def _panel(app: App, view: Mapping[str, Any]) -> RenderableType:
    entry = app.catalogue.get(view["tool"])
    return render.approval_panel(view, _masked(app, view), entry.contract.recovery_class if entry else None)


def _masked(app: App, view: Mapping[str, Any]) -> JsonValue:
    """The arguments for a person's eyes; without the tool nobody knows what is sensitive in them."""
    entry = app.catalogue.get(view["tool"])
    return masked(view["arguments"], entry.contract.gate.sensitive) if entry else view["arguments"]


def _refusal(view: Mapping[str, Any]) -> CommandError:
    error = part(view, "error")
    return CommandError(
        Exit.NO, str(error.get("code", "internal")), str(error.get("message", "refused")), error.get("details") or {}
    )


def _invalid(message: str, details: dict[str, Any] | None = None) -> CommandError:
    return CommandError(Exit.NO, "approval_invalid", message, details)
