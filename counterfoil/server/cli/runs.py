"""`runs`: every run of the ledger, one of them in full, live, taken up again or cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ...visible import visible
from . import following
from .answer import FINISHED, View, exit_of_run, part, parts
from .chains import RunOptions, run, shown
from .doors import now, with_app
from .driving import Following, follow
from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .ports import App
from .ports import View as Answer
from .run_events import LAST, calls_section, timeline
from .run_folding import LOUD, ROWS
from .run_page import run_page, runs_table
from .screen import Screen
from .watching import Printer, Watcher

CALLS: Final = 20
"""Of how many calls a person is shown attempts and evidence, unless all are asked for."""
EVENTS: Final = 100_000
"""The most events that are read for one page; a timeline tells how many there are beyond."""
_ENDLESS: Final = 2**53
"""After this no chain has an event."""
_PREFIX: Final = "run_"


def show_all(invocation: Invocation, limit: int) -> int:
    """List runs, newest first."""

    async def use(app: App) -> list[View]:
        return [view.wire() for view in await app.runtime.runs(limit=limit)]

    views = with_app(invocation, use)
    Screen.of(invocation).answer({"runs": views}, runs_table(views, now()))
    return Exit.DONE


def show(invocation: Invocation, run_id: str, *, everything: bool) -> int:
    """Show one run: steps, calls with their attempts and evidence, timeline, what it waits for."""
    is_run(run_id)

    async def use(app: App) -> Exit:
        answer = await _status(app, run_id)
        view = answer.wire()
        if answer.is_error:
            raise _refusal(view)
        screen = Screen.of(invocation)
        page = await _page(app, view, everything=everything) if not screen.json else Text("")
        screen.answer(view, page, following.commands_of_run(view))
        if answer.delivers:
            await app.runtime.delivered(answer.delivers, app.local)
        return exit_of_run(view, refused=False)

    return with_app(invocation, use)


async def _page(app: App, view: View, *, everything: bool) -> RenderableType:
    events = await _events(app, view, everything=everything)
    calls = _calls_of(parts(view, "steps"))
    chosen = calls if everything else _first_loud(calls)[:CALLS]
    found = [(name, (await _call(app, call_id)).wire()) for name, _, call_id in chosen]
    shown_calls = [Text("\nCalls", style="bold"), calls_section(found, len(calls) - len(found))] if found else []
    rows = len(parts(view, "steps")) if everything else ROWS
    return Group(
        run_page(view, now(), most=rows),
        *shown_calls,
        Text("\nTimeline", style="bold"),
        timeline(events, view.get("started_at"), everything=everything),
    )


async def _events(app: App, view: View, *, everything: bool) -> list[View]:
    """The run's first and last events; with `everything` all of them, page by page."""
    events = [*parts(view, "events")]
    last = max(0, int(view.get("seq") or 0) - LAST)
    while view.get("more") and len(events) < EVENTS:
        after = int(events[-1]["seq"])
        view = (await _status(app, str(view.get("run_id")), after if everything else max(after, last))).wire()
        events += parts(view, "events")
    return events


def _calls_of(steps: Sequence[View]) -> list[tuple[str, str, str]]:
    """Name, state and id of each call, in the order of steps and items."""
    found: list[tuple[str, str, str]] = []
    for step in steps:
        items = [(f"{step.get('id')}[{item.get('n')}]", item) for item in parts(step, "items")]
        for name, of in [(str(step.get("id")), step), *items]:
            if of.get("call_id"):
                found.append((name, str(of.get("state")), str(of["call_id"])))
    return found


def _first_loud(calls: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return sorted(calls, key=lambda call: call[1] not in LOUD)


async def _call(app: App, call_id: str) -> Answer:
    return await app.runtime.status(app.local, call_id=call_id, run_id=None, after_seq=_ENDLESS, wait_s=0)


async def _status(app: App, run_id: str, after_seq: int = 0) -> Answer:
    return await app.runtime.status(app.local, call_id=None, run_id=run_id, after_seq=after_seq, wait_s=0)


def watch(invocation: Invocation, run_id: str) -> int:
    """Watch a run until it is finished or waits for somebody; it is not driven here."""
    is_run(run_id)
    screen = Screen.of(invocation)

    async def use(app: App) -> Exit:
        if screen.console.is_terminal:
            with Watcher.of(screen) as watcher:
                answer = await follow(app, run_id, Following(watcher.show))
        else:
            answer = await follow(app, run_id, Following(Printer(screen).show, whole=True))
        return await shown(app, screen, answer)

    try:
        return with_app(invocation, use)
    except KeyboardInterrupt:
        said = f"Watching ended; nothing about {visible(run_id)} has changed."
        raise CommandError(Exit.INTERRUPTED, "interrupted", said) from None


def resume(invocation: Invocation, run_id: str, wait_s: float | None) -> int:
    """Take a run up and drive it here."""
    is_run(run_id)
    return run(invocation, RunOptions(run_id=run_id, wait_s=wait_s))


def fork(invocation: Invocation, run_id: str, options: RunOptions) -> int:
    """Go on from a finished run in a new one, and drive that here."""
    is_run(run_id)
    return run(invocation, replace(options, fork_of=run_id))


def cancel(invocation: Invocation, run_id: str, reason: str | None) -> int:
    """Let nothing further of a run start; the effects that stand are told, none is undone."""
    is_run(run_id)

    async def use(app: App) -> Exit:
        answer = await app.runtime.cancel(app.local, call_id=None, run_id=run_id, reason=reason)
        await shown(app, Screen.of(invocation), answer)
        return _exit_of_cancel(answer.wire(), refused=answer.is_error)

    return with_app(invocation, use)


def _exit_of_cancel(view: View, *, refused: bool) -> Exit:
    """Done once it is cancelled; no where it ended otherwise; waiting while something of it is under way or unknown."""
    if refused:
        return Exit.NO
    if view.get("status") not in FINISHED:
        return Exit.WAITING
    return Exit.DONE if view.get("status") == "cancelled" else Exit.NO


def is_run(run_id: str) -> None:
    """Refuse another kind of id.

    Raises:
        CommandError: it is no run's.
    """
    if not run_id.startswith(_PREFIX):
        raise usage(
            f"expected a run, such as run_..., got {visible(run_id[:80])}; calls are shown by: counterfoil status"
        )


def _refusal(view: View) -> CommandError:
    error = part(view, "error")
    return CommandError(
        Exit.NO, str(error.get("code", "internal")), str(error.get("message", "refused")), error.get("details") or {}
    )
