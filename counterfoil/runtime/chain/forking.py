"""A fork: a new run that goes on from a finished one, with its settled steps and without repeating them.

Here is decided which places are taken over and which run anew. What stands in the far side's books is never done twice:
a fork that would do so is refused, with everything that is in its way. A place is taken over at once where all that it
depends on is; else it waits, and its arguments are compared when they are known.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ...ledger.forking import past_of
from ...ledger.run_rows import WHOLE, get_run
from ...ledger.runs import StepChange, TakeOver
from ...ledger.states import CallState
from ...ledger.undoing import is_in_doubt
from ...registry.vocabulary import ErrorCode
from ..answers import not_found
from ..clock import micros
from ..plan.graph import followers, ordered
from ..plan.problems import Code, ForkRefusedError, PlanInvalidError, Problems
from ..plan.stored import to_document
from ..plan.values import UNSET, MissingPathError, resolve
from ..refusal import refuse
from .beginning import Begun, OvertakenError, Wanted, asked_input
from .board import Place
from .effects import UndoState, undo_state
from .folding import has_effect, state_of
from .loading import load_plan
from .outputs import Outputs
from .reusing import LIST, differing, digest_of_list, is_same
from .states import StepState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...ledger.forking import Past
    from ...ledger.rows import CallRow
    from ...registry.request import RunRequest
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..parts import Parts
    from ..plan.model import Plan, Step
    from ..plan.values import Scope, Unset
    from .beginning import Beginner
    from .outputs import Read
    from .plans import Plans

LOOKS: Final = 5
"""How often a run is looked at that keeps changing while it is forked."""
_ENDED: Final = frozenset({CallState.SETTLED.value, CallState.REFUSED.value})


class Forker:
    """Makes forks of finished runs. `read` gives the whole output of a settled call."""

    def __init__(self, parts: Parts, plans: Plans, beginner: Beginner, read: Read) -> None:
        self._parts = parts
        self._plans = plans
        self._beginner = beginner
        self._read = read

    async def begin(self, request: RunRequest, fork_of: str, is_unwanted: Callable[[], bool]) -> Begun | None:
        """The fork of a request, which may be there already; None if it became unwanted before it was made.

        Raises:
            PlanInvalidError, RefusedError: nothing runs.
            LedgerError: it cannot be told whether it was made; asked again, the same key finds it.
        """
        parts, given, principal = self._parts, asked_input(request), request.principal
        parent = await parts.ledger.reads.look(lambda: get_run(fork_of))
        if parent is None or (parent.tenant, parent.subject) != (principal.tenant, principal.subject):
            raise not_found(fork_of)
        planned = await load_plan(parts, self._plans, parent)
        stored = await self._plans.find(parent.plan_id)
        assert stored is not None, "it was loaded just now"
        key = request.request_key or fork_of + (f" {request.from_step}" if request.from_step else "")
        effective: JsonObject = {**planned.given_input, **given}
        wanted = Wanted.of(stored.row.digest, effective, key)
        wanted = replace(wanted, parent_run_id=fork_of, from_step=request.from_step)
        there = await self._beginner.there(request, wanted)
        if there is not None:
            return there
        self._beginner.require_pins(stored.plan)
        await self._beginner.check(principal, to_document(stored.plan), effective)
        for _ in range(LOOKS):
            past = await parts.ledger.reads.look(lambda: past_of(fork_of))
            assert past is not None, "a run is never removed"
            asked = _Asked(stored.plan, planned.given_input, effective, request.from_step)
            fork = TakeOver(await _Taking(parts, asked, past, self._read).places(), past.versions)
            with suppress(OvertakenError):
                return await self._beginner.create(request, wanted, stored, None, is_unwanted, fork)
        raise refuse(ErrorCode.UNAVAILABLE, f"{fork_of} changes while it is forked. Nothing was begun; ask again.")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is forked: a plan, the input that it had and the one that it is to have, and where it runs anew from."""

    plan: Plan
    input: JsonObject
    effective: JsonObject
    from_step: str | None


