"""AUT-05: one gate, whichever way leads to it: wrappers lend nothing, and are asked for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from counterfoil import Probe, tool
from counterfoil.registry.catalogue import Catalogue
from counterfoil.registry.contract import ContractError
from tests.kit.bench import Bench, bench
from tests.kit.seat import DIGEST_META, View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
ROUTES: Final = ("direct", "tool_call", "embedding")
SAME: Final = (
    "tool", "version", "schema_digest", "effect", "route", "subject", "client", "rule_id", "args_digest", "arguments",
)  # fmt: skip


async def by(route: str, at: Bench, name: str, arguments: dict[str, Any]) -> View:
    """The same request by one of the routes."""
    entry = at.app.catalogue.get(name)
    digest = entry.contract.short_digest if entry is not None else "00000000"
    if route == "direct":
        return (await at.seat.direct(name, arguments, **{DIGEST_META: digest}))[1]
    if route == "tool_call":
        return await at.seat.call(name, arguments, schema_digest=digest)
    return (await at.app.call(name, arguments)).wire()


def row(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """What an event of one kind says, without what differs between any two calls."""
    (found,) = [event for event in events if event["type"] == kind]
    return {name: found.get(name) for name in SAME}


@pytest.mark.promise("AUT-05")
async def test_a_destructive_tool_is_gated_and_recorded_alike_by_every_route(shop: Workshop) -> None:
    async with bench(shop) as at:
        seen: list[list[Any]] = []
        for route in ROUTES:
            waiting = await by(route, at, "more_purge", {"ref": "r", "older_than": 3})
            assert (waiting["state"], waiting["approval"]["assurance"]) == ("awaiting_approval", "operator")
            shown = await at.seat.ask("confirm", approval_id=waiting["approval"]["approval_id"])
            assert (shown["tool"], shown["effect"]) == ("more_purge", "destructive")
            assert shown["arguments"] == {"ref": "r", "older_than": 3, "which": None}
            assert at.world.count("r") == len(seen)
            done = await at.approve(waiting)
            assert (done["outcome"], at.world.count("r")) == ("success", len(seen) + 1)
            events = await at.events(waiting["call_id"])
            types = [event["type"] for event in events if event["type"] != "delivered"]
            assert types == ["proposed", "decided", "claimed", "dispatched", "settled"]
            seen.append([row(events, "proposed"), row(events, "dispatched"), waiting["approval"]["rule_id"]])
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.promise("AUT-05")
@pytest.mark.parametrize("route", ROUTES)
async def test_scopes_and_arguments_are_checked_alike_by_every_route(shop: Workshop, route: str) -> None:
    async with bench(shop, principals_local='scopes = ["kit:read"]') as at:
        missing = await by(route, at, "scoped_delete", {"ref": "r"})
        assert missing["error"]["code"] == "insufficient_scope"
        wrong = await by(route, at, "more_purge", {"ref": "r", "older_than": True})
        assert wrong["error"]["code"] == "invalid_arguments"
        hidden = "unknown_tool" if route != "direct" else None
        if hidden:
            assert (await by(route, at, "more_hidden", {"ref": "r"}))["error"]["code"] == hidden
        assert at.world.count("r") == 0
        codes = [entry["code"] for entry in await at.refusals()]
        assert codes[:2] == ["insufficient_scope", "invalid_arguments"]


@pytest.mark.promise("AUT-05")
async def test_wrappers_lend_neither_their_marks_nor_a_standing_approval(shop: Workshop) -> None:
    async with bench(shop) as at:
        tools = await at.seat.tools()
        read = tools["tool_read"].annotations
        assert read is not None
        assert read.read_only_hint is True
        for name in ("kit_write", "more_purge"):
            assert (await at.seat.read(name, {"ref": "r"}))["error"]["code"] == "not_read_only"
        for name in ("tool_call", "tool_read", "status", "confirm"):
            inner = await at.seat.call(name, {"name": "more_purge", "arguments": {"ref": "r"}})
            assert inner["error"]["code"] == "unknown_tool"
        first = await at.seat.call("more_purge", {"ref": "r"})
        assert (await at.approve(first))["outcome"] == "success"
        second = await at.seat.call("more_purge", {"ref": "r", "older_than": 1})
        assert (second["state"], at.world.count("r")) == ("awaiting_approval", 1)


@pytest.mark.promise("AUT-05")
async def test_a_probe_is_a_recorded_read_of_its_own_that_changes_nothing(shop: Workshop) -> None:
    async with bench(shop) as at:
        at.world.arm("r", drop="after")
        lost = await at.seat.call("kit_write_query", {"ref": "r"})
        assert lost["state"] == "awaiting_reconciliation"
        found = await at.seat.ask("reconcile", call_id=lost["call_id"])
        assert (found["outcome"], at.world.count("r")) == ("success", 1)
        probed = next(event for event in await at.events(lost["call_id"]) if event["type"] == "probed")
        own = await at.events(probed["probe"])
        dispatched = next(event for event in own if event["type"] in {"dispatched", "observed"})
        assert (dispatched["tool"], dispatched["effect"], dispatched["route"]) == (
            "kit_write_query__probe", "read", "probe",
        )  # fmt: skip
        assert dispatched["rule_id"] == "server:probe"


@pytest.mark.promise("AUT-05")
@pytest.mark.parametrize("effect", ["write", "destructive"])
async def test_a_probe_can_neither_be_a_tool_with_an_effect_nor_take_anothers_name(effect: Any) -> None:
    @tool(effect="write")
    async def sending(ref: str) -> str:
        """Send."""
        return ref

    with pytest.raises(Exception, match=r"effect|read"):

        @sending.probe(effect=effect)
        async def sent(ref: str) -> Probe:
            """Look."""
            return Probe.happened(ref)

    @tool(effect=effect, name="sending_probe")
    async def disguised(ref: str) -> str:
        """Send too."""
        return ref

    catalogue = Catalogue()
    for contract, adapter in disguised.registrations():
        catalogue.register(contract, adapter)
    ((contract, adapter),) = sending.registrations()
    pointing = replace(contract, recovery=replace(contract.recovery, probe="sending_probe"))
    try:
        catalogue.register(pointing, adapter)
        problems = catalogue.check()
    except ContractError as error:
        problems = [str(error)]
    assert any("sending_probe" in problem for problem in problems)
