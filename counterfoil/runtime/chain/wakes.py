"""Who drives runs: the small interface that any engine can serve, and the driver inside this process.

One task for each run that is driven here. What wakes a run is a hint of this process, or a row that somebody left for
whoever sweeps; both are only ever reasons to look. A run that another living process drives is left to it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...ledger.errors import DamagedChainError, LedgerError
from ...ledger.forking import taken_over
from ...ledger.run_calls import list_stranded
from ...ledger.run_finding import list_due_runs, list_orphan_runs, list_wakes
from ...ledger.run_rows import get_run
from ...ledger.runs import Parked, claim_run, park
from ...ledger.undoing import undo_calls, undo_notes
from ...registry.principal import Principal
from ...registry.vocabulary import RecoveryClass
from ..clock import MICROSECOND
from ..plan.model import Undo
from ..plan.spending import limits_of
from ..tasks import log_fault
from .driver import Drive, Over
from .effects import UNDECIDED, effects_to_undo
from .loading import Stored, board_of, load_calls, load_plan, read_steps
from .states import ENDED, RunStatus
from .steps import Steps
from .undoing import UndoDrive
from .undos import Undos

if TYPE_CHECKING:
    from ...ledger.run_rows import RunRow
    from ...ledger.runs import Claimed
    from ...ledger.sql import Fact
    from ..plan.model import Step
    from .loading import Planned, TakenUp
    from .outputs import Read
    from .states import StepState
    from .steps import Tools

log = logging.getLogger("counterfoil.runtime")
FIRST_PAUSE: Final = 5 * MICROSECOND
LONGEST_PAUSE: Final = 300 * MICROSECOND
KNOWN: Final = 1_000
"""How many runs are remembered whose tools are not here, so that they are not loaded again and again."""


class RunDriver(Protocol):
    """Has runs advanced until they are finished or parked. Waking is only a hint, and costs nothing twice."""

    def wake(self, run_id: str) -> None:
        """Look at this run soon."""
        ...

    def begin(self, run: RunRow, planned: Planned) -> None:
        """Drive a run that was made just now, for this process: nothing else is known of it yet."""
        ...

    async def sweep(self) -> None:
        """Look for runs that somebody else left a wake for, that are due, or whose driver is gone."""
        ...

    def stop(self) -> None:
        """Take no more runs, and leave those under way to others; what they have sent is still followed."""
        ...


def _nobody(run_id: str) -> None:
    del run_id


def _no_rest(run_id: str, finished: RunRow | None) -> None:
    del run_id, finished


def _no_step(done: int, step: Step, state: StepState) -> None:
    del done, step, state


def _no_one(run_id: str, done: int, total: int, message: str) -> None:
    del run_id, done, total, message


@dataclass(slots=True)
class Hooks:
    """Who is told: `changed` of everything recorded about a run here, `progress` of each step that ends.

    `rested` of a run that is not driven here any more, with its row where it has ended here.
    """

    changed: Callable[[str], None] = _nobody
    rested: Callable[[str, RunRow | None], None] = _no_rest
    progress: Callable[[str, int, int, str], None] = _no_one


@dataclass(slots=True)
class _Driven:
    """A run that a task of this process looks after; `drive` is None while it is claimed and loaded."""

    drive: Drive | UndoDrive | None = None
    again: bool = False


class InProcess:
    """Drives the runs of this process, on its loop. `spawn` keeps a task to its end."""

    def __init__(self, tools: Tools, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self.hooks = Hooks()
        self._tools = tools
        self._parts = tools.parts
        self._spawn = spawn
        self._driven: dict[str, _Driven] = {}
        self._faults: dict[str, int] = {}
        self._unsound: set[str] = set()
        self._foreign: dict[str, tuple[int, frozenset[str]]] = {}
        self._closing = False

    @property
    def read(self) -> Read:
        """What gives the whole output of a settled call."""
        return self._tools.stepper.output

    def wake(self, run_id: str) -> None:
        """Look at this run soon: its driver here does, or it is claimed if nobody drives it."""
        if self._closing or run_id in self._unsound:
            return
        driven = self._driven.get(run_id)
        if driven is None:
            self._driven[run_id] = _Driven()
            self._spawn(self._look_after(run_id))
            return
        if driven.drive is None:
            driven.again = True
        else:
            driven.drive.nudge()

    def begin(self, run: RunRow, planned: Planned) -> None:
        """Drive a run that was made just now, for this process: nothing else is known of it yet."""
        if self._closing or run.owner_id != self._parts.ledger.owner_id:
            self.wake(run.run_id)
            return
        self._driven[run.run_id] = _Driven()
        self._spawn(self._look_after(run.run_id, (run, planned)))

    async def sweep(self) -> None:
        """Wake every run that is left to whoever finds it, as far as this process has the tools that it still needs."""
        ledger, at, owner_id = self._parts.ledger, self._parts.clock.now(), self._parts.ledger.owner_id
        found: dict[str, None] = {}
        page = await ledger.record(lambda: list_wakes(owner_id))
        while page:
            found |= dict.fromkeys(wake.run_id for wake in page)
            after = page[-1].n
            page = await ledger.record(lambda after=after: list_wakes(owner_id, after))  # type: ignore[misc]  # bound in its turn
        found |= dict.fromkeys(await self._every(lambda after: list_due_runs(at, after)))
        found |= dict.fromkeys(await self._every(list_orphan_runs))
        found |= dict.fromkeys(await self._stranded())
        for run_id in found:
            self.wake(run_id)
        for driven in self._driven.values():
            if driven.drive is not None and driven.drive.waits_elsewhere:
                driven.drive.nudge()  # those who follow its calls elsewhere may be gone

    async def _every(self, list_page: Callable[[str], Fact[list[str]]]) -> list[str]:
        """All pages: runs that nobody here can drive must not keep others from being seen."""
        found: list[str] = []
        page = await self._parts.ledger.record(lambda: list_page(""))
        while page:
            found += page
            after = page[-1]
            page = await self._parts.ledger.record(lambda after=after: list_page(after))  # type: ignore[misc]  # bound in its turn
        return found

    async def _stranded(self) -> list[str]:
        """Runs that wait for a step whose process is gone, where not only a person can tell what became of it."""
        found: list[str] = []
        page = await self._parts.ledger.record(list_stranded)
        while page:
            for step in page:
                entry = self._parts.catalogue.get(step.tool, step.version)
                if entry is not None and entry.contract.recovery_class is not RecoveryClass.PERSON:
                    found.append(step.run_id)
            after = page[-1].call_id
            page = await self._parts.ledger.record(lambda after=after: list_stranded(after))  # type: ignore[misc]  # bound in its turn
        return found

    def is_driven(self, run_id: str) -> bool:
        """True while a task of this process looks after a run."""
        return run_id in self._driven

    def stop(self) -> None:
        """Leave every run to others; each is released at its driver's next look."""
        self._closing = True
        for driven in self._driven.values():
            if driven.drive is not None:
                driven.drive.release()

    async def _look_after(self, run_id: str, made: tuple[RunRow, Planned] | None = None) -> None:
        """Until it has ended or rests; `made` is one that was made just now, of which nothing need be read."""
        driven = self._driven[run_id]
        try:
            if made is not None:
                driven.drive = self._to_drive(made[0], Stored(made[1].plan, made[1].given_input, [], []))
                if driven.again:
                    driven.drive.nudge()
            while True:
                driven.again = False
                driven.drive = driven.drive or await self._take_up(run_id)
                over = None if driven.drive is None else await self._drive(driven, driven.drive)
                self._faults.pop(run_id, None)
                if driven.drive is None or over is Over.FINISHED or self._closing:
                    return
                if not (driven.again or driven.drive.is_nudged):
                    return
                driven.drive = None
        except DamagedChainError as error:
            self._unsound.add(run_id)
            log.error("the record of a run is damaged, so it is not driven any more: %s", error)  # noqa: TRY400 (the place in our code says nothing)
        except Exception as error:  # noqa: BLE001 (a fault of ours, or of the ledger: the run must not stay `running`)
            await self._put_off(run_id, error)
        finally:
            del self._driven[run_id]
            run = None if driven.drive is None else driven.drive.run
            self.hooks.rested(run_id, None if run is None or run.finished_at is None else run)

    async def _drive(self, driven: _Driven, drive: Drive | UndoDrive) -> Over:
        if self._closing:
            drive.release()
        over = await drive.drive()
        if over in {Over.REOPENED, Over.UNDOES}:
            driven.again = True
        if over is Over.LOST and drive.run.owner_id != self._parts.ledger.owner_id:
            await drive.landed()
            driven.again = True  # this process has lost its lease, and works under another name now
        return over

    async def _take_up(self, run_id: str) -> Drive | UndoDrive | None:
        """Claim a run and load it; None if it is not to be driven here."""
        parts, ledger = self._parts, self._parts.ledger
        owner_id, at = ledger.owner_id, parts.clock.now()
        await ledger.require_sound_chain(run_id)
        run = await ledger.record(lambda: get_run(run_id))
        if run is not None and self._is_foreign(run):
            return None
        planned = None
        if run is not None and (run.finished_at is None or run.verdict is not None):
            planned = await load_plan(parts, self._tools.plans, run)
            if not await self._serves(run, planned):
                return None
        claimed: Claimed | None = await ledger.record(lambda: claim_run(run_id, owner_id, at))
        if claimed is None and run is not None and run.verdict is not None:
            self.hooks.changed(run_id)  # what is known of a finished run may be more by now
        if claimed is None or planned is None:
            return None
        return self._to_drive(claimed.run, await load_calls(parts, claimed.run, planned))

    def _to_drive(self, run: RunRow, stored: Stored) -> Drive | UndoDrive:
        """A run that this process has claimed, as it stands."""
        self.hooks.changed(run.run_id)
        tell = self._tell(run.run_id, len(stored.plan.steps))
        taken = board_of(run, stored, read_steps(self._parts, stored.plan), self._tools.stepper.output, tell)
        owner_id = run.owner_id or ""
        steps = self._steps(run, stored, taken)
        if run.verdict is not None:
            earlier = [*taken_over(stored.steps, stored.reused).values()]
            undos = Undos(self._parts, self._tools.stepper, run, stored.plan, stored.given_input, earlier)
            return UndoDrive(self._tools, run, stored.plan, steps, undos, self.hooks.changed)
        return Drive(self._tools, taken, steps, owner_id, self._spawn, self.hooks.changed)

    def _steps(self, run: RunRow, stored: Stored, taken: TakenUp) -> Steps:
        settings, plan = self._parts.settings, stored.plan
        scopes, claimed = frozenset(json.loads(run.scopes)), json.loads(run.claimed)
        return Steps(
            self._tools,
            run.run_id,
            stored.given_input,
            Principal(run.tenant, run.subject, run.client, scopes, run.proof, claimed),
            taken,
            parallel=min(plan.max_parallel or settings.max_parallel, settings.max_parallel),
            most_items=settings.for_each,
            budget=limits_of(plan.budget, plan.allow, self._parts.budgets.run),
        )

    def _tell(self, run_id: str, total: int) -> Callable[[int, Step, StepState], None]:
        def tell(done: int, step: Step, state: StepState) -> None:
            self.hooks.progress(run_id, done, total, f"{step.id}: {state}")

        return tell

    async def _serves(self, run: RunRow, planned: Planned) -> bool:
        """True if every tool that the run still needs is here, by name; one that has changed fails its step."""
        needed = {step.tool for step in planned.plan.steps}
        if run.verdict is not None:
            needed |= {step.compensate.tool for step in planned.plan.steps if isinstance(step.compensate, Undo)}
        if not self._missing(needed):
            return True
        stored = await load_calls(self._parts, run, planned)
        if run.verdict is not None:
            missing = self._missing(await self._left_to_undo(run, stored))
        else:
            state = board_of(run, stored, frozenset(), self._tools.stepper.output, _no_step).board.scheduler.state
            missing = self._missing({step.tool for step in stored.plan.steps if state(step.index) not in ENDED})
        if missing:
            if len(self._foreign) >= KNOWN:
                self._foreign.clear()
            self._foreign[run.run_id] = (run.version, missing)
        return not missing

    def _is_foreign(self, run: RunRow) -> bool:
        """True if it was found to need tools that are still not here, and has not changed since."""
        version, missing = self._foreign.get(run.run_id, (-1, frozenset[str]()))
        return version == run.version and any(self._parts.catalogue.get(name) is None for name in missing)

    async def _left_to_undo(self, run: RunRow, stored: Stored) -> set[str]:
        """The tools of what is still to be known, and of the undos that are still to be made."""
        undos = await self._parts.ledger.record(lambda: undo_calls(run.run_id))
        notes = await self._parts.ledger.record(lambda: undo_notes(run.run_id))
        needed = {row.tool for row in stored.calls if row.is_unresolved}
        for effect in effects_to_undo(stored.plan, stored.calls, undos, notes):
            if effect.state in UNDECIDED:
                made = effect.step.compensate
                own = made.tool if isinstance(made, Undo) else effect.step.tool
                needed.add(own if effect.undo is None else effect.undo.tool)
        return needed

    def _missing(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in names if self._parts.catalogue.get(name) is None)

    async def _put_off(self, run_id: str, error: Exception) -> None:
        """Park a run that could not be driven, for longer each time; if not even that can be recorded, look later."""
        log_fault(f"driving {run_id} ended", error)
        faults = self._faults[run_id] = self._faults.get(run_id, 0) + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(faults - 1, 10))
        owner_id, at = self._parts.ledger.owner_id, self._parts.clock.now()
        message = f"It could not be driven ({type(error).__name__}); it is tried again."
        why = Parked(RunStatus.QUEUED.value, "unavailable", message, at + pause)
        try:
            if await self._parts.ledger.record(lambda: claim_run(run_id, owner_id, at)) is not None:
                await self._parts.ledger.record(lambda: park(run_id, owner_id, why, at))
            self.hooks.changed(run_id)
        except LedgerError as failed:
            log.warning("%s cannot be parked: %s", run_id, type(failed).__name__)
            if not self._closing:
                asyncio.get_running_loop().call_later(pause / MICROSECOND, self.wake, run_id)
