"""AUT-03 for runs: over HTTP, somebody else's plan, run, step or event is answered as one that never was."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.kit.chains import MODULES, Ask, View, becomes, of, plan, planned, ran, step, until
from tests.kit.seat import Seat
from tests.kit.web import web
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
PEOPLE = {
    "alice": ("a", '"*"'),
    "bob": ("a", '"*"'),
    "carol": ("a", '"*", "approve", "reconcile"'),
    "dave": ("b", '"*", "approve", "reconcile"'),
}
TOKENS = '[auth]\nmode = "tokens"\n' + "".join(
    f'[[auth.tokens]]\ntoken = "env:{name.upper()}"\nsubject = "{name}"\ntenant = "{tenant}"\nscopes = [{scopes}]\n'
    for name, (tenant, scopes) in PEOPLE.items()
)
ENV = {name.upper(): f"token-of-{name}-which-is-long" for name in PEOPLE}


@dataclass(frozen=True, slots=True)
class Desk:
    """One person's client."""

    seat: Seat

    async def read(self, uri: str) -> str:
        """A resource's text, or how it was refused."""
        try:
            found = await self.seat.client.read_resource(uri)
        except MCPError as error:
            return f"error {error.error.code} {error.error.message} {error.error.data}"
        return str(found.contents)


@asynccontextmanager
async def desks(shop: Workshop) -> AsyncGenerator[Mapping[str, Desk]]:
    """One server over HTTP, and a client of each person."""
    shop.configure(TOKENS, head={"python": MODULES, "server": 'visibility = "deferred"'})
    async with AsyncExitStack() as stack:
        _, there = await stack.enter_async_context(web(shop, env=ENV))
        made: dict[str, Desk] = {}
        for name in PEOPLE:
            client = await stack.enter_async_context(there.client(ENV[name.upper()]))
            made[name] = Desk(Seat(client))
        yield made


def told(answer: Any, *names: str) -> str:
    """An answer without the name that was asked for."""
    text = json.dumps(answer, sort_keys=True)
    for name in names:
        text = text.replace(name, "NAME")
    return text


async def asked(ask: Ask, plan_id: str, run_id: str, call_id: str, approval_id: str) -> dict[str, str]:
    """Everything that can be asked about these names."""
    evidence = {"resolution": "happened", "evidence": "W"}
    questions: dict[str, tuple[str, View]] = {
        "status": ("status", {"run_id": run_id}),
        "events": ("status", {"run_id": run_id, "after_seq": 0, "wait_s": 0}),
        "cancel": ("cancel", {"run_id": run_id, "reason": "mine now"}),
        "reconcile": ("reconcile", {"run_id": run_id}),
        "settle": ("reconcile", {"run_id": run_id} | evidence),
        "confirm": ("confirm", {"run_id": run_id}),
        "decide": ("confirm", {"run_id": run_id, "decision": "approve"}),
        "run": ("run", {"run_id": run_id}),
        "fork": ("run", {"fork_of": run_id}),
        "plan": ("run", {"plan_id": plan_id}),
        "keyed": ("run", {"plan_id": plan_id, "request_key": "k"}),
        "call": ("status", {"call_id": call_id}),
        "cancel the call": ("cancel", {"call_id": call_id}),
        "settle the call": ("reconcile", {"call_id": call_id} | evidence),
    }
    return {
        what: told(await ask(tool, **arguments), plan_id, run_id, call_id, approval_id)
        for what, (tool, arguments) in questions.items()
    }


