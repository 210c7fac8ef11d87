"""The threads that blocking handlers run in: a fixed number, never those of the event loop's default executor.

A thread that is stuck keeps its place until its work returns, so abandoned work can never make more threads.
The threads are daemons: a stuck handler delays neither the loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from .errors import NeverStartedError

T = TypeVar("T")
DEFAULT_THREADS = 16


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    """How work ended, as a value: a future refuses to carry a raised StopIteration."""

    value: T | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    context: contextvars.Context
    ended: Future[_Ended[Any]]


class Threads:
    """At most `limit` daemon threads, started when they are first needed; the work beyond waits in order."""

    def __init__(self, limit: int = DEFAULT_THREADS) -> None:
        if limit < 1:
            raise ValueError(f"threads: at least 1, not {limit}")
        self.limit = limit
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._open = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, run in one of the threads, with the caller's context variables.

        A cancelled wait leaves work that has begun to itself: its result is dropped.

        Raises:
            NeverStartedError: cancelled before a thread took the work.
        """
        ended: Future[_Ended[T]] = Future()
        self._submit(_Job(work, contextvars.copy_context(), ended))
        try:
            how = await asyncio.wrap_future(ended)
        except asyncio.CancelledError:
            if ended.cancel():
                raise NeverStartedError(f"no thread of {self.limit} was free in time") from None
            raise
        if how.error is not None:
            raise how.error
        return how.value  # type: ignore[return-value] # without an error the value is work's own T

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._open += 1
            grow = self._open > self._started < self.limit
            self._started += grow
            number = self._started
        self._jobs.put(job)
        if grow:
            threading.Thread(target=self._serve, name=f"counterfoil-blocking-{number}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            how = _run(job)
            with self._lock:
                self._open -= 1
            if how is not None:
                job.ended.set_result(how)
            del job, how  # an idle thread keeps nothing of the last call alive


def _run(job: _Job) -> _Ended[Any] | None:
    if not job.ended.set_running_or_notify_cancel():
        return None
    try:
        return _Ended(job.context.run(job.work))
    except BaseException as error:  # noqa: BLE001 (carried to whoever waits, and raised there)
        return _Ended(error=error)
