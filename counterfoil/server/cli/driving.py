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
"""How long one look waits for an event, in seconds."""
PAUSE_S: Final = 0.1
"""The least time between two looks, in seconds; pages of events that are there already follow at once."""
LATEST: Final = 100
"""How many past events are read where only what comes now is of interest."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a run is followed: what each look is shown to, for how many seconds (None: without end), from where on.

    `whole` begins with the run's first event, else with its latest ones.
    """

    show: Callable[[View], None]
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
    """Look until the run is finished or parked and all its events were shown, or the time is over; the last answer."""
    clock = asyncio.get_running_loop().time
    ends = None if how.within_s is None else clock() + how.within_s
    answer = await _look(app, run_id, after=0, wait_s=0)
    after = 0 if how.whole else max(0, _seq(answer.wire()) - LATEST)
    while True:
        left = LOOK_S if ends is None else min(LOOK_S, ends - clock())
        still = is_still(answer.wire())
        answer = await _look(app, run_id, after=after, wait_s=0 if still else max(0.0, left))
        view = answer.wire()
        how.show(view)
        after = max([after, *(int(event.get("seq") or 0) for event in parts(view, "events"))])
        if view.get("more"):
            continue
        if answer.is_error or is_still(view) or left <= 0:
            return answer
        await asyncio.sleep(PAUSE_S)


def _seq(view: View) -> int:
    seq = view.get("seq")
    return seq if isinstance(seq, int) else 0


async def _look(app: App, run_id: str, *, after: int, wait_s: float) -> Answer:
    return await app.runtime.status(app.local, call_id=None, run_id=run_id, after_seq=after, wait_s=wait_s)
