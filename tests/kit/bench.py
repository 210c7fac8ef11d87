"""A workshop with all of the kit's tools, as most hosts see it: the base tools listed, all others found by search."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from counterfoil.ledger.finding import list_undecided_past_due
from counterfoil.ledger.queries import ATTEMPTS, EVENTS, EventRow
from counterfoil.registry.principal import Principal
from counterfoil.runtime.deciding import Decider
from counterfoil.runtime.parts import Parts
from counterfoil.server.app import App
from tests.kit.clock import SetClock
from tests.kit.rules import strictly
from tests.kit.seat import Seat, View, seated
from tests.kit.workshop import Workshop
from tests.kit.world import World

MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.more_tools"]'
OPERATOR: Final = Decider("os:carol", "same_user", "cli")


@dataclass(frozen=True, slots=True)
class Bench:
    """One open application, a seat at it, and W."""

    app: App
    seat: Seat
    world: World

    @property
    def parts(self) -> Parts:
        """What the runtime is made of, for what only its parts can show: chance, time, and how long anybody waits."""
        return self.app.runtime._parts  # pyright: ignore[reportPrivateUsage] (no door is made for tests alone)

    async def approve(self, view: View) -> View:
        """What the person at the command line does; the call once it stands still."""
        approval = view["approval"]
        decided = (
            await self.app.runtime.decide(
                approval["approval_id"], "approve", decider=OPERATOR, digest=approval["digest"]
            )
        ).wire()
        assert decided.get("error") is None, decided
        return await self.seat.ask("status", call_id=view["call_id"], wait_s=20)

    async def events(self, run_id: str) -> list[dict[str, Any]]:
        """A chain as the ledger has it, every body in strict JSON."""
        rows: list[EventRow] = await self.app.ledger.reads.fetch(EVENTS, run_id=run_id, after_seq=0)
        return [{"type": row.type, "at": row.at, **strictly(row.body)["data"]} for row in rows]

    async def refusals(self) -> list[dict[str, Any]]:
        """What this process refused today, once everything that was noted by now is written."""
        await self.app.ledger.record(lambda: list_undecided_past_due(0))
        day = datetime.fromtimestamp(self.app.ledger.now() / 1_000_000, UTC).date().isoformat()
        return await self.events(f"refusals:{self.app.ledger.owner_id}:{day}")

    async def attempts(self, call_id: str) -> int:
        """How many attempts the ledger has of a call."""
        return len(await self.app.ledger.reads.fetch(ATTEMPTS, call_id=call_id))


def furnish(shop: Workshop, more: str = "", **head: str) -> Workshop:
    """Configure all of the kit's tools; `head` as in `Workshop.new`, with `principals_local` for its dotted table."""
    tables = {name.replace("_local", ".local"): lines for name, lines in head.items()}
    shop.configure(more, head={"server": 'visibility = "deferred"', "python": MODULES} | tables)
    return shop


@asynccontextmanager
async def bench(shop: Workshop, more: str = "", *, clock: SetClock | None = None, **head: str) -> AsyncGenerator[Bench]:
    """Everything in this process, behind a real MCP client."""
    async with furnish(shop, more, **head).open(clock=clock, role="serve") as app, seated(app) as seat:
        yield Bench(app, seat, shop.world)


def of(app: App, subject: str) -> Principal:
    """Somebody of the same tenant with the same scopes."""
    return Principal(app.local.tenant, subject, "local", app.local.scopes)
