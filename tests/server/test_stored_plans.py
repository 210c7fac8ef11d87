"""Stored plans: a chain with a name, checked at the start, found beside the tools, and run by that name."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.request import RunRequest
from counterfoil.server.app import read_tools
from counterfoil.server.config import ConfigError
from tests.kit.bench import Bench, bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
LIMIT_S: Final = 20.0
MODULES: Final = 'modules = ["tests.kit.chain_tools"]'
ORDER: Final[dict[str, Any]] = {"id": "order", "tool": "chain_order", "args": {"order_id": "${input.order_id}"}}
SUM: Final[dict[str, Any]] = {
    "id": "sum",
    "tool": "chain_sum",
    "args": {"first": "${order.total}", "second": "${input.more}"},
}
PLAN: Final[dict[str, Any]] = {
    "goal": "Add to the total of an order",
    "input": {"order_id": "ord_1", "more": 1},
    "steps": [ORDER, SUM],
}
TABLE: Final = """
[plans.late_delivery]
file = "plan.json"
description = "Make good for a delayed parcel."
tags = ["care"]
input = { order_id = "string", more = "integer" }
"""


def shop_with(folder: Path, plan: object = PLAN, table: str = TABLE, **head: str) -> Workshop:
    (folder / "plan.json").write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return Workshop.new(folder, table, head={"python": MODULES} | head)


def problems(folder: Path, plan: object = PLAN, table: str = TABLE) -> list[tuple[str, int | None, str]]:
    """What a start is refused for: key, line and message."""
    with pytest.raises(ConfigError) as caught:
        read_tools(shop_with(folder, plan, table).config)
    return [(one.key, one.line, one.message) for one in caught.value.problems]


@asynccontextmanager
async def opened(folder: Path, plan: object = PLAN, table: str = TABLE, **head: str) -> AsyncGenerator[Bench]:
    (folder / "plan.json").write_text(json.dumps(plan))
    stated: Any = head
    async with bench(Workshop.new(folder, table), table, python=MODULES, **stated) as found:
        yield found


def named(name: str, principal: Principal, **more: Any) -> RunRequest:
    return RunRequest(principal, name=name, wait_s=LIMIT_S, wait_given=True, **more)


async def test_a_stored_plan_is_run_by_its_name_with_input_laid_over_its_defaults(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        view = await here.seat.ask("run", name="late_delivery", input={"more": 5}, wait_s=20)
        assert (view["status"], view["outputs"]["sum"]) == ("succeeded", 30)
        assert view["outputs"]["order"]["order_id"] == "ord_1"


async def test_without_a_key_the_plan_and_the_effective_input_are_the_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        first = await here.seat.ask("run", name="late_delivery", wait_s=20)
        same = await here.seat.ask("run", name="late_delivery", input={"more": 1, "order_id": "ord_1"}, wait_s=20)
        inline = await here.seat.ask("run", plan=PLAN, wait_s=20)
        other = await here.seat.ask("run", name="late_delivery", input={"more": 2}, wait_s=20)
        keyed = await here.seat.ask("run", name="late_delivery", request_key="tuesday", wait_s=20)
        ids = [view["run_id"] for view in (first, same, inline, other, keyed)]
        assert ids[1:3] == [ids[0], ids[0]]
        assert same["replayed"]
        assert len(set(ids)) == 3
        clash = await here.seat.ask("run", name="late_delivery", input={"more": 3}, request_key="tuesday")
        assert clash["error"]["code"] == "key_conflict"


@pytest.mark.parametrize(
    ("given", "path", "says"),
    [
        ({"more": "five"}, "/input/more", "integer"),
        ({"mroe": 5}, "/input/mroe", "more"),
        ({"order_id": None}, "/input/order_id", "string"),
        ({"more": True}, "/input/more", "integer"),
    ],
)
async def test_an_input_that_does_not_fit_is_refused_as_arguments_of_a_tool_are(
    tmp_path: Path, given: dict[str, Any], path: str, says: str
) -> None:
    async with opened(tmp_path) as here:
        view = await here.seat.ask("run", name="late_delivery", input=given)
        error = view["error"]
        assert error["code"] == "invalid_arguments"
        assert [one["path"] for one in error["details"]["problems"]] == [path]
        assert says in error["message"]
        assert error["details"]["input_schema"]["required"] == ["order_id", "more"]
        assert (await here.seat.ask("status"))["runs"] == []


async def test_what_neither_the_file_nor_the_run_gives_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAN | {"input": {"more": 1}}) as here:
        missing = await here.seat.ask("run", name="late_delivery")
        assert missing["error"]["code"] == "invalid_arguments"
        assert "order_id" in missing["error"]["message"]
        given = await here.seat.ask("run", name="late_delivery", input={"order_id": "ord_9"}, wait_s=20)
        assert given["outputs"]["order"]["order_id"] == "ord_9"


async def test_an_unknown_name_is_not_found_and_the_nearest_one_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        view = await here.seat.ask("run", name="late_delivry")
        assert view["error"]["code"] == "not_found"
        assert "late_delivery" in view["error"]["message"]
        assert view["next"]["arguments"] == {"name": "late_delivery"}
        assert "Did you mean" not in (await here.seat.ask("run", name="zebra"))["error"]["message"]


async def test_a_search_finds_it_with_the_strictest_of_what_its_steps_are_and_need(tmp_path: Path) -> None:
    undone = {"id": "note", "tool": "chain_none", "args": {"ref": "x"}}
    rule = f'{TABLE}[[policy]]\nid = "ask"\ntool = "chain_none"\nverdict = "approve"\nassurance = "operator"\n'
    async with opened(tmp_path, PLAN | {"steps": [ORDER, SUM, undone]}, rule) as here:
        found = await here.seat.ask("tool_search", query="make good for a delayed parcel")
        match = found["matches"][0]
        assert (match["name"], match["version"]) == ("late_delivery", None)
        assert (match["effect"], match["approval"], match["recovery"]) == ("write", "operator", "person")
        assert match["summary"] == "Make good for a delayed parcel."
        assert 'run {"name": "late_delivery"' in match["title"]
        assert match["input_schema"]["properties"]["more"] == {"type": "integer"}
        assert len(match["schema_digest"]) == 8
        by_name = await here.seat.ask("tool_search", names=["late_delivery"], detail="brief")
        assert [one["name"] for one in by_name["matches"]] == ["late_delivery"]
        assert (await here.seat.ask("tool_search"))["categories"]["care"] == 1
        assert [one["name"] for one in (await here.seat.ask("tool_search", category="care"))["matches"]] == [
            "late_delivery"
        ]


async def test_it_is_no_tool_and_whoever_calls_it_is_told_how_it_is_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        view = await here.seat.ask("tool_call", name="late_delivery", arguments={})
        assert view["error"]["code"] == "unknown_tool"
        assert view["next"]["tool"] == "run"
        assert "late_delivery" not in await here.seat.tools()
        refused = await here.seat.ask("plan", goal="g", steps=[{"id": "a", "tool": "late_delivry", "args": {}}])
        assert "late_delivery" not in refused["errors"][0]["message"], "a plan is no step"


async def test_who_may_not_call_one_of_its_tools_does_not_see_it(tmp_path: Path) -> None:
    rule = f'{TABLE}[[policy]]\nid = "no"\ntool = "chain_sum"\nverdict = "deny"\nsubject = "bob"\n'
    async with opened(tmp_path, table=rule) as here:
        bob = replace(here.app.local, subject="bob")
        search: Any = {"query": None, "names": ("late_delivery",), "category": None, "limit": 5}
        assert here.app.shelf.search(here.app.local, **search).hits
        assert not here.app.shelf.search(bob, **search).hits
        view: Any = (await here.app.runtime.run(named("late_delivery", bob))).wire()
        assert view["error"]["code"] == "not_found"
        assert "Did you mean" not in view["error"]["message"]


async def test_missing_scopes_are_told_as_for_tools(tmp_path: Path) -> None:
    scoped = """
