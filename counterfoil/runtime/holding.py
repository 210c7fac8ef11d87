"""Holds as the runtime sees them: set and released by a person, and looked at before a read that T1 cannot stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ledger.errors import LedgerError
from ..ledger.holding import HoldRow, lift_hold, list_holds, set_hold
from ..ledger.redact import redact_text
from ..registry.vocabulary import HOLD_KINDS
from .answers import refusal_view
from .clock import rfc3339
from .refusal import RefusedError, refuse_arguments
from .views import PlainView

if TYPE_CHECKING:
    from ..ledger.sql import Fact
    from ..registry.vocabulary import JsonObject, JsonValue
    from .case import Case
    from .parts import Parts


class Holds:
    """The doors for whoever stops dispatches, and lets them go on."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def hold(self, kind: str, name: str, *, by: str, reason: str = "") -> PlainView:
        """Stop every dispatch of these from now on, undos included and probes not, until `release`."""
        at, why = self._parts.clock.now(), redact_text(reason)
        return await self._changed(kind, name, lambda: set_hold(kind, name, by, why, at))

    async def release(self, kind: str, name: str, *, by: str) -> PlainView:
        """Let them be sent again; runs that wait for it are woken."""
        at = self._parts.clock.now()
        return await self._changed(kind, name, lambda: lift_hold(kind, name, by, at))

    async def all(self) -> PlainView:
        """All that stand, the oldest first."""
        try:
            await self.look()
            shown: list[JsonValue] = [_wire(hold) for hold in self._parts.holds]
            return PlainView({"holds": shown})
        except LedgerError as error:
            return refusal_view(error)

    async def look(self) -> None:
        """See what is held now; where others have changed that, whoever waits looks again. Raises `LedgerError`."""
        was, self._parts.holds = self._parts.holds, tuple(await self._parts.ledger.record(list_holds))
        if was != self._parts.holds:
            self._parts.passing.stir()

    async def _changed(self, kind: str, name: str, fact: Callable[[], Fact[HoldRow | None]]) -> PlainView:
        try:
            if kind not in HOLD_KINDS or (kind == "all") != (name == ""):
                expected = "all alone, or one of tool, tenant, subject, run with a name"
                raise refuse_arguments("/kind", expected, f"{kind[:30]} {name[:60]}".strip())
            done = await self._parts.ledger.record(fact)
            self._parts.passing.stir()
            await self.look()
            return PlainView({"hold": None if done is None else _wire(done), "stands": done in self._parts.holds})
        except (RefusedError, LedgerError) as error:
            return refusal_view(error)


def held_read(parts: Parts, case: Case) -> HoldRow | None:
    """The hold that keeps a read from running, as far as this process has seen; its record asks the ledger."""
    if not parts.holds:
        return None
    who = case.principal
    run = case.within.run_id if case.within is not None else ""
    stopped = {
        ("all", ""), ("tool", case.known.contract.name), ("tenant", who.tenant), ("subject", who.subject), ("run", run),
    }  # fmt: skip
    return next((hold for hold in parts.holds if (hold.kind, hold.name) in stopped), None)


def _wire(hold: HoldRow) -> JsonObject:
    return {"kind": hold.kind, "name": hold.name, "by": hold.by, "reason": hold.reason, "since": rfc3339(hold.at)}
