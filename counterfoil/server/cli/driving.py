"""Following a run from a command line: look, show, look again once something happened, until it is finished or parked.

Nothing here decides: the driver of this process, or of another one, moves the run, and its views say how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...registry.request import RunRequest
from .answer import View, is_still, parts
from .ports import App
from .ports import View as Answer

LOOK_S: Final = 10.0
"""How long one look waits, in seconds."""
PAUSE_S: Final = 0.1
PAUSE_A_STEP_S: Final = 0.002
"""The least time between two looks that are shown, in seconds: a view of a long run costs the loop that drives it."""
LATEST: Final = 100
"""How many past events are read where only what comes now is of interest."""
_ENDLESS: Final = 2**53
"""After this no chain has an event."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a run is followed: what looks at it are shown to, if anything, and for how many seconds (None: no end).

    `whole` begins with the run's first event, else with its latest ones.
    """

    show: Callable[[View], None] | None
    within_s: float | None = None
    whole: bool = False


async def begin(app: App, request: RunRequest, named: Callable[[str], None]) -> Answer:
    """Ask for a run without waiting for its end, and tell its id.

    An interruption waits for that answer, which comes at once: a run that was begun is known by its id, and to
    interrupt the command is never a wish that the run should stop.
    """
    task = asyncio.ensure_future(app.runtime.run(request))
    try:
        return _told(await asyncio.shield(task), named)
    except asyncio.CancelledError:
        _told(await task, named)
        raise


def _told(answer: Answer, named: Callable[[str], None]) -> Answer:
    run_id = answer.wire().get("run_id")
    if isinstance(run_id, str):
        named(run_id)
    return answer


async def follow(app: App, run_id: str, how: Following) -> Answer:
    """Wait until the run is finished or parked, or the time is over, and show it and its events meanwhile."""
    still = asyncio.ensure_future(_until_still(app, run_id, how.within_s))
    try:
        if how.show is not None:
            await _show(app, run_id, how.show, still, whole=how.whole)
        return await still
    finally:
        still.cancel()


async def _until_still(app: App, run_id: str, within_s: float | None) -> Answer:
    clock = asyncio.get_running_loop().time
    ends = None if within_s is None else clock() + within_s
    while True:
        left = LOOK_S if ends is None else max(0.0, min(LOOK_S, ends - clock()))
        answer = await _look(app, run_id, after=None, wait_s=left)
        if answer.is_error or is_still(answer.wire()) or (ends is not None and clock() >= ends):
            return answer


async def _show(
    app: App, run_id: str, show: Callable[[View], None], still: asyncio.Future[Answer], *, whole: bool
) -> None:
    """Show each look, one after each new event but not too often, until nothing moves and every event was shown."""
    first: View = (await _look(app, run_id, after=_ENDLESS, wait_s=0)).wire()
    after = 0 if whole else max(0, _seq(first) - LATEST)
    while True:
        over = still.done()
        view: View = (await _new(app, run_id, after, still)).wire()
        show(view)
        after = max([after, *(_seq(event) for event in parts(view, "events"))])
        if view.get("more"):
            continue
        if over:
            return
        await asyncio.wait({still}, timeout=PAUSE_S + PAUSE_A_STEP_S * len(parts(view, "steps")))


def _seq(view: View) -> int:
    """The number of an event, or of a run's last one."""
    seq: object = view.get("seq")
    return seq if isinstance(seq, int) else 0


async def _new(app: App, run_id: str, after: int, still: asyncio.Future[Answer]) -> Answer:
    """The next look: once there is an event beyond `after`, at once where nothing moves."""
    waiting = asyncio.ensure_future(_look(app, run_id, after=after, wait_s=LOOK_S))
    try:
        await asyncio.wait({still, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else await _look(app, run_id, after=after, wait_s=0)
    finally:
        waiting.cancel()


async def _look(app: App, run_id: str, *, after: int | None, wait_s: float) -> Answer:
    return await app.runtime.status(app.local, call_id=None, run_id=run_id, after_seq=after, wait_s=wait_s)