[tools.north_look]
description = "Looks north."
effect = "read"
scopes = ["north:read"]
input = { order_id = "string" }
[tools.north_look.http]
method = "GET"
url = "http://127.0.0.1:9/x"
[http]
allow_hosts = ["127.0.0.1:9"]
"""
    steps: Any = [{"id": "look", "tool": "north_look", "args": {"order_id": "${input.order_id}"}}]
    plan: Any = {"goal": "Look north", "input": {"order_id": "o"}, "steps": steps}
    table = '[plans.look_north]\nfile = "plan.json"\ninput = { order_id = "string" }\n'
    async with opened(tmp_path, plan, scoped + table, server="show_locked = true") as here:
        poor = replace(here.app.local, scopes=frozenset({"south:read"}))
        view: Any = (await here.app.runtime.run(named("look_north", poor))).wire()
        assert view["error"]["code"] == "insufficient_scope"
        assert view["error"]["details"]["missing_scopes"] == ["north:read"]
        found = here.app.shelf.search(poor, query="look north", names=(), category=None, limit=5)
        assert {hit.contract.name: hit.missing_scopes for hit in found.hits if hit.missing_scopes} == {
            "look_north": ("north:read",),
            "north_look": ("north:read",),
        }
        here.app.shelf.show_locked = False
        found = here.app.shelf.search(poor, query="look north", names=(), category=None, limit=5)
        assert not [hit for hit in found.hits if "north" in hit.contract.name]


async def test_each_run_pins_the_tools_of_its_own_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        first = await here.seat.ask("run", name="late_delivery", wait_s=20)
        catalogue = here.parts.catalogue
        entry = catalogue.get("chain_sum")
        assert entry is not None
        changed = replace(entry.contract, gate=replace(entry.contract.gate, resources=("sum:{first}",)))
        catalogue.remove("chain_sum")
        found = catalogue.search("late delivery", here.app.local, here.app.policy).hits
        assert "late_delivery" not in dict(found), "one of its tools is gone"
        catalogue.register(changed, entry.adapter)
        again = await here.seat.ask("run", name="late_delivery", wait_s=20)
        assert again["status"] == "succeeded", "no pin of the start is kept"
        assert again["run_id"] != first["run_id"], "it is another plan now"


def test_what_is_wrong_with_it_is_told_with_file_table_and_key(tmp_path: Path) -> None:
    wrong = PLAN | {"steps": [ORDER | {"tool": "chain_ordre"}, SUM | {"args": {"first": "${input.order_id}"}}]}
    found = problems(tmp_path, wrong)
    assert {key for key, _, _ in found} == {"plans.late_delivery.file"}
    line = next(
        n for n, text in enumerate((tmp_path / "counterfoil.toml").read_text().splitlines(), 1) if "file" in text
    )
    assert {at for _, at, _ in found} == {line}
    said = "\n".join(message for _, _, message in found)
    assert (
        "plan.json: step order, tool: there is no tool 'chain_ordre'. Did you mean chain_order? (unknown_tool)" in said
    )
    assert "(bad_reference)" in said, "a string stands where the tool takes an integer"
    assert "second" in said


@pytest.mark.parametrize(
    ("plan", "table", "key", "says"),
    [
        ("{", TABLE, "plans.late_delivery.file", "expected JSON"),
        ("[]", TABLE, "plans.late_delivery.file", "expected a plan"),
        ('{"goal": "a", "goal": "b"}', TABLE, "plans.late_delivery.file", "goal"),
        (PLAN, TABLE.replace("plan.json", "nowhere.json"), "plans.late_delivery.file", "cannot be read"),
        (PLAN, TABLE.replace("plan.json", "."), "plans.late_delivery.file", "cannot be read"),
        (PLAN, TABLE.replace("late_delivery]", "chain_sum]"), "plans.chain_sum", "a tool has this name"),
        (PLAN, TABLE.replace("late_delivery]", "run]"), "plans.run", "base tool"),
        (PLAN, TABLE.replace("late_delivery]", '"Late Delivery"]'), "plans.Late Delivery", "a-z"),
        (PLAN, TABLE.replace("late_delivery]", "x__undo]"), "plans.x__undo", "__undo"),
        (PLAN, TABLE + "input_schema = { type = 'object' }", "plans.late_delivery.input_schema", "not both"),
        (
            PLAN,
            TABLE.replace("input = {", "input = { other = 'strnig',"),
            "plans.late_delivery.input.other",
            "expected",
        ),
        (PLAN, TABLE.replace('more = "integer"', 'more = "string"'), "plans.late_delivery.file", "bad_reference"),
        (PLAN, TABLE.replace(', more = "integer"', ""), "plans.late_delivery.file", "input: more"),
        (PLAN, TABLE.replace("file =", "fiel ="), "plans.late_delivery.fiel", "unknown key"),
    ],
)
def test_each_mistake_stops_the_start_at_its_key(tmp_path: Path, plan: object, table: str, key: str, says: str) -> None:
    found = problems(tmp_path, plan, table)
    assert any(key == place and says in message for place, _, message in found), found


def test_references_to_the_input_are_checked_against_its_schema(tmp_path: Path) -> None:
    schema = """
