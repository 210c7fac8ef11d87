"""How the tests of runs talk to an open application: start a plan, wait until it rests, look at what is stored."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from counterfoil.canonical import canonical
from counterfoil.ledger.check import check
from counterfoil.ledger.queries import EVENTS, EventRow
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.run_rows import PlanRow, RunRow, StepRow, get_run
from counterfoil.ledger.runs import ask_cancel, ask_stop, calls_of, create_run, steps_of, take_up
from counterfoil.ledger.sealing import Kind
from counterfoil.ledger.verify import verify_database
from counterfoil.runtime.chain.folding import state_of
from counterfoil.runtime.chain.loading import Stored, board_of, load_calls, load_plan, read_steps
from counterfoil.runtime.chain.plans import Plans
from counterfoil.runtime.chain.states import FINAL
from counterfoil.runtime.deciding import Decider
from counterfoil.runtime.plan.checking import PlanRules, check_plan
from counterfoil.runtime.plan.problems import PlanInvalidError
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App

CAROL = Decider("os:carol", "same_user", "cli")
LIMIT_S = 20.0
HOUR = 3_600_000_000
_NUMBERS = count(1)


def step(name: str, tool: str = "book", **more: Any) -> dict[str, Any]:
    """One step, whose reference is its own name unless its `args` say otherwise."""
    return {"id": name, "tool": tool, "args": {"ref": name}} | more


@dataclass
class Runs:
    """The runs of one application."""

    app: App
    told: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        hooks = self.app.runtime.driver.hooks
        changed, progress = hooks.changed, hooks.progress

        def stir(run_id: str) -> None:
            changed(run_id)
            self._stirred.set()

        def tell(run_id: str, done: int, total: int, said: str) -> None:
            progress(run_id, done, total, said)
            self.told.append((done, total, said))

        hooks.changed, hooks.progress = stir, tell

    async def start(
        self, *steps: dict[str, Any], drive: bool = True, changes: dict[str, Any] | None = None, **plan: Any
    ) -> str:
        """Check a plan, store it with a run of it, and wake its driver."""
        app, at = self.app, self.app.ledger.now()
        document: Any = {"goal": "a goal", "steps": list(steps)} | plan
        try:
            checked = check_plan(document, app.local, PlanRules(app.catalogue, app.policy))
        except PlanInvalidError as error:
            pytest.fail(f"the plan of this test is not valid: {error.problems}")
        number = next(_NUMBERS)
        run_id, plan_id, who = f"run_{number}", f"plan_{number}", app.local
        contents: list[tuple[Kind, bytes]] = [("plan", canonical(checked.stored)), ("input", canonical(checked.input))]
        sealed = [
            app.ledger.seal(
                payload_id=f"pay_{number}_{kind}", call_id=run_id, tenant=who.tenant, kind=kind, content=content
            )
            for kind, content in contents
        ]
        row = PlanRow(
            plan_id, who.tenant, who.subject, who.client, "a goal", checked.digest, sealed[0].payload_id, len(steps), at
        )
        deadline_s = checked.plan.deadline_s
        run = RunRow(
            run_id, plan_id, who.tenant, who.subject, who.client, json.dumps(sorted(who.scopes)), "{}", "a goal",
            checked.digest, "i" * 64, sealed[1].payload_id, plan_id, at + HOUR, at, at,
            deadline_at=None if deadline_s is None else at + round(deadline_s * 1_000_000),
        )._replace(**(changes or {}))  # fmt: skip
        made = await app.ledger.record(lambda: create_run(run, row, sealed))
        assert isinstance(made, RunRow)
        if drive:
            app.runtime.driver.wake(run_id)
        return run_id

    async def row(self, run_id: str) -> RunRow:
        found = await self.app.ledger.record(lambda: get_run(run_id))
        assert found is not None
        return found

    async def until(self, run_id: str, holds: Callable[[RunRow], bool]) -> RunRow:
        async with asyncio.timeout(LIMIT_S):
            while True:
                self._stirred.clear()
                if holds(row := await self.row(run_id)):
                    return row
                await self._stirred.wait()

    async def idle(self) -> None:
        """Come back once this process drives no run."""
        async with asyncio.timeout(LIMIT_S):
            while self.app.runtime.driver._driven:
                await asyncio.sleep(0.01)

    async def until_state(self, run_id: str, name: str, state: str, item: int = -1) -> CallRow:
        """The call of a step once it is in this state."""
        async with asyncio.timeout(LIMIT_S):
            while (row := (await self.calls(run_id)).get((name, item))) is None or row.state != state:
                await asyncio.sleep(0.01)
            return row

    async def rest(self, run_id: str) -> RunRow:
        """The run once nobody drives it: finished, or parked with its reason."""

        def rests(row: RunRow) -> bool:
            waits = row.status == "queued" and row.reason is None
            return row.owner_id is None and not waits and row.wakes > self._seen.get(run_id, 0)

        row = await self.until(run_id, rests)
        if row.status in FINAL:
            self.sound()
        return row

    def sound(self) -> None:
        report = verify_database(self.app.ledger.path)
        assert report.ok, report.problems
        found = check(self.app.ledger.path)
        assert found.ok, found.breaches

    async def end(self, *steps: dict[str, Any], **plan: Any) -> tuple[RunRow, dict[str, str]]:
        """Start a plan, wait until it rests; its row, and how its steps stand."""
        run_id = await self.start(*steps, **plan)
        return await self.rest(run_id), await self.states(run_id)

    async def stored(self, run_id: str) -> Stored:
        parts = self.app.runtime._parts
        row = await self.row(run_id)
        return await load_calls(parts, row, await load_plan(parts, Plans(parts.ledger), row))

    async def states(self, run_id: str) -> dict[str, str]:
        """How the steps stand, folded from what is stored."""
        parts = self.app.runtime._parts
        stored, row = await self.stored(run_id), await self.row(run_id)

        async def unread(_: CallRow) -> Any: ...

        taken = board_of(row, stored, read_steps(parts, stored.plan), unread, lambda *_: None)
        found = {name: state.value for name, state in taken.board.states().items()}
        for place, call in taken.open_calls:
            if place.item < 0:
                found[taken.board.step_id(place.step)] = state_of(call).value
        return found

    async def calls(self, run_id: str) -> dict[tuple[str | None, int | None], CallRow]:
        rows = await self.app.ledger.record(lambda: calls_of(run_id))
        return {(row.step, row.item): row for row in rows}

    async def call(self, run_id: str, name: str, item: int = -1) -> CallRow:
        return (await self.calls(run_id))[name, item]

    async def notes(self, run_id: str) -> dict[tuple[str, int], StepRow]:
        rows = await self.app.ledger.record(lambda: steps_of(run_id))
        return {(row.step, row.item): row for row in rows}

    async def events(self, run_id: str) -> list[EventRow]:
        return await self.app.ledger.reads.fetch(EVENTS, run_id=run_id, after_seq=0)

    async def kinds(self, run_id: str) -> Counter[str]:
        return Counter(event.type for event in await self.events(run_id))

    async def woken(self, run_id: str) -> None:
        """From now on only a rest counts that follows another wake, where nobody drives the run."""
        row = await self.row(run_id)
        self._seen[run_id] = row.wakes if row.owner_id is None else row.wakes - 1

    async def decide(self, run_id: str, name: str, decision: str = "approve", item: int = -1) -> None:
        await self.woken(run_id)
        row = await self.call(run_id, name, item)
        done = await self.app.runtime.decide(row.approval_id or "", decision, decider=CAROL)
        assert done.error is None, done.error

    async def say(self, run_id: str, name: str, resolution: str, then: str = "fail", item: int = -1) -> None:
        await self.woken(run_id)
        call_id = (await self.call(run_id, name, item)).call_id
        view = await self.app.runtime.reconcile(
            self.app.local, call_id=call_id, resolution=resolution, evidence="their list", then=then, person=CAROL
        )
        assert isinstance(view, CallView), view
        self.app.runtime.driver.wake(run_id)

    async def cancel(self, run_id: str) -> None:
        await self.woken(run_id)
        await self.app.ledger.record(lambda: ask_cancel(run_id, "me", "no more", self.app.ledger.now()))
        self.app.runtime.driver.wake(run_id)

    async def stop(self, run_id: str) -> None:
        await self.woken(run_id)
        await self.app.ledger.record(lambda: ask_stop(run_id, "me", self.app.ledger.now()))
        self.app.runtime.driver.wake(run_id)

    async def take_up(self, run_id: str) -> None:
        await self.woken(run_id)
        scopes, at = json.dumps(sorted(self.app.local.scopes)), self.app.ledger.now()
        await self.app.ledger.record(lambda: take_up(run_id, by="me", scopes=scopes, grant_expires_at=at + HOUR, at=at))
        self.app.runtime.driver.wake(run_id)
