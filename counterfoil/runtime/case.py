"""One call that a task of this process follows, from its request (or its row) to its end, and who listens to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..registry.contract import Contract, Retry
from ..registry.vocabulary import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ledger.rows import CallRow
    from ..registry.adapter import Adapter, ProgressSink
    from ..registry.arguments import Arguments
    from ..registry.budgets import Kind, LimitState
    from ..registry.policy import Decision, Policy
    from ..registry.principal import Principal
    from ..registry.request import CallRequest
    from ..registry.vocabulary import JsonValue
    from .attempt import Running
    from .gathering import Gathering
    from .refusal import RefusedError
    from .settlement import Result
    from .views import CallView


@dataclass(frozen=True, slots=True)
class Admitted:
    """What steps 1 to 5 of the path established about a request.

    `policy` is what decided. `limits` is how the limits that count it stand, `beyond` the rules that match because
    theirs is exceeded. `unsendable` says why nothing but the answer of a call that was already made with these
    arguments can be given.
    """

    contract: Contract
    adapter: Adapter
    arguments: Arguments
    decision: Decision
    resources: tuple[str, ...]
    policy: Policy
    limits: tuple[LimitState, ...] = ()
    beyond: frozenset[str] = frozenset()
    unsendable: RefusedError | None = None

    @property
    def closed_read(self) -> bool:
        """True for a read of a closed world: its T1 and T2 may be one fact."""
        return self.contract.gate.effect is Effect.READ and not self.contract.gate.open_world


@dataclass(frozen=True, slots=True)
class Within:
    """Where in a run a call stands, and what its plan says of it beyond the tool's contract.

    `item` is -1 for the step itself. `schema_digest` is what the plan has pinned. The narrowings (seconds, counts) are
    None where the plan states none. `budget` is what the whole run may use, in stored units. `parallel` is how many
    calls of the run may be under way at once; one takes it last, so that whoever waits for anything else holds none.
    `conceal` are the places of its arguments that no message shows, beside those that the tool marks.
    The items of a `for_each` that need a person meet in `gathering`. `given` is what the adapter is handed beside the
    arguments: the output that a compensation undoes.
    """

    run_id: str
    step: str
    item: int
    schema_digest: str
    parallel: asyncio.Semaphore
    timeout_s: float | None = None
    attempts: int | None = None
    backoff_s: float | None = None
    least_s: float | None = None
    budget: Mapping[Kind, int] = field(default_factory=dict["Kind", int])
    conceal: tuple[str, ...] = ()
    gathering: Gathering | None = None
    given: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])

    def passed(self) -> None:
        """Of an item: it does not come to ask a person with the others (any more)."""
        if self.gathering is not None:
            self.gathering.passed(self.item)

    def narrow(self, contract: Contract) -> Contract:
        """The contract with the plan's own time-out and retry; these can only be the lower ones."""
        if (self.timeout_s, self.attempts, self.backoff_s, self.least_s) == (None, None, None, None):
            return contract  # it knows its digest and its compiled schemas, and a new one would make them again
        limits, retry = contract.limits, contract.retry
        return replace(
            contract,
            limits=replace(
                limits,
                timeout_s=min(limits.timeout_s, self.timeout_s or limits.timeout_s),
                retry=Retry(
                    min(retry.attempts, self.attempts or retry.attempts),
                    max(retry.backoff_s, self.backoff_s or 0),
                    max(retry.least_s, self.least_s or 0),
                ),
            ),
        )


@dataclass(eq=False)
class Case:
    """A call under way in this process.

    `row` is the call's last known row, None before its first record. `listeners` counts the requests that wait for
    it. `progress` are their sinks. `asked_about` is, for a probe, the call that it asks about.
    `joined` says that `row` is another call's, which this request takes part in, `joining` that it
    may be about to. `guarded` says that a guard of the running attempt has let its tool act.
    `within` is its place in a run, `result` what its last attempt brought.
    """

    call_id: str
    action_id: str
    principal: Principal
    request: CallRequest | None = None
    admitted: Admitted | None = None
    row: CallRow | None = None
    done: asyncio.Future[CallView] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    listeners: int = 0
    progress: list[ProgressSink] = field(default_factory=list["ProgressSink"])
    running: Running | None = None
    wants_row: bool = False
    waits_for_ledger: bool = False
    asked_about: str | None = None
    gone: bool = False
    joined: bool = False
    joining: str | None = None
    guarded: bool = False
    stirred: bool = False
    counted: bool = False
    within: Within | None = None
    result: Result | None = None
    _nudged: asyncio.Future[None] | None = None
    _listener: asyncio.Future[None] | None = None

    @property
    def known(self) -> Admitted:
        """What admission established; only after it."""
        assert self.admitted is not None, "asked before admission"
        return self.admitted

    @property
    def reading(self) -> bool:
        """True while a read of it runs."""
        return self.running is not None and self.admitted is not None and self.admitted.contract.is_read

    @property
    def unsent(self) -> bool:
        """True if nothing of it can have been sent, as far as this process knows."""
        return self.running is None if self.row is None else self.row.generation == 0

    @property
    def unwanted(self) -> bool:
        """True if it is given up before it is sent: its run gives it up, or nobody waits for what has no row."""
        return self.gone and (self.row is None or self.within is not None)

    def record(self, row: CallRow) -> None:
        """Its row as it was last written."""
        self.row = row
        if self.wants_row:
            self._tell_listener()

    def finish(self, view: CallView) -> None:
        """It has its answer; the first one counts."""
        if not self.done.done():
            self.done.set_result(view)
            self._tell_listener()

    def abandon(self) -> None:
        """It was given up, and there is nobody to answer."""
        self.done.cancel()
        self._tell_listener()

    async def listen(self, wait_s: float | None) -> None:
        """For its one request: come back when it is done, has the row that was asked for, or the wait is over."""
        if self.done.done():
            return
        loop = asyncio.get_running_loop()
        self._listener = loop.create_future()
        timer = None if wait_s is None else loop.call_later(wait_s, self._tell_listener)
        try:
            await self._listener
        finally:
            if timer is not None:
                timer.cancel()

    def _tell_listener(self) -> None:
        if self._listener is not None and not self._listener.done():
            self._listener.set_result(None)

    @property
    def nudged(self) -> asyncio.Future[None]:
        """Done once it was nudged, until its task has `heard`."""
        if self._nudged is None:
            self._nudged = asyncio.get_running_loop().create_future()
            if self.stirred:
                self._nudged.set_result(None)
        return self._nudged

    def nudge(self) -> None:
        """Something about whoever waits for it has changed: its task is to look, until it says that it has `heard`."""
        self.stirred = True
        if self._nudged is not None and not self._nudged.done():
            self._nudged.set_result(None)
        if self.running is not None:
            self.running.stir()

    def heard(self) -> None:
        """Its task has looked; the next change nudges it again."""
        self.stirred = False
        if self._nudged is not None and self._nudged.done():
            self._nudged = None

    def ask_for_row(self) -> None:
        """Its caller will not wait any longer for an outcome: it must get a row, so that it can be told about."""
        self.wants_row = True
        self.nudge()

    def caller_gone(self) -> None:
        """Nobody listens any more. Without a row it is given up; a running read is stopped; all else goes on."""
        self.gone = True
        self.nudge()
        if self.reading and self.running is not None:
            self.running.stop_read()

    async def tell_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a tool's progress on to every request that waits; one that cannot take it is dropped."""
        for sink in tuple(self.progress):
            try:
                await sink(done, total, message)
            except Exception:  # noqa: BLE001 (a listener that is gone must never become the tool's failure)
                self.progress.remove(sink)
