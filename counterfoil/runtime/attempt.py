"""One crossing of the boundary: the adapter is called once, under its deadline, and whatever comes of it is an outcome.

Nothing here retries, records or decides what follows. The handler runs in a task of its own; when it is given up at
its deadline it may still come to an end later, and then `Running.ended` tells what it brought.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..registry.adapter import Adapter, Call, CallStoppedError
from ..registry.contract import Contract
from ..registry.outcome import Outcome
from ..registry.vocabulary import ErrorCode, JsonObject, OutcomeClass, Sent
from .reported import normal, text_of

ON_THE_LOOP: Final = "loop:"
"""How the names of tasks begin whose handlers run on the event loop."""
STOP_S: Final = 1.0
"""How long a read that was told to stop may take to do so."""


class LeaseLostError(CallStoppedError):
    """The attempt is no longer this process's to make."""


class StoppedLateError(CallStoppedError):
    """The call must stop, but an earlier guard of this attempt let it pass: what it did since is not known."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """What to call, with what, for how long."""

    contract: Contract
    adapter: Adapter
    arguments: JsonObject
    call: Call
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    timeout_s: float = 30.0


class Running:
    """A handler under way, followed by one task. It is `over` once its outcome can be told, however it came to that.

    `ended` is called once the handler has really ended.
    """

    def __init__(self, crossing: Crossing, ended: Callable[[asyncio.Task[Outcome[Any]]], None]) -> None:
        self.over = False
        self._crossing = crossing
        self._ended = ended
        self._stopped = False
        self._follower: asyncio.Future[None] | None = None
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(crossing.timeout_s, self._end)
        self.task = asyncio.create_task(
            crossing.adapter.invoke(crossing.arguments, crossing.call, crossing.extra),
            name=("thread:" if crossing.adapter.blocking else ON_THE_LOOP) + crossing.contract.name,
        )
        self.task.add_done_callback(self._has_ended)

    def stop_read(self) -> None:
        """Cancel a read whose answer nobody wants any more; a blocking one can only be left to itself."""
        if self._stopped:
            return
        self._stopped = True
        if self._crossing.adapter.blocking:
            self._end()
        elif not self.over:
            self._deadline.cancel()
            self._deadline = asyncio.get_running_loop().call_later(STOP_S, self._end)
            self.task.cancel()

    async def follow(self) -> None:
        """Come back once it is over, or somebody stirs."""
        if not self.over:
            self._follower = asyncio.get_running_loop().create_future()
            await self._follower

    def stir(self) -> None:
        """Have whoever follows it look."""
        if self._follower is not None and not self._follower.done():
            self._follower.set_result(None)

    async def outcome(self) -> Outcome[Any]:
        """The outcome, at the deadline at the latest."""
        while not self.over:
            await self.follow()
        if self.task.done():
            return self.ended()
        if self._crossing.adapter.blocking:
            if self._stopped:
                return self._given_up("cancelled")
        else:
            self.task.cancel()
        return timed_out(self._crossing.contract, self._crossing.timeout_s)

    def _has_ended(self, task: asyncio.Task[Outcome[Any]]) -> None:
        self._end()
        self._ended(task)

    def _end(self) -> None:
        """It ended, its time is up, or nobody wants it any more."""
        self._deadline.cancel()
        self.over = True
        self.stir()

    def ended(self) -> Outcome[Any]:
        """What a handler that has ended brought."""
        contract = self._crossing.contract
        if self.task.cancelled():
            return self._given_up("cancelled" if self._stopped else "interrupted")
        error = self.task.exception()
        return as_reported(contract, self.task.result()) if error is None else raised(contract, error)

    def _given_up(self, reason: str) -> Outcome[Any]:
        contract = self._crossing.contract
        return gave_up(contract, f"{contract.name} was stopped before it answered.", reason)


def timed_out(contract: Contract, timeout_s: float) -> Outcome[Any]:
    """A deadline passed: for a read a failure that may be tried again, for anything else an outcome nobody knows."""
    return gave_up(contract, f"{contract.name} gave no answer within {timeout_s:g} s.", "timeout")


def gave_up(contract: Contract, message: str, reason: str) -> Outcome[Any]:
    """No answer came."""
    if contract.is_read:
        return Outcome(OutcomeClass.RETRYABLE_FAILURE, message=message, sent=Sent.UNKNOWN, details={"reason": reason})
    return Outcome(OutcomeClass.AMBIGUOUS, message=message, sent=Sent.UNKNOWN, details={"reason": reason})


def raised(contract: Contract, error: BaseException) -> Outcome[Any]:
    """A handler raised: a read has failed, of anything else nobody knows; only its first `guard()` knows better.

    That one is meant to come right before the effect; after one that let it pass, the tool may have acted.
    """
    if isinstance(error, LeaseLostError):
        return Outcome.unavailable(str(error))
    if isinstance(error, CallStoppedError) and not isinstance(error, StoppedLateError):
        return Outcome(OutcomeClass.PERMANENT_FAILURE, message=str(error), sent=Sent.NO, code=ErrorCode.CANCELLED)
    message = f"{type(error).__name__}: {text_of(error)}"
    if isinstance(error, StoppedLateError):
        message = "It was told to stop after a guard had let it act; whether it did is not known."
    if not contract.is_read:
        return Outcome(OutcomeClass.AMBIGUOUS, message=message, sent=Sent.UNKNOWN, details={"reason": "raised"})
    if isinstance(error, TimeoutError | ConnectionError):
        return gave_up(contract, message, "connection")
    return Outcome(OutcomeClass.PERMANENT_FAILURE, message=message, sent=Sent.YES, details={"reason": "raised"})


def as_reported(contract: Contract, reported: object) -> Outcome[Any]:
    """What an adapter said; a read's effect cannot be in doubt, so its `ambiguous` is a failure to try again."""
    try:
        outcome = normal(reported)
    except Exception as error:  # noqa: BLE001 (a report may be anything; whatever it is, the attempt was made)
        return _unreadable(contract, error)
    if contract.is_read and outcome.kind is OutcomeClass.AMBIGUOUS:
        return gave_up(contract, outcome.message, "ambiguous")
    if outcome.still_works and contract.recovery.probe is None:
        return _never_known(contract, outcome)
    return outcome


def _never_known(contract: Contract, outcome: Outcome[Any]) -> Outcome[Any]:
    """What was accepted by a far side that nobody can ask how it ends."""
    said = f" It said: {outcome.message}" if outcome.message else ""
    message = (
        f"{contract.name} reports that the far side accepted it and still works, but {contract.name} has no probe that "
        f"could ask how it ends, so nobody knows; give it one.{said}"
    )
    return replace(outcome, message=message, sent=Sent.UNKNOWN, still_works=False)


def _unreadable(contract: Contract, error: Exception) -> Outcome[Any]:
    """A report that is none: a read has failed, and of anything else nobody knows."""
    message = f"What {contract.name} reported cannot be read: {text_of(error)}."
    if not contract.is_read:
        return gave_up(contract, message, "foreign_report")
    details: JsonObject = {"reason": "foreign_report"}
    return Outcome(OutcomeClass.PERMANENT_FAILURE, message=message, sent=Sent.YES, details=details)
