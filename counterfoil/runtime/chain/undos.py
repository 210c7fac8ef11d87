"""How one effect is undone: which tool, with which arguments, and its call on the one path, started or resumed.

An undo is a governed call like any other: its own contract, policy, approval, outcome and key. Why one cannot be made
is a value for whoever drives the run.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...registry.filling import ABSENT, Values, fill
from ...registry.request import CallRequest
from ...registry.vocabulary import ErrorCode, JsonObject, JsonValue, Route
from ..case import Within
from ..plan.hiding import hidden_in
from ..plan.model import Undo
from ..plan.values import UNSET, MissingPathError, Scope, Unset, needed, resolve
from ..stepping import NO_OUTPUT, NoOutput
from .effects import place_of
from .folding import has_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ledger.rows import CallRow
    from ...ledger.run_rows import RunRow
    from ...registry.catalogue import Entry
    from ...registry.contract import Contract
    from ...registry.principal import Principal
    from ..parts import Parts
    from ..plan.model import Plan, Step
    from ..stepping import StepEnd, Stepper
    from .effects import Effect


@dataclass(frozen=True, slots=True)
class NoUndo:
    """Nothing undoes this effect; `tool` is what was to."""

    message: str
    tool: str | None = None
    code: str | None = None


class Undos:
    """Makes the undos of one run. `earlier` are the calls of another run that stand for steps of it: nothing of theirs
    is undone here, and what they gave may be asked for.
    """  # noqa: D205 (one sentence)

    def __init__(
        self,
        parts: Parts,
        stepper: Stepper,
        run: RunRow,
        plan: Plan,
        given_input: JsonObject,
        earlier: Sequence[CallRow] = (),
    ) -> None:
        self._parts = parts
        self._stepper = stepper
        self._run = run
        self._plan = plan
        self._input = given_input
        self._earlier = earlier
        self._parallel = asyncio.Semaphore(1)

    def contract_of(self, step: Step) -> Contract | None:
        """The contract of what undoes a step's effect, as far as it is here."""
        entry = self._entry(step)
        return None if entry is None else entry.contract

    async def start(self, effect: Effect, principal: Principal, rows: Sequence[CallRow]) -> StepEnd | NoUndo:
        """Begin the undo of an effect, and follow it until nothing more happens to it by itself."""
        entry = self._entry(effect.step)
        if entry is None:
            return self._missing(effect.step)
        output = await self._output(effect.row)
        try:
            arguments = await self._arguments(effect, output, rows)
        except MissingPathError as error:
            code = ErrorCode.INVALID_ARGUMENTS.value
            return NoUndo(f"The arguments of its undo cannot be made: {error}", entry.contract.name, code)
        request = CallRequest(
            principal=principal,
            tool=entry.contract.name,
            arguments=arguments,
            version=entry.contract.version,
            route=Route.COMPENSATION,
            parent_call_id=effect.row.call_id,
        )
        return await self._stepper.start(request, self._within(effect, entry.contract.schema_digest, output))

    async def resume(self, effect: Effect, undo: CallRow, principal: Principal) -> StepEnd:
        """Go on with an undo of ours that is queued."""
        entry = self._parts.catalogue.get(undo.tool, undo.version)
        digest = (
            undo.schema_digest if entry is None else entry.contract.schema_digest
        )  # without one the path refuses it
        within = self._within(effect, digest, await self._output(effect.row))
        return await self._stepper.resume(undo, principal, within)

    def _entry(self, step: Step) -> Entry | None:
        catalogue = self._parts.catalogue
        if isinstance(step.compensate, Undo):
            return catalogue.get(step.compensate.tool)
        first = catalogue.get(step.tool, step.version)
        name = None if first is None else first.contract.recovery.compensation
        return None if name is None else catalogue.get(name)

    def _missing(self, step: Step) -> NoUndo:
        if isinstance(step.compensate, Undo):
            return NoUndo(f"{step.compensate.tool}, which was to undo it, is not there.", step.compensate.tool)
        return NoUndo(f"{step.tool} has no compensation: nothing undoes its effect.")

    async def _arguments(self, effect: Effect, output: JsonValue | NoOutput, rows: Sequence[CallRow]) -> JsonValue:
        step, row = effect.step, effect.row
        own: JsonValue = json.loads(await self._parts.ledger.open_payload(row.args_payload))
        if isinstance(step.compensate, Undo):
            scope = await self._scope(effect, output, rows)
            return resolve(step.compensate.args, scope, "compensate.args")
        first = self._parts.catalogue.get(step.tool, step.version)
        template = None if first is None else first.contract.recovery.compensation_arguments
        if template is None:
            return own
        known = own if isinstance(own, dict) else {}
        values = Values(known, row.call_id, row.action_id, ABSENT if isinstance(output, NoOutput) else output)
        filled = fill(template, values)
        return {} if filled is ABSENT else filled

    async def _scope(self, effect: Effect, output: JsonValue | NoOutput, rows: Sequence[CallRow]) -> Scope:
        """What `compensate.args` may refer to: the step itself, its item, and the steps before it."""
        step = effect.step
        assert isinstance(step.compensate, Undo), "asked of a step with arguments of its own"
        names = needed([step.compensate.args, step.for_each])
        outputs: dict[str, JsonValue | Unset] = {}
        evidence: dict[str, JsonObject | None] = {}
        for other in self._plan.steps:
            for name in names & {other.id, other.save_as or other.id}:
                if other is step:
                    outputs[name] = UNSET if isinstance(output, NoOutput) else output
                    evidence[name] = json.loads(effect.row.evidence) if effect.row.evidence else None
                else:
                    outputs[name], evidence[name] = await self._given(other, rows)
        scope = Scope(self._input, self._run.run_id, lambda name: outputs.get(name, UNSET), evidence.get)
        if effect.row.item is not None and effect.row.item >= 0:
            items = resolve(step.for_each, scope, "for_each")
            scope.item = items[effect.row.item] if isinstance(items, list) and effect.row.item < len(items) else UNSET
        return scope

    async def _given(self, step: Step, rows: Sequence[CallRow]) -> tuple[JsonValue | Unset, JsonObject | None]:
        calls = sorted((row for row in [*rows, *self._earlier] if row.step == step.id), key=lambda row: row.item or 0)
        values = [await self._stepper.output(row) if has_output(row) else NO_OUTPUT for row in calls]
        if any(isinstance(value, NoOutput) for value in values) or (not calls and step.for_each is None):
            return UNSET, None
        given = [value for value in values if not isinstance(value, NoOutput)]
        if step.for_each is not None:
            return given, None
        evidence: JsonObject | None = json.loads(calls[0].evidence) if calls[0].evidence else None
        return given[0], evidence

    async def _output(self, row: CallRow) -> JsonValue | NoOutput:
        """What the call to be undone gave, also where that broke its promise."""
        if row.output_payload is None:
            return NO_OUTPUT if row.outcome != "no_result" else None
        value: JsonValue = json.loads(await self._parts.ledger.open_payload(row.output_payload))
        return value

    def _within(self, effect: Effect, digest: str, output: JsonValue | NoOutput) -> Within:
        step, item = place_of(effect.row)
        made = effect.step.compensate
        return Within(
            run_id=self._run.run_id,
            step=step,
            item=item,
            schema_digest=digest,
            parallel=self._parallel,
            conceal=hidden_in(made.args, effect.step.for_each) if isinstance(made, Undo) else (),
            given={} if isinstance(output, NoOutput) else {"output": output},
        )
