"""`plan` and `run`: a chain is checked and shown, or driven by this process until it is finished or waits for somebody.

Ctrl-C ends this process's part only: the run is let go in order and any server takes it up.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.text import Text

from ...canonical import JsonValue
from ...registry.request import KEY_MAX, RunRequest
from . import following
from .answer import View, exit_of_plan, exit_of_run, is_still
from .arguments import parse_json
from .documents import is_id, needs_of, read_document, stored_name
from .doors import configuration, now, with_app
from .driving import Following, begin, follow
from .exits import Exit, usage
from .graphs import Drawing, Format, draw_plan
from .invocation import Invocation
from .plan_picture import commands, picture
from .ports import App
from .ports import View as Answer
from .run_page import run_page
from .screen import Screen
from .watching import Watcher

_AFTER: Final = {
    "queued": "Nothing of it is lost: a running server takes it up, or do it here.",
    "running": "Another process drives it now.",
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `run` was asked for: one of a document, a stored or kept plan, a run that is there, and one to fork."""

    source: str | None = None
    plan_id: str | None = None
    run_id: str | None = None
    input: str | None = None
    key: str | None = None
    wait_s: float | None = None
    fork_of: str | None = None
    from_step: str | None = None

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            CommandError: none or several of the three, or an option that does not belong to the one.
        """
        given = [name for name in ("source", "plan_id", "run_id", "fork_of") if getattr(self, name) is not None]
        if len(given) != 1:
            raise usage(
                "expected one of FILE (or - for stdin), NAME of a stored plan, --plan-id ID and --run-id ID; see --help"
            )
        if self.run_id is not None and (self.input is not None or self.key is not None):
            raise usage("--input and --key belong to a plan; a run that is there has its own")
        if self.key is not None and not 0 < len(self.key) <= KEY_MAX:
            raise usage(f"--key has {len(self.key)} characters; expected 1 to {KEY_MAX}")


def plan(invocation: Invocation, source: str, form: Format | None = None, output: Path | None = None) -> int:
    """Check a plan, keep it, and show what it would do, or draw it."""
    if output is not None and form is None:
        raise usage("--output belongs to --graph mermaid or --graph svg")
    drawing = None if form is None else Drawing(form, output)
    if drawing is not None:
        drawing.check()
    document = read_document(source)

    async def use(app: App) -> View:
        return (await app.runtime.plan(app.local, document)).wire()

    view = with_app(invocation, use)
    valid = exit_of_plan(view) is Exit.DONE
    if drawing is not None and valid:
        return draw_plan(invocation, view, document, drawing)
    Screen.of(invocation).answer(view, picture(view, document, needs_of(document) if valid else {}), commands(view))
    return exit_of_plan(view)


def run(invocation: Invocation, options: RunOptions) -> int:
    """Run a plan, or take up a run, and drive it here."""
    options.check()
    name = _stored_plan(invocation, options.source)
    document = read_document(options.source) if options.source is not None and name is None else None
    given = None if options.input is None else parse_json(options.input.encode("utf-8", "surrogateescape"), "--input")
    return _drive(invocation, _Wish(options, document, name, given), options.wait_s)


def _stored_plan(invocation: Invocation, source: str | None) -> str | None:
    """The stored plan that is meant; what looks like the id of a kept plan is one only if it is there."""
    name = None if source is None else stored_name(source)
    return name if name is None or not is_id(name) or name in configuration(invocation).plans else None


@dataclass(slots=True)
class _Wish:
    """A request for a run, and the id that it turned out to have."""

    options: RunOptions
    plan: JsonValue = None
    name: str | None = None
    input: JsonValue = None
    run_id: str | None = field(default=None, init=False)

    def named(self, run_id: str) -> None:
        self.run_id = run_id

    def request(self, app: App) -> RunRequest:
        """It waits for nothing: the run is followed by its id."""
        return RunRequest(
            principal=app.local,
            plan_id=self.options.plan_id,
            plan=self.plan,
            name=self.name,
            run_id=self.options.run_id,
            fork_of=self.options.fork_of,
            from_step=self.options.from_step,
            input=self.input,
            request_key=self.options.key,
            wait_s=0,
            wait_given=True,
        )


def _drive(invocation: Invocation, wish: _Wish, wait_s: float | None) -> int:
    """Begin it, follow it to where it stands still, and print that; where it still moves, how it was let go."""
    screen = Screen.of(invocation)

    async def use(app: App) -> Exit | None:
        try:
            answer = begun = await begin(app, wish.request(app), wish.named)
            if wish.run_id is not None and not answer.is_error:
                with Watcher.of(screen) as watcher:
                    answer = await follow(app, wish.run_id, Following(watcher.show, wait_s))
        except asyncio.CancelledError:
            grace = app.config.server.grace_s
            screen.line(
                Text(f"Letting the run go; calls under way have {grace:g} s to end. Ctrl-C again ends at once.")
            )
            raise
        if answer.is_error or is_still(answer.wire()):
            return await shown(app, screen, answer, replayed=bool(begun.wire().get("replayed")))
        return None

    try:
        ended = with_app(invocation, use)
        return _time_over(invocation, str(wish.run_id)) if ended is None else ended
    except KeyboardInterrupt:
        if wish.run_id is None:
            raise
        return _interrupted(invocation, wish.run_id)


async def shown(app: App, screen: Screen, answer: Answer, *, replayed: bool = False) -> Exit:
    """Print a run, without the events of the last look; only then do the calls that it shows count as delivered."""
    view: View = {name: value for name, value in answer.wire().items() if name not in ("events", "more")}
    if replayed:
        view = {**view, "replayed": True}
    screen.answer(view, run_page(view, now()), following.commands_of_run(view))
    if answer.delivers:
        await app.runtime.delivered(answer.delivers, app.local)
    return exit_of_run(view, refused=answer.is_error)


def _time_over(invocation: Invocation, run_id: str) -> int:
    """Print how the run stands now that this process has let go of it."""

    async def use(app: App) -> Exit:
        answer = await app.runtime.status(app.local, call_id=None, run_id=run_id, wait_s=0)
        return await shown(app, Screen.of(invocation), answer)

    return with_app(invocation, use)


def _interrupted(invocation: Invocation, run_id: str) -> int:
    """The same in a line."""

    async def use(app: App) -> View:
        return (await app.runtime.status(app.local, call_id=None, run_id=run_id, wait_s=0)).wire()

    view = with_app(invocation, use)
    status = str(view.get("status"))
    said = f"Interrupted: {run_id} is {status}. {_AFTER.get(status, '')}".rstrip()
    Screen.of(invocation).answer(view, said, following.commands_of_run(view))
    return Exit.INTERRUPTED
