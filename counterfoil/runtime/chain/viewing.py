"""From a stored run to its view: rows and outputs are read here. Outputs are cut to what a caller is shown.

A view is of one moment, whoever drives the run meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...ledger.errors import DamagedChainError
from ...ledger.run_reading import snapshot
from ..views import Truncated
from .folding import has_output
from .shown import show_steps
from .states import StepState
from .views import RunView, Told, body_of, effects_of

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...ledger.run_reading import OutputRow, Snapshot
    from ...registry.contract import Contract
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..parts import Parts
    from .plans import Plans
    from .shown import StepShown

PREVIEWED: Final = 20
"""How many of the outputs that are not shown whole are shown by their beginning; of the others only the size."""
PREVIEW_CHARACTERS: Final = 500


class RunViewer:
    """Makes views of runs. Whether somebody may see one is not decided here."""

    def __init__(self, parts: Parts, plans: Plans) -> None:
        self._parts = parts
        self._plans = plans

    async def view(self, run_id: str, *, effects: bool = False, outputs: bool = True) -> RunView:
        """How a run stands; with `effects` those that stand, without `outputs` only what became of its steps.

        Raises:
            DamagedChainError: its record is damaged: nothing is said about it.
            LedgerError: it cannot be read now.
        """
        found = await self._parts.ledger.reads.look(lambda: snapshot(run_id, outputs=outputs))
        if found is None:
            raise DamagedChainError(run_id, 0, "the run's row is missing")
        stored = await self._plans.find(found.run.plan_id)
        if stored is None:
            raise DamagedChainError(found.run.plan_id, 0, "the plan's row is missing")
        plan = stored.plan
        steps = show_steps(plan, found)
        shown = await self._outputs(found, steps) if outputs else None
        told = Told(self._parts.clock.now(), self._parts.budgets.run, self._contract)
        view = RunView(body_of(plan, found, steps, shown, told))
        return with_more(view, {"effects": effects_of(found)}) if effects else view

    def _contract(self, row: CallRow) -> Contract | None:
        entry = self._parts.catalogue.get(row.tool, row.version)
        return None if entry is None else entry.contract

    async def _outputs(self, found: Snapshot, steps: list[StepShown]) -> JsonObject:
        """`outputs` by id and `save_as`, whole while they fit together; a step without an output has no member."""
        giving = [(step, rows) for step in steps if (rows := _giving(step)) is not None]
        times = {row.call_id: 1 if step.step.save_as is None else 2 for step, rows in giving for row in rows}
        cells = await self._cells(found, [row for _, rows in giving for row in rows], times)
        shown: JsonObject = {}
        for step, rows in giving:
            values = [cells[row.call_id] for row in rows]
            value: JsonValue = values if step.step.for_each is not None else values[0]
            for name in filter(None, (step.step.id, step.step.save_as)):
                shown[name] = value
        return shown

    async def _cells(self, found: Snapshot, rows: list[CallRow], times: dict[str, int]) -> dict[str, JsonValue]:
        """What is shown of each output, so many `times` in all: itself, or the mark of one that is too large."""
        left = self._parts.settings.output_model_bytes
        cells: dict[str, JsonValue] = {}
        whole: list[tuple[str, OutputRow]] = []
        cut: list[tuple[str, OutputRow]] = []
        for row in rows:
            output = None if row.output_payload is None else found.outputs.get(row.output_payload)
            if output is None:
                cells[row.call_id] = None  # it ended without a result, which is an output
            elif output.bytes * times[row.call_id] <= left:
                left -= output.bytes * times[row.call_id]
                whole.append((row.call_id, output))
            else:
                cut.append((row.call_id, output))
        cells |= await self._opened(whole)
        for count, (call_id, output) in enumerate(cut):
            cells[call_id] = await self._mark(output, PREVIEW_CHARACTERS if count < PREVIEWED else 0)
        return cells

    async def _opened(self, whole: list[tuple[str, OutputRow]]) -> dict[str, JsonValue]:
        ledger = self._parts.ledger
        small = [(call_id, output.payload, output.sealed) for call_id, output in whole if output.sealed is not None]
        contents = await ledger.open_read([(payload, sealed) for _, payload, sealed in small])
        opened: dict[str, JsonValue] = {}
        for (call_id, _, _), raw in zip(small, contents, strict=True):
            opened[call_id] = json.loads(raw)
        for call_id, output in whole:
            if output.sealed is None:
                opened[call_id] = json.loads(await ledger.open_payload(output.payload_id))
        return opened

    async def _mark(self, output: OutputRow, preview: int) -> JsonObject:
        raw = await self._parts.ledger.read_payload(output.payload_id, 0, preview * 4) if preview else b""
        text = raw.decode("utf-8", "ignore")[:preview]
        uri = f"counterfoil://artifacts/{output.payload_id}"
        return {"truncated": Truncated(output.bytes, output.sha256, uri, text).wire()}


def _giving(step: StepShown) -> list[CallRow] | None:
    """The calls whose outputs are the step's, in order; None where it has none."""
    if step.items is None:
        return [step.row] if step.row is not None and has_output(step.row) else None
    return step.rows if step.state is StepState.SUCCEEDED else None


def with_more(view: RunView, more: JsonObject) -> RunView:
    """A view with more members."""
    return replace(view, body={**view.body, **more})
