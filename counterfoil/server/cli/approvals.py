"""`approvals`: a person sees the exact proposal and decides it, at a terminal.

Typing the first characters of the digest ties the decision to what was on the screen. Without a terminal nobody is
known to have looked, so a decision is refused unless the configuration allows automation and the digest is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Literal

from rich.console import Group, RenderableType

from ...canonical import JsonValue
from ...visible import masked
from . import following, render
from .answer import part
from .doors import account, server_of, with_app
from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .ports import App, View
from .screen import Screen

CODE_LENGTH = 6
Via = Literal["cli", "automation"]
_NOBODY: Final = (
    "a decision needs a person at a terminal, and this is none. A script may decide only where the configuration says "
    "so ([approvals] automation = true), and names what it decides with --digest"
)
_NO_LONGER: Final = {"reject": "Rejected. It will not be sent.", "revoke": "Taken back. It will not be sent."}


@dataclass(frozen=True, slots=True)
class Decision:
    """What was asked for on the command line."""

    decision: Literal["approve", "reject", "revoke"]
    digests: tuple[str, ...] = ()
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


def decide(invocation: Invocation, approval_ids: Sequence[str], decision: Decision) -> int:
    """Show each proposal, make sure of a person or of automation, and record each decision before the next is shown.

    Nothing is open while a person thinks: no event loop stands still, and the digest is looked at again afterwards.
    """
    if decision.digests and len(decision.digests) != len(approval_ids):
        raise usage(f"{len(approval_ids)} approvals and {len(decision.digests)} digests; name one --digest for each ID")
    screen, done = Screen.of(invocation), list[_Shown]()
    for approval_id, digest in zip_longest(approval_ids, decision.digests):
        try:
            done.append(_decide(invocation, screen, approval_id, decision, digest))
        except CommandError as error:
            raise _after_some(error, done) from None
    wires = [one.wire for one in done]
    said = [line for one in done for line in (*following.commands_of_approval(one.wire), _said(decision, one))]
    screen.answer(wires[0] if len(wires) == 1 else {"decided": wires}, Group(*(one.panel for one in done)), said)
    return Exit.DONE


def _decide(invocation: Invocation, screen: Screen, approval_id: str, decision: Decision, digest: str | None) -> _Shown:
    shown = with_app(invocation, lambda app: _proposal(app, approval_id))
    via = _person_or_automation(screen, shown, decision, digest)
    bound = str(shown.wire["digest"] if via == "cli" else digest)
    return with_app(invocation, lambda app: _record(app, shown.wire["approval_id"], decision, bound, via))


def _after_some(error: CommandError, done: list[_Shown]) -> CommandError:
    """The same error where others were decided before it: these stay decided, and are named."""
    if not done:
        return error
    names = [str(one.wire["approval_id"]) for one in done]
    message = f"{error.message}; decided before it, and so recorded: {', '.join(names)}"
    return CommandError(error.exit_code, error.code, message, error.details | {"decided": names})


def _said(decision: Decision, done: _Shown) -> str:
    """What follows a decision, as far as the ledger knows: whether another process has it open."""
    if decision.decision != "approve":
        return _NO_LONGER[decision.decision]
    if done.server is not None:
        return (
            f"Approved. Process {done.server} has this ledger open; as a server with this tool, it goes on with it now."
        )
    return "Approved. No server is up: start `counterfoil serve`, which goes on with it before its window ends."


@dataclass(frozen=True, slots=True)
class _Shown:
    """A proposal, as it is told to programs and to a person, and whether a script may decide here."""

    wire: Mapping[str, Any]
    panel: RenderableType
    automation: bool
    server: int | None


async def _proposal(app: App, approval_id: str) -> _Shown:
    return _shown(app, await app.runtime.approval(approval_id))


async def _record(app: App, approval_id: str, decision: Decision, digest: str, via: Via) -> _Shown:
    from ...runtime.deciding import Decider  # noqa: PLC0415 (only a decision needs it)

    decider = Decider(by=account(), strength="same_user", via=via)
    if decision.decision == "revoke":
        return _shown(app, await app.runtime.revoke(approval_id, digest=digest, note=decision.note, decider=decider))
    word = decision.decision
    return _shown(app, await app.runtime.decide(approval_id, word, digest=digest, note=decision.note, decider=decider))


def _shown(app: App, view: View) -> _Shown:
    wire = view.wire()
    if view.is_error:
        raise _refusal(wire)
    return _Shown(wire, _panel(app, wire), app.config.approvals.automation, server_of(app.config.ledger_path))


def _person_or_automation(screen: Screen, shown: _Shown, decision: Decision, digest: str | None) -> Via:
    """Who decides here; nobody may decide what another digest than the named one is of."""
    if digest is not None and digest != shown.wire["digest"]:
        look = f"counterfoil approvals show {shown.wire['approval_id']}"
        raise _invalid(
            f"that is not the digest of this proposal; look at it again: {look}", {"approval": dict(shown.wire)}
        )
    if digest is not None and shown.automation:
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
    if entry is None:
        return render.approval_panel(view, _masked(app, view), None, None)
    recovery = entry.contract.recovery
    undone_by = recovery.compensation or "nothing"
    return render.approval_panel(view, _masked(app, view), entry.contract.recovery_class, undone_by)


def _masked(app: App, view: Mapping[str, Any]) -> JsonValue:
    """The arguments for a person's eyes; without the tool nobody knows what is sensitive in them."""
    entry = app.catalogue.get(view["tool"])
    arguments: JsonValue = view["arguments"]
    if entry is None:
        return arguments
    sensitive = entry.contract.gate.sensitive
    if view.get("items") and isinstance(arguments, list):
        return [masked(one, sensitive) for one in arguments]
    return masked(arguments, sensitive)


def _refusal(view: Mapping[str, Any]) -> CommandError:
    error = part(view, "error")
    return CommandError(
        Exit.NO, str(error.get("code", "internal")), str(error.get("message", "refused")), error.get("details") or {}
    )


def _invalid(message: str, details: dict[str, Any] | None = None) -> CommandError:
    return CommandError(Exit.NO, "approval_invalid", message, details)