class _Taking:
    """What one fork takes over of one past."""

    def __init__(self, parts: Parts, asked: _Asked, past: Past, read: Read) -> None:
        self._parts = parts
        self._plan = asked.plan
        self._asked = asked
        self._past = past
        self._problems = Problems()
        self._index = {step.id: step.index for step in asked.plan.steps}
        self._rows = self._earlier()
        self._counts = {self._index[note.step]: note.items for note in past.steps if note.items is not None}
        self._undos = {undo.parent_call_id: undo for undo in past.undos}
        self._outputs = Outputs(asked.plan, read)
        self._settled: set[int] = set()  # steps that are taken over whole, and at once

    async def places(self) -> list[StepChange]:
        """A change for each place that is taken over, or may be, in the order of the graph.

        Raises:
            ForkRefusedError: with everything that is in the way.
        """
        try:
            self._require_still()
            kept = self._kept(self._anew())
            self._problems.raise_any()
            found: list[StepChange] = []
            for index in ordered(self._plan.edges):
                found += await self._step(self._plan.steps[index], kept.get(index, {}))
            self._problems.raise_any()
        except PlanInvalidError as error:
            raise ForkRefusedError(error) from None
        return found

    def _earlier(self) -> dict[Place, CallRow]:
        """The call of each place: the run's own, else the one that it had taken over, or was to."""
        found: dict[Place, CallRow] = {}
        for note in self._past.steps:
            if note.reused is not None and note.reused in self._past.reused:
                found[Place(self._index[note.step], note.item)] = self._past.reused[note.reused]
        for row in self._past.calls:
            found[Place(self._index[row.step or ""], WHOLE if row.item is None else row.item)] = row
        return found

    def _require_still(self) -> None:
        """Only what has ended, and is known, can be gone on from."""
        run, past = self._past.run, self._past
        if run.finished_at is None:
            self._tell(None, "fork_of", f"{run.run_id} is {run.status}; only a finished run is forked. Follow it with "
                                        "status, take it up with run {run_id}, or cancel it first.")  # fmt: skip
        rows = [*past.calls, *past.reused.values(), *past.undos]
        waiting = [row for row in rows if row.state not in _ENDED]
        doubtful = [row for row in rows if is_in_doubt(row)]
        for row in dict.fromkeys([*waiting, *doubtful]):
            said = "failed, and whether it had its effect is not known" if row in doubtful else f"is {row.state}"
            self._tell(row.step, "fork_of", f"{row.call_id} {said}. Nothing goes on from there before that is settled; "
                                            "see reconcile.")  # fmt: skip
        for row in past.undos:
            if row.state in _ENDED and row.outcome == "partial":
                self._tell(row.step, "fork_of", f"{row.call_id} has undone a part of its effect: it neither stands nor "
                                                "is it gone. Plan what is left by hand.")  # fmt: skip

    def _anew(self) -> frozenset[int]:
        """`from_step` and everything behind it."""
        name = self._asked.from_step
        if name is None:
            return frozenset()
        if name not in self._index:
            self._problems.add(name, "from_step", Code.UNKNOWN_STEP, f"the plan of this run has no step {name}")
            return frozenset()
        after, found = followers(self._plan.edges), {self._index[name]}
        waiting = list(found)
        while waiting:
            new = [step for step in after[waiting.pop()] if step not in found]
            found.update(new)
            waiting += new
        return frozenset(found)

    def _kept(self, anew: frozenset[int]) -> dict[int, dict[int, CallRow]]:
        """By step and item what need not run anew. What does must have left no effect."""
        kept: dict[int, dict[int, CallRow]] = {}
        for place, row in self._rows.items():
            if place.step not in anew and self._is_good(row):
                kept.setdefault(place.step, {})[place.item] = row
            elif has_effect(row) and not self._is_undone(row):
                step = self._plan.steps[place.step].id
                why = "from_step is at it or before it" if place.step in anew else f"it ended as {row.outcome}"
                self._tell(
                    step, "from_step" if place.step in anew else "fork_of",
                    f"{step} would run anew ({why}), and the effect of its call {row.call_id} stands: it would happen "
                    "twice. Fork from a later step, or plan what is left by hand.",
                )  # fmt: skip
        return kept

    def _is_good(self, row: CallRow) -> bool:
        if state_of(row) is not StepState.SUCCEEDED or self._is_undone(row):
            return False
        return not (row.is_read and self._is_stale(row))

    def _is_undone(self, row: CallRow) -> bool:
        undo = self._undos.get(row.call_id)
        return undo is not None and undo_state(undo) is UndoState.UNDONE

    def _is_stale(self, row: CallRow) -> bool:
        entry = self._parts.catalogue.get(row.tool, row.version)
        fresh_s = 0.0 if entry is None else entry.contract.limits.freshness_s
        return self._parts.clock.now() - (row.settled_at or 0) > micros(fresh_s)

    async def _step(self, step: Step, kept: dict[int, CallRow]) -> list[StepChange]:
        """What is taken over of one step; all that it depends on was looked at before."""
        await self._outputs.load(step.index)
        earlier = self._outputs.scope(self._asked.input, self._past.run.run_id)
        now = self._outputs.scope(self._asked.effective, "")
        at_once = all(other in self._settled for other in self._plan.edges[step.index])
        found: list[StepChange] = []
        if kept and step.for_each is None:
            found = self._single(step, kept[WHOLE], now, at_once=at_once)
        elif kept:
            found = self._items(step, kept, earlier, now, at_once=at_once)
        self._outputs.ended(step.index, self._gave(step), whole=step.for_each is not None)
        return found

    def _gave(self, step: Step) -> list[CallRow] | None:
        """The calls whose outputs are those of a step; None if it ended without."""
        if step.for_each is None:
            row = self._rows.get(Place(step.index))
            return None if row is None else [row]
        rows = [self._rows.get(Place(step.index, n)) for n in range(self._counts.get(step.index, 0))]
        good = [row for row in rows if row is not None and state_of(row) is StepState.SUCCEEDED]
        return good if step.index in self._counts and len(good) == len(rows) else None

    def _single(self, step: Step, row: CallRow, now: Scope, *, at_once: bool) -> list[StepChange]:
        if not at_once:
            return [_may(step, WHOLE, row)]
        if not self._same(step, row, now, UNSET):
            return []
        self._settled.add(step.index)
        return [_stands(step, WHOLE, row)]

    def _items(
        self, step: Step, kept: dict[int, CallRow], earlier: Scope, now: Scope, *, at_once: bool
    ) -> list[StepChange]:
        """The items of a `for_each`: of the same list, or of none."""
        acts = any(not row.is_read for row in kept.values())
        was = _list_of(step, earlier)
        if not at_once:
            details = json.dumps({LIST: digest_of_list(was, self._parts.ledger.mac)})
            waits = StepChange(step.id, WHOLE, StepState.WAITING.value, details=details)
            return [waits, *(_may(step, n, row) for n, row in sorted(kept.items()))]
        if (is_now := _list_of(step, now)) is None or is_now != was:
            if acts:
                self._tell(
                    step.id, "for_each",
                    f"the list of {step.id} is another one now, and items of it have had their effects. Fork with the "
                    "same input, or plan what is left by hand.",
                )  # fmt: skip
            return []
        good = {n: row for n, row in sorted(kept.items()) if self._same(step, row, now, is_now[n])}
        if not good:
            return []
        if len(good) == len(is_now):
            self._settled.add(step.index)
        state = StepState.SUCCEEDED if len(good) == len(is_now) else StepState.RUNNING
        counted = StepChange(step.id, WHOLE, state.value, items=len(is_now))
        return [counted, *(_stands(step, n, row) for n, row in good.items())]

    def _same(self, step: Step, row: CallRow, now: Scope, item: JsonValue | Unset) -> bool:
        """Whether this place would send the same now; an effect that it would not have like this is a problem."""
        now.item = item
        try:
            same = is_same(self._parts.catalogue, step, resolve(step.args, now, "args"), row)
        except MissingPathError:
            same = False
        if not same and not row.is_read:
            self._tell(step.id, "args", differing(row))
        return same

    def _tell(self, step: str | None, field: str, message: str) -> None:
        self._problems.add(step, field, Code.INVALID_ARGUMENTS, message)


def _list_of(step: Step, scope: Scope) -> list[JsonValue] | None:
    try:
        found = resolve(step.for_each, scope, "for_each")
    except MissingPathError:
        return None
    return found if isinstance(found, list) else None


def _stands(step: Step, item: int, row: CallRow) -> StepChange:
    return StepChange(step.id, item, StepState.SUCCEEDED.value, row.outcome, reused=row.call_id)


def _may(step: Step, item: int, row: CallRow) -> StepChange:
    return StepChange(step.id, item, StepState.WAITING.value, row.outcome, reused=row.call_id)
