"""The doors for whoever knows that a far side may be done: they have it asked now, and settle nothing.

What they leave is a mark in the ledger, for whichever server has the tool; its probe decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..ledger.errors import LedgerError
from ..ledger.external import wake
from ..ledger.rows import get_call
from ..ledger.run_rows import get_run
from ..ledger.runs import calls_of
from ..ledger.states import CallState
from ..ledger.undoing import undo_calls
from ..registry.vocabulary import ErrorCode
from .answers import not_found, refusal_view
from .chain.views import name_of
from .refusal import RefusedError, refuse, refuse_arguments
from .views import PlainView

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.vocabulary import JsonValue
    from .parts import Parts

_NAMED: Final = 5
"""How many steps a sentence names."""


class Signals:
    """Wakes calls that a far side has accepted."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def signal(self, name: str, step: str | None = None) -> PlainView:
        """Have the far side of a run's step, of one of its items (`step[3]`), or of a direct call asked now."""
        try:
            rows = await (self._of_run(name, step) if step is not None else self._direct(name))
            at = self._parts.clock.now()
            woken: list[CallRow] = []
            for row in rows:
                done = await self._parts.ledger.record(lambda row=row: wake(row.call_id, at))  # type: ignore[misc]  # bound in its turn
                woken += [] if done is None else [done]
            if not woken:
                raise _not_waiting(f"What {name} waited for", "moved just now")
            shown: list[JsonValue] = [{"call_id": row.call_id, "step": name_of(row), "tool": row.tool} for row in woken]
            return PlainView({"signalled": shown})
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)

    async def _direct(self, call_id: str) -> list[CallRow]:
        row = await self._parts.ledger.record(lambda: get_call(call_id))
        if row is None:
            if await self._parts.ledger.record(lambda: get_run(call_id)) is not None:
                raise refuse_arguments("/step", "a step of the run, such as ship or ship[3]", "none")
            raise not_found(call_id)
        if row.state != CallState.AWAITING_EXTERNAL:
            raise _not_waiting(row.call_id, row.state)
        return [row]

    async def _of_run(self, run_id: str, step: str) -> list[CallRow]:
        if await self._parts.ledger.record(lambda: get_run(run_id)) is None:
            raise not_found(run_id)
        record = self._parts.ledger.record
        rows = await record(lambda: calls_of(run_id)) + await record(lambda: undo_calls(run_id))
        mine = [row for row in rows if step in {row.step, name_of(row)}]
        waiting = [row for row in mine if row.state == CallState.AWAITING_EXTERNAL]
        if not waiting:
            raise _not_waiting(f"Step {step} of {run_id}", mine[0].state if mine else "not sent", rows)
        return waiting


def _not_waiting(what: str, state: str, rows: list[CallRow] | None = None) -> RefusedError:
    places = [name_of(row) or "" for row in rows or () if row.state == CallState.AWAITING_EXTERNAL]
    waits = f" These do: {', '.join(places[:_NAMED])}." if places else ""
    return refuse(
        ErrorCode.VERSION_CONFLICT,
        f"{what} is {state.replace('_', ' ')}; only what a far side has accepted is woken. Nothing was done.{waits}",
    )