[plans.late_delivery]
file = "plan.json"
[plans.late_delivery.input_schema]
type = "object"
required = ["order"]
[plans.late_delivery.input_schema.properties.order]
type = "object"
properties = { id = { type = "string" }, more = { type = "integer" } }
"""
    good = [
        ORDER | {"args": {"order_id": "${input.order.id}"}},
        SUM | {"args": {"first": "${order.total}", "second": "${input.order.more ?? 3}"}},
    ]
    read_tools(shop_with(tmp_path, {"goal": "g", "steps": good}, schema).config)
    bad = [ORDER | {"args": {"order_id": "${input.order.idd}"}}]
    (found,) = problems(tmp_path, {"goal": "g", "steps": bad}, schema)
    assert "${input.order.idd} leads to nothing: the input has no 'idd'" in found[2]
    assert "did you mean 'id'" in found[2]


def test_mistakes_in_tools_come_before_those_that_follow_from_them(tmp_path: Path) -> None:
    table = (
        f'{TABLE}[tools.broken]\ndescription = "x"\neffect = "read"\n[tools.broken.http]\nmethod = "GET"\nurl = "y"\n'
    )
    steps: Any = [{"id": "a", "tool": "broken", "args": {}}]
    assert all("plans" not in key for key, _, _ in problems(tmp_path, {"goal": "g", "steps": steps}, table))


async def test_a_reload_brings_and_takes_stored_plans_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    shop = shop_with(tmp_path)
    async with shop.serve() as served:

        async def reload(table: str, says: str) -> str:
            before = len(served.stderr)
            shop.configure(table, head={"python": MODULES})
            served.process.signal(signal.SIGHUP)
            async with asyncio.timeout(LIMIT_S):
                while says not in served.stderr[before:]:
                    await asyncio.sleep(0.01)
            return served.stderr[before:]

        async def names() -> list[str]:
            found = await served.base("tool_search", category="care")
            return [match["name"] for match in found["matches"]]

        assert await names() == ["late_delivery"]
        said = await reload(TABLE.replace(', more = "integer"', ""), "nothing was changed")
        assert "plans.late_delivery.file" in said
        assert await names() == ["late_delivery"]
        await reload(TABLE.replace("late_delivery]", "slow_parcel]"), "is in force")
        assert await names() == ["slow_parcel"]
        (tmp_path / "plan.json").write_text(json.dumps(PLAN | {"input": {"order_id": "ord_7", "more": 1}}))
        await reload(TABLE, "is in force")
        view = await served.base("run", name="late_delivery", wait_s=20)
        assert view["outputs"]["order"]["order_id"] == "ord_7", "the file of now, not that of the start"
        gone = await served.base("run", name="slow_parcel", wait_s=20)
        assert gone["error"]["code"] == "not_found"
