"""Items of one `for_each` that come to need a person wait here for each other, so that one proposal covers them all.

Whoever is on its way may still come; the last one to come or to pass by lets one of those that wait lead the others.
Nothing is held here but the wish itself, and nobody waits longer than an item needs to reach its own dispatch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .not_sent import CallerGoneError, MovedOnError

if TYPE_CHECKING:
    from ..registry.policy import Decision
    from .case import Case
    from .views import CallView


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """A call that needs a person's decision; `why` says why it needs another than the one it has, if it has one."""

    case: Case
    decision: Decision
    why: str | None = None


Propose: TypeAlias = "Callable[[Sequence[Wish]], Awaitable[list[CallView | Exception]]]"
"""Makes the proposals of these wishes; an answer for each, in their order."""


@dataclass(frozen=True, slots=True)
class _Lead:
    """Whoever is told this makes the proposal for all of these."""

    waiting: list[_Waiting]


@dataclass(eq=False, slots=True)
class _Waiting:
    wish: Wish
    told: asyncio.Future[_Lead | CallView | Exception]


class Gathering:
    """The items of one step, by number."""

    def __init__(self) -> None:
        self._coming: set[int] = set()
        self._here: list[_Waiting] = []

    def expect(self, item: int) -> None:
        """Count on an item that has set out."""
        self._coming.add(item)

    def passed(self, item: int) -> None:
        """Count no longer on an item: it needs nobody, was sent, or has ended."""
        self._coming.discard(item)
        self._begin()

    async def meet(self, item: int, wish: Wish, propose: Propose) -> CallView:
        """Wait for the others, and be proposed with those that need it too. Raises what its own proposal met.

        Raises:
            CallerGoneError, MovedOnError: it was given up meanwhile.
        """
        waiting = _Waiting(wish, asyncio.get_running_loop().create_future())
        self._here.append(waiting)
        self.passed(item)
        told = await self._told(waiting)
        if isinstance(told, _Lead):
            told = await _lead(told.waiting, waiting, propose)
        if isinstance(told, Exception):
            raise told
        return told

    async def _told(self, waiting: _Waiting) -> _Lead | CallView | Exception:
        case = waiting.wish.case
        try:
            while not waiting.told.done():
                _require_wanted(case)
                either: set[asyncio.Future[Any]] = {waiting.told, case.nudged}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                case.heard()
        except BaseException:
            self._leave(waiting)
            raise
        return waiting.told.result()

    def _leave(self, waiting: _Waiting) -> None:
        """Whoever leaves a place at the head of others hands it on."""
        if waiting in self._here:
            self._here.remove(waiting)
        elif waiting.told.done() and isinstance(lead := waiting.told.result(), _Lead):
            self._here += [other for other in lead.waiting if other is not waiting]
            self._begin()

    def _begin(self) -> None:
        if self._coming or not self._here:
            return
        all_, self._here = self._here, []
        all_[0].told.set_result(_Lead(all_))


def _require_wanted(case: Case) -> None:
    if case.gone:
        raise given_up(case)


def given_up(case: Case) -> Exception:
    """Why nothing more is done about a call that nobody waits for any more."""
    return CallerGoneError() if case.row is None else MovedOnError(case.row)


async def _lead(all_: list[_Waiting], mine: _Waiting, propose: Propose) -> CallView | Exception:
    """Propose for all, and tell each of the others what became of its own."""
    waiting = [one for one in all_ if one is mine or not one.told.done()]
    waiting = [one for one in waiting if one is mine or not one.wish.case.gone]
    own: CallView | Exception | None = None
    try:
        found = await propose([one.wish for one in waiting])
    except Exception as error:  # noqa: BLE001 (each of them is to know; the leader raises it)
        found = [error for _ in waiting]
    for one, answer in zip(waiting, found, strict=True):
        if one is mine:
            own = answer
        elif not one.told.done():
            one.told.set_result(answer)
    assert own is not None, "whoever leads is one of them"
    return own
