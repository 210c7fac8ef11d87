"""One call that a task of this process follows, from its request (or its row) to its end, and who listens to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..registry.contract import Contract
from ..registry.vocabulary import Effect

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.adapter import Adapter, ProgressSink
    from ..registry.arguments import Arguments
    from ..registry.budgets import LimitState
    from ..registry.policy import Decision, Policy
    from ..registry.principal import Principal
    from ..registry.request import CallRequest
    from .attempt import Running
    from .views import CallView


@dataclass(frozen=True, slots=True)
class Admitted:
    """What steps 1 to 5 of the path established about a request.

    `policy` is what decided. `limits` is how the limits that count it stand, `beyond` the rules that match because
    theirs is exceeded.
    """

    contract: Contract
    adapter: Adapter
    arguments: Arguments
    decision: Decision
    resources: tuple[str, ...]
    policy: Policy
    limits: tuple[LimitState, ...] = ()
    beyond: frozenset[str] = frozenset()

    @property
    def closed_read(self) -> bool:
        """True for a read of a closed world: its T1 and T2 may be one fact."""
        return self.contract.gate.effect is Effect.READ and not self.contract.gate.open_world


@dataclass(eq=False)
class Case:
    """A call under way in this process.

    `row` is the call's last known row, None before its first record. `listeners` counts the requests that wait for
    it. `progress` are their sinks. `asked_about` is, for a probe, the call that it asks about.
    `joined` says that `row` is another call's, which this request takes part in, `joining` that it
    may be about to. `guarded` says that a guard of the running attempt has let its tool act.
    """

    call_id: str
    action_id: str
    principal: Principal
    request: CallRequest | None = None
    admitted: Admitted | None = None
    row: CallRow | None = None
    has_row: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Future[CallView] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    nudged: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
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

    def record(self, row: CallRow) -> None:
        """Its row as it was last written."""
        self.row = row
        self.has_row.set()

    def nudge(self) -> None:
        """Something about whoever waits for it has changed: its task is to look, until it says that it has `heard`."""
        if not self.nudged.done():
            self.nudged.set_result(None)

    def heard(self) -> None:
        """Its task has looked; the next change nudges it again."""
        if self.nudged.done():
            self.nudged = asyncio.get_running_loop().create_future()

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
