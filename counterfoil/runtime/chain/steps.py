"""One step on its way from its templates to the end of its call; what comes of it is a value for the driver.

Here a step asks its `when`, counts its items and resolves its arguments. It decides nothing about the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ...ledger.recovering import adopt, take_over
from ...ledger.rows import CallRow
from ...ledger.run_calls import claim_step
from ...ledger.run_rows import WHOLE
from ...ledger.states import CallState
from ...registry.predicates import kind_of
from ...registry.request import CallRequest
from ...registry.vocabulary import ErrorCode, JsonValue, RecoveryClass, Route
from ..case import Within
from ..gathering import Gathering
from ..plan.hiding import hidden_places
from ..plan.values import UNSET, MissingPathError, NotBooleanError, Unset, as_text, ask_when, kind_word, resolve
from ..refusal import RefusedError
from ..stepping import Ended
from .board import Place
from .reusing import Again, Differs

if TYPE_CHECKING:
    from ...registry.budgets import Kind
    from ...registry.principal import Principal
    from ...registry.vocabulary import JsonObject
    from ..parts import Parts
    from ..plan.model import Step
    from ..plan.values import Scope
    from ..reconciling import Reconciler
    from ..stepping import StepEnd, Stepper
    from .loading import TakenUp
    from .plans import Plans


@dataclass(frozen=True, slots=True)
class Skipped:
    """Its `when` was false."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """A `for_each` has these items."""

    values: Sequence[JsonValue]


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """It cannot be called: what it refers to is not there, of another kind, or other than what an earlier run had.

    Nothing was sent.
    """

    message: str
    code: ErrorCode = ErrorCode.INVALID_ARGUMENTS


@dataclass(frozen=True, slots=True)
class Moved:
    """Its call was changed by somebody else meanwhile: look at its row again."""

    call_id: str


Result: TypeAlias = "StepEnd | Skipped | Expanded | Unresolvable | Moved | Again"


@dataclass(frozen=True, slots=True)
class Tools:
    """What the steps of this process work with."""

    parts: Parts
    stepper: Stepper
    reconciler: Reconciler
    plans: Plans


class Steps:
    """The steps of one run. `principal` is replaced when its grant is renewed; `budget` is what the run may use."""

    def __init__(
        self,
        tools: Tools,
        run_id: str,
        given_input: JsonObject,
        principal: Principal,
        taken: TakenUp,
        *,
        parallel: int,
        most_items: int,
        budget: Mapping[Kind, int],
    ) -> None:
        self.principal = principal
        self._tools = tools
        self._run_id = run_id
        self._input = given_input
        self._outputs = taken.outputs
        self._reusable = taken.reusable
        self._parallel = asyncio.Semaphore(parallel)
        self._most_items = most_items
        self.budget = budget
        self._hidden: dict[int, tuple[str, ...]] = {}
        self._gatherings: dict[int, Gathering] = {}

    async def begin(self, step: Step, *, asked: bool) -> Result:
        """A step from its `when` on; `asked` if that was answered before, as it was for what an earlier run did."""
        try:
            await self._outputs.load(step.index)
            scope = self._outputs.scope(self._input, self._run_id)
            asked = asked or self._reusable.covers(step.index)
            if step.when is not None and not asked and not ask_when(step.when, scope):
                return Skipped()
            if step.for_each is not None:
                return self._items(step, resolve(step.for_each, scope, "for_each"))
            return await self._call(step, Place(step.index), UNSET)
        except (MissingPathError, NotBooleanError) as error:
            return Unresolvable(str(error))

    def item(self, step: Step, number: int, value: JsonValue) -> Coroutine[Any, Any, Result]:
        """One item of a `for_each`; it has set out from now on."""
        return self._on_its_way(Place(step.index, number), self._item(step, number, value))

    async def _item(self, step: Step, number: int, value: JsonValue) -> Result:
        try:
            await self._outputs.load(step.index)
            return await self._call(step, Place(step.index, number), value)
        except MissingPathError as error:
            return Unresolvable(str(error))

    def resume(self, step: Step, place: Place, row: CallRow) -> Coroutine[Any, Any, Result]:
        """Go on with a queued call of ours; it has set out from now on."""
        return self._on_its_way(place, self._resume(step, place, row))

    async def _resume(self, step: Step, place: Place, row: CallRow) -> Result:
        return await self._tools.stepper.resume(row, self.principal, self._within(step, place))

    def carry_on(self, step: Step, place: Place, row: CallRow) -> Coroutine[Any, Any, Result]:
        """Go on with a queued call that somebody else had, or nobody; it has set out from now on."""
        return self._on_its_way(place, self._carry_on(step, place, row))

    async def _carry_on(self, step: Step, place: Place, row: CallRow) -> Result:
        parts, at = self._tools.parts, self._tools.parts.clock.now()
        owner_id = parts.ledger.owner_id
        mine = await parts.ledger.record(lambda: claim_step(row.call_id, owner_id, at))
        return Moved(row.call_id) if mine is None else await self._resume(step, place, mine)

    async def recover(self, step: Step, place: Place, row: CallRow) -> Result:
        """A call that was sent, or parked, by a process that is gone: its order of recovery is followed once."""
        parts, at = self._tools.parts, self._tools.parts.clock.now()
        owner_id = parts.ledger.owner_id
        if row.state == CallState.DISPATCHED:
            taken = await parts.ledger.record(lambda: take_over(row.call_id, owner_id, at))
            mine = taken.row if taken is not None else None
        else:
            mine = await parts.ledger.record(lambda: adopt(row.call_id, owner_id, at))
        if mine is None:
            return Moved(row.call_id)
        try:
            done = await self._tools.reconciler.follow(mine, repeatable_here=True)
        except RefusedError:
            return Moved(row.call_id)
        if done.state == CallState.QUEUED and done.owner_id == owner_id:
            return await self._resume(step, place, done)
        return Ended(done, await self._tools.stepper.output(done))

    def _on_its_way(self, place: Place, work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        """Have an item that may come to need a person expected by its siblings from its start on."""
        if place.item == WHOLE:
            return work
        gathering = self._gatherings.setdefault(place.step, Gathering())
        gathering.expect(place.item)
        return _watched(gathering, place.item, work)

    def is_for_a_person(self, row: CallRow) -> bool:
        """True if nothing but a person's word tells what became of a call: following it up again is in vain."""
        entry = self._tools.parts.catalogue.get(row.tool, row.version)
        return entry is None or entry.contract.recovery_class is RecoveryClass.PERSON

    async def _call(self, step: Step, place: Place, item: JsonValue | Unset) -> StepEnd | Again | Unresolvable:
        scope = self._outputs.scope(self._input, self._run_id, item)
        arguments = resolve(step.args, scope, "args")
        taken = self._reusable.take(self._tools.parts.catalogue, step, place, arguments)
        if taken is not None:
            return Unresolvable(taken.message, ErrorCode.PLAN_INVALID) if isinstance(taken, Differs) else taken
        request = CallRequest(
            principal=self.principal,
            tool=step.tool,
            arguments=arguments,
            version=step.version,
            if_version=_condition(step, scope),
            route=Route.STEP,
        )
        return await self._tools.stepper.start(request, self._within(step, place))

    def _items(self, step: Step, found: JsonValue) -> Expanded | Unresolvable:
        if not isinstance(found, list):
            return Unresolvable(f"for_each: expected a list, got {kind_word(found)}")
        if len(found) > self._most_items:
            return Unresolvable(f"for_each: {len(found)} items; a step takes at most {self._most_items}")
        differs = self._reusable.of_list(step.index, found, self._tools.parts.ledger.mac)
        return Expanded(found) if differs is None else Unresolvable(differs.message, ErrorCode.PLAN_INVALID)

    def _within(self, step: Step, place: Place) -> Within:
        retry = step.retry
        return Within(
            run_id=self._run_id,
            step=step.id,
            item=place.item,
            schema_digest=step.schema_digest,
            parallel=self._parallel,
            timeout_s=step.timeout_s,
            attempts=None if retry is None else retry.attempts,
            backoff_s=None if retry is None else retry.backoff_s,
            least_s=None if retry is None else retry.least_s,
            budget=self.budget,
            conceal=self._hidden_in(step),
            gathering=None if place.item == WHOLE else self._gatherings.get(place.step),
        )

    def _hidden_in(self, step: Step) -> tuple[str, ...]:
        if step.index not in self._hidden:
            self._hidden[step.index] = hidden_places(step)
        return self._hidden[step.index]


async def _watched(gathering: Gathering, item: int, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return await work
    finally:
        gathering.passed(item)


def _condition(step: Step, scope: Scope) -> str | None:
    """The version that a call is made conditional on: never none where the plan states one.

    Raises:
        MissingPathError: it comes to something that is no version.
    """
    if step.if_version is None:
        return None
    found = resolve(step.if_version, scope, "if_version")
    if isinstance(found, str) or (isinstance(found, int | float) and not isinstance(found, bool)):
        return as_text(found)
    got = "null" if found is None else f"a {kind_of(found)}"
    raise MissingPathError("if_version", step.if_version, f"expected a version, a string or a number, got {got}")