@pytest.mark.promise("AUT-03")
async def test_to_anybody_else_a_run_its_plan_its_steps_and_its_events_are_as_if_they_were_not(shop: Workshop) -> None:
    shop.world.arm("lost", drop="after")
    document = plan(
        step("lost", "kit_write", {"ref": "lost"}),
        step("asks", "kit_delete", {"ref": "asks"}),
    )
    async with desks(shop) as at:
        alice = at["alice"].seat.ask
        plan_id = (await planned(alice, document))["plan_id"]
        run_id = (await alice("run", plan_id=plan_id, wait_s=0))["run_id"]
        view = await until(alice, run_id, lambda one: bool(one["pending"]) and bool(one["unresolved"]))
        names = (plan_id, run_id, of(view, "lost")["call_id"], view["pending"][0]["approval_id"])
        never = ("plan_AAAAAAAAAAAAAAAAAAAAAA", "run_AAAAAAAAAAAAAAAAAAAAAA", "call_AAAAAAAAAAAAAAAAAAAAAA", "apr_A")
        before = json.dumps(await alice("status", run_id=run_id, wait_s=0), sort_keys=True)
        for name in ("bob", "dave"):
            other = at[name]
            assert await asked(other.seat.ask, *names) == await asked(other.seat.ask, *never)
            for uri in ("counterfoil://runs/{}", "counterfoil://runs/{}/events"):
                found = told(await other.read(uri.format(run_id)), run_id)
                assert found == told(await other.read(uri.format(never[1])), never[1])
                assert "not_found" in found or "error" in found
                assert "succeeded" not in found
            listed = json.dumps(await other.seat.ask("status"))
            assert run_id not in listed
            assert plan_id not in listed
        assert "run_id" in await at["alice"].read(f"counterfoil://runs/{run_id}")
        assert "run_created" in await at["alice"].read(f"counterfoil://runs/{run_id}/events")
        assert json.dumps(await alice("status", run_id=run_id, wait_s=0), sort_keys=True) == before
        assert [shop.world.count(ref) for ref in ("lost", "asks")] == [1, 0]


@pytest.mark.promise("AUT-03")
async def test_the_same_key_and_the_same_plan_of_two_people_are_two_runs(shop: Workshop) -> None:
    document = plan(step("s", "kit_write", {"ref": "r"}))
    async with desks(shop) as at:
        views = {name: await ran(at[name].seat.ask, document, request_key="k") for name in PEOPLE}
        assert len({view["run_id"] for view in views.values()}) == len(PEOPLE)
        inline = {name: await ran(at[name].seat.ask, document) for name in PEOPLE}
        assert len({view["run_id"] for view in inline.values()}) == len(PEOPLE)
        other = plan(step("s", "kit_echo", {"value": 1}))
        conflict = await at["bob"].seat.ask("run", plan=other, request_key="k")
        assert conflict["error"]["code"] == "key_conflict"
        assert views["alice"]["run_id"] not in json.dumps(conflict)
        for name in PEOPLE:
            runs = (await at[name].seat.ask("status"))["runs"]
            assert {one["run_id"] for one in runs} == {views[name]["run_id"], inline[name]["run_id"]}
    assert shop.world.count("r") == 2 * len(PEOPLE)


@pytest.mark.promise("AUT-03")
async def test_an_approver_sees_the_proposal_of_a_step_and_nothing_else_of_its_run(shop: Workshop) -> None:
    document = plan(
        step("o", "chain_order", {"order_id": "private-order"}),
        step("asks", "kit_delete", {"ref": "asks"}, after=["o"]),
        goal="a private goal",
    )
    async with desks(shop) as at:
        view = await ran(at["alice"].seat.ask, document, "awaiting_approval")
        (asked_for,) = view["pending"]
        carol = await at["carol"].seat.ask("status")
        assert [one["approval_id"] for one in carol["pending"]] == [asked_for["approval_id"]]
        assert "private" not in json.dumps(carol)
        shown = await at["carol"].seat.ask("confirm", approval_id=asked_for["approval_id"])
        assert shown["arguments"] == {"ref": "asks", "amount": 10}
        refused = await at["carol"].seat.ask("status", run_id=view["run_id"])
        assert refused["error"]["code"] == "not_found"
        dave = await at["dave"].seat.ask("status")
        assert asked_for["approval_id"] not in json.dumps(dave)
        await becomes(at["alice"].seat.ask, view["run_id"], "awaiting_approval")
