"""APR-08: a client that shows no form, or answers none, gets the pending call; a person's time is not the tool's."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest
from mcp import Client
from mcp.types import CallToolResult, ElicitRequest, InputRequiredResult

from counterfoil.server.serve import surface_of
from tests.kit.bench import furnish
from tests.kit.clock import SetClock
from tests.kit.people import Person
from tests.kit.served import Mode, view_of
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
ERAS: Final[list[Mode]] = ["auto", "legacy"]
OWN: Final = '[[policy]]\nid = "own"\ntool = "kit_write"\nverdict = "approve"\n'
LIMIT_S: Final = 10.0
"""What the case allows for a pending answer."""


def set_up(shop: Workshop, wait_s: float = 5.0) -> None:
    furnish(shop, OWN, server='visibility = "all"', approvals=f"automation = true\nclient_wait_s = {wait_s}")


@pytest.mark.promise("APR-08")
@pytest.mark.parametrize("mode", ERAS)
async def test_without_forms_a_direct_call_is_answered_with_its_proposal_and_how_to_decide_it(
    shop: Workshop, mode: Mode
) -> None:
    set_up(shop)
    async with shop.serve(mode=mode) as served:
        for name in ("kit_delete", "kit_write"):
            async with asyncio.timeout(LIMIT_S):
                view = view_of(await served.client.call_tool(name, {"ref": "r"}))
            assert (view["state"], view["sent"]) == ("awaiting_approval", "no")
            assert view["approval"]["approval_id"] in view["approval"]["how"]
    assert shop.world.count("r") == 0


@pytest.mark.promise("APR-08")
async def test_a_form_that_is_never_answered_ends_the_wait_and_not_the_proposal(shop: Workshop) -> None:
    set_up(shop, wait_s=0.2)
    person = Person()
    async with shop.serve(mode="legacy", person=person) as served:
        async with asyncio.timeout(LIMIT_S):
            view = view_of(await served.client.call_tool("kit_write", {"ref": "r"}))
        assert (view["state"], len(person.read)) == ("awaiting_approval", 1)
        ran = await shop.command(
            "approvals", "approve", view["approval"]["approval_id"], "--digest", view["approval"]["digest"]
        )
        assert ran.code == 0, ran.stderr
        done = await served.base("status", call_id=view["call_id"], wait_s=20)
        assert done["outcome"] == "success"
        person.may.set()  # and now its answer comes after all
        late = "SELECT * FROM events WHERE type = 'refused' AND body LIKE ?"
        digest = f"%{view['approval']['digest']}%"
        await shop.world.until(lambda: len(shop.book.rows(late, digest)) == 1, "the late answer is not on record")
    assert shop.world.count("r") == 1


@pytest.mark.promise("APR-08")
async def test_a_person_who_takes_longer_than_the_tool_may_is_in_time(shop: Workshop) -> None:
    set_up(shop)
    clock, person = SetClock(), Person()
    async with (
        shop.open(role="serve", clock=clock) as app,
        Client(surface_of(app).server, mode="legacy", elicitation_callback=person) as client,
    ):
        asked = asyncio.create_task(client.call_tool("tool_call", stated(app, "r")))
        await shop.world.until(lambda: bool(person.read), "nobody is asked")
        clock.at += timedelta(seconds=90)  # three times the tool's time-out
        clock.ahead_s += 90
        person.may.set()
        view = view_of(await asyncio.wait_for(asked, LIMIT_S))
    assert (view["outcome"], shop.world.count("r")) == ("success", 1)


def stated(app: Any, ref: str) -> dict[str, Any]:
    digest = app.catalogue.get("kit_write").contract.short_digest
    return {"name": "kit_write", "arguments": {"ref": ref}, "schema_digest": digest}


@pytest.mark.promise("APR-08")
async def test_a_question_that_was_dropped_is_answered_from_another_process_and_decides_once(shop: Workshop) -> None:
    set_up(shop)
    person = Person.quick()
    async with shop.serve(person=person) as served:
        asked = await served.client.session.call_tool("kit_write", {"ref": "r"}, allow_input_required=True)
    assert isinstance(asked, InputRequiredResult)
    ((name, form),) = (asked.input_requests or {}).items()
    assert isinstance(form, ElicitRequest)
    assert shop.world.count("r") == 0
    answers: dict[str, Any] = {name: person.answer(form.params.message)}
    async with shop.serve(person=person) as other:
        (waiting,) = (await other.base("status"))["pending"]
        assert waiting["tool"] == "kit_write"
        for _ in range(2):
            told = await other.client.session.call_tool(
                "kit_write", {"ref": "r"}, input_responses=answers, request_state=asked.request_state
            )
            assert isinstance(told, CallToolResult)
        assert (await other.base("status"))["pending"] == []
    assert shop.world.count("r") == 1
