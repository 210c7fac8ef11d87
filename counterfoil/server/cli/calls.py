"""`call`, `status` and `reconcile`: the one call path, from a command line.

The command line acts for the principal of the configuration; a person's word on a reconcile is recorded as the OS
account's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...registry.request import KEY_MAX, CallRequest
from ...runtime.deciding import Decider
from . import following, render
from .answer import exit_of_call, exit_of_reconcile, exit_of_run, exit_of_run_reconcile, is_run, part, parts
from .arguments import parse_json
from .doors import account, now, with_app
from .exits import Exit, usage
from .invocation import Invocation
from .ports import App, View
from .run_events import timeline
from .run_page import run_page, runs_table
from .screen import Screen

RUN_PREFIX = "run_"
APPROVAL_PREFIX = "apr_"


class Resolution(StrEnum):
    """What a person says happened."""

    HAPPENED = "happened"
    NOT_HAPPENED = "not_happened"
    STILL_UNKNOWN = "still_unknown"


class Then(StrEnum):
    """What follows a call that did not happen."""

    RETRY = "retry"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of `call`; `wait_s` None waits for the outcome."""

    key: str | None = None
    wait_s: float | None = None
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what the MCP door refuses too.

        Raises:
            CommandError: a key that is too long.
        """
        if self.key is not None and len(self.key) > KEY_MAX:
            raise usage(f"--key has {len(self.key)} characters; it may have at most {KEY_MAX}")


@dataclass(frozen=True, slots=True)
class Word:
    """The options of `reconcile`: nothing asks the probe, a resolution is a person's word."""

    resolution: Resolution | None = None
    evidence: str | None = None
    output: str | None = None
    external_reference: str | None = None
    then: Then | None = None

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            CommandError: an option without the one that it belongs to.
        """
        if self.resolution and not (self.evidence or "").strip():
            raise usage("--resolution needs --evidence TEXT: say how you know; it is recorded with your account")
        if self.evidence and not self.resolution:
            raise usage("--evidence belongs to --resolution happened|not_happened|still_unknown")
        if self.then and self.resolution is not Resolution.NOT_HAPPENED:
            raise usage("--then belongs to --resolution not_happened")
        if self.resolution is not Resolution.HAPPENED and (self.output is not None or self.external_reference):
            raise usage("--output and --external-reference belong to --resolution happened")


def call(invocation: Invocation, name: str, arguments: str, options: CallOptions) -> int:
    """Call a tool."""
    options.check()
    source = sys.stdin.buffer.read() if arguments == "-" else arguments.encode("utf-8", "surrogateescape")
    parsed = parse_json(source, "the arguments")

    async def use(app: App) -> Exit:
        view = await app.runtime.call(
            CallRequest(
                principal=app.local,
                tool=name,
                arguments=parsed,
                idempotency_key=options.key,
                dry_run=options.dry_run,
                wait_s=options.wait_s,
                wait_given=options.wait_s is not None,
            )
        )
        wire = await _shown(app, invocation, view, render.call_panel)
        return exit_of_call(wire)

    return with_app(invocation, use)


def status(invocation: Invocation, call_id: str | None, wait_s: float) -> int:
    """Show one call, or what is open."""
    _refuse_approvals(call_id)

    async def use(app: App) -> Exit:
        view = await app.runtime.status(app.local, **_named(call_id), wait_s=wait_s)
        wire = await _shown(app, invocation, view, partial(_one, asked=call_id) if call_id else _open)
        if view.is_error:
            return Exit.NO
        if is_run(wire):
            return exit_of_run(wire, refused=False)
        return exit_of_call(wire) if call_id else Exit.DONE

    return with_app(invocation, use)


def reconcile(invocation: Invocation, call_id: str, word: Word) -> int:
    """Ask the probe, or record a person's word."""
    word.check()
    _refuse_approvals(call_id)
    output = None if word.output is None else parse_json(word.output.encode("utf-8", "surrogateescape"), "--output")

    async def use(app: App) -> Exit:
        view = await app.runtime.reconcile(
            app.local,
            **_named(call_id),
            resolution=word.resolution,
            evidence=word.evidence,
            output=output,
            external_reference=word.external_reference,
            then=word.then,
            person=Decider(account(), "same_user", "cli") if word.resolution else None,
        )
        wire = await _shown(app, invocation, view, partial(_one, asked=call_id))
        settled = exit_of_run_reconcile if is_run(wire) else exit_of_reconcile
        return settled(wire, refused=view.is_error)

    return with_app(invocation, use)


async def _shown(
    app: App, invocation: Invocation, view: View, draw: Callable[[Mapping[str, Any]], RenderableType]
) -> Mapping[str, Any]:
    """Print a view; only then do the calls whose end it shows count as delivered."""
    wire = view.wire()
    commands = following.commands_of_run(wire) if is_run(wire) else following.commands_of_call(wire)
    Screen.of(invocation).answer(wire, draw(wire), commands)
    if view.delivers:
        await app.runtime.delivered(view.delivers, app.local)
    return wire


def _named(identity: str | None) -> dict[str, Any]:
    if identity and identity.startswith(RUN_PREFIX):
        return {"call_id": None, "run_id": identity}
    return {"call_id": identity, "run_id": None}


def _refuse_approvals(identity: str | None) -> None:
    if identity and identity.startswith(APPROVAL_PREFIX):
        raise usage(f"approvals are shown by: counterfoil approvals show {identity}")


def _one(view: Mapping[str, Any], asked: str) -> RenderableType:
    events = parts(view, "events")
    if is_run(view):
        shown: list[RenderableType] = [run_page(view, now())]
        shown += [timeline(events, view.get("started_at"))] if events else []
    else:
        shown = [render.call_panel(view, asked)]
        shown += [render.timeline(events)] if events else []
    if view.get("more"):
        shown.append(Text("There are more events than shown.", style="dim"))
    return Group(*shown)


def _open(view: Mapping[str, Any]) -> RenderableType:
    unresolved = [render.call_line(item) for item in parts(view, "unresolved")]
    server = part(view, "server")
    return Group(
        Text("Waiting for a decision", style="bold"),
        render.approvals_list(parts(view, "pending")),
        Text("\nUnresolved calls", style="bold"),
        *(unresolved or [Text("None: the outcome of every call is known.")]),
        Text("\nRuns", style="bold"),
        runs_table(parts(view, "runs"), now()),
        Text(f"\nLedger: {server.get('ledger')} {server.get('reason') or ''}".rstrip(), style="dim"),
    )
