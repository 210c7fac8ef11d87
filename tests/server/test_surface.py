"""The MCP surface, through a real client in the same process, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import jsonschema_rs
import pytest
from mcp import Client, MCPError
from mcp.types import BlobResourceContents, CallToolResult, Implementation, TextContent, TextResourceContents

from counterfoil.canonical import JsonObject, JsonValue
from counterfoil.registry.principal import Principal
from counterfoil.server.mcp import OPEN_CALLS, Surface
from counterfoil.server.surface.listing import advertised
from counterfoil.server.surface.progress import Progress
from tests.kit.rules import PROBLEM
from tests.server import kit

pytestmark = pytest.mark.anyio
LIMIT_S = 20.0
T = TypeVar("T")


def within(what: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(what, LIMIT_S)


@pytest.fixture
def desk() -> kit.Desk:
    return kit.Desk()


@pytest.fixture(params=["2026-07-28", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def talking(surface: Surface, mode: str = "auto") -> AsyncGenerator[Client]:
    info = Implementation(name="desk-app", version="9")
    async with Client(surface.server, mode=mode, client_info=info) as client:
        yield client


def shown(result: CallToolResult) -> dict[str, Any]:
    """The structured content, which the text must repeat."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content)


async def test_the_list_is_base_tools_then_tools_by_name_with_annotations_and_digests(
    desk: kit.Desk, mode: str
) -> None:
    async with talking(kit.surface(desk), mode) as client:
        tools = (await within(client.list_tools())).tools
    assert [tool.name for tool in tools] == ["tool_search", "status", "echo", "number"]
    assert tools[0].meta == {"anthropic/alwaysLoad": True}
    (echo,) = kit.Catalogue(("echo",)).listed(kit.ME)
    assert tools[2].meta == {"counterfoil/schema_digest": echo.short_digest}
    hints = tools[2].annotations
    assert hints
    assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (True, False, False)


async def test_pages_join_to_the_whole_list_and_a_made_up_cursor_is_refused(desk: kit.Desk) -> None:
    names: list[str] = []
    async with talking(kit.surface(desk, page=3)) as client:
        cursor: str | None = None
        while True:
            page = await within(client.list_tools(cursor=cursor))
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        for made_up in (
            "",
            "3",
            "abcd",
            base64.b64encode(b"after:nothing").decode(),
            base64.b64encode(b"echo").decode(),
        ):
            with pytest.raises(MCPError) as caught:
                await within(client.list_tools(cursor=made_up, cache_mode="bypass"))
            assert caught.value.error.code == -32602
    assert names == ["tool_search", "status", "echo", "number"]


@pytest.mark.parametrize(
    ("output", "fits", "breaks"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, {"b": 1}),
        ({"type": "integer"}, {"result": 3}, {"result": "x"}),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {"result": None}, []),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["a"]}}}, {"a": 1}, {"b": 1}),
    ],
)
def test_a_listed_tool_advertises_its_own_output_or_the_call_view(
    output: JsonObject, fits: JsonValue, breaks: JsonValue
) -> None:
    schema = advertised(output, kit.CALL_VIEW)
    assert schema
    assert schema["type"] == "object"
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(fits)
    assert validator.is_valid({"state": "refused", "call_id": None})
    assert not validator.is_valid(breaks)


async def test_a_direct_call_shows_the_tools_own_output_and_the_view_beside_it(desk: kit.Desk, mode: str) -> None:
    async with talking(kit.surface(desk), mode) as client:
        result = await within(client.call_tool("echo", {"a": 1}))
        number = await within(client.call_tool("number", {}))
    assert shown(result) == {"a": 1}
    assert result.meta
    assert result.meta["counterfoil/call"]["call_id"] == "call_echo"
    assert (result.is_error, shown(number)) == (False, {"result": 7})


async def test_a_direct_call_carries_digest_key_and_who_asks(desk: kit.Desk, mode: str) -> None:
    meta: Any = {"counterfoil/schema_digest": "01234567", "counterfoil/idempotency_key": "k1"}
    async with talking(kit.surface(desk), mode) as client:
        desk.gate.set()
        await within(client.call_tool("gate", {"x": 1}, meta=meta))
        await within(client.call_tool("echo", {}))
    gate, echo = desk.requests[-2:]
    assert (gate.schema_digest, gate.idempotency_key, gate.needs_digest) == ("01234567", "k1", True)
    assert (echo.schema_digest, echo.idempotency_key, echo.needs_digest) == (None, None, True)
    assert gate.principal == kit.ME
    assert gate.principal.claimed == {"name": "desk-app", "version": "9"}


async def test_a_key_that_is_no_string_is_refused_before_anything_is_asked(desk: kit.Desk) -> None:
    wrong: Any = {"counterfoil/idempotency_key": 7}
    async with talking(kit.surface(desk)) as client:
        result = await within(client.call_tool("echo", {}, meta=wrong))
    view = shown(result)
    assert (view["state"], view["error"]["code"], view["sent"]) == ("refused", "invalid_arguments", "no")
    assert (result.is_error, desk.requests) == (True, [])


async def test_anything_but_a_delivered_output_is_the_call_view(desk: kit.Desk, mode: str) -> None:
    async with talking(kit.surface(desk), mode) as client:
        result = await within(client.call_tool("refused", {}))
    assert (result.is_error, shown(result)["error"]["code"]) == (True, "insufficient_scope")
    assert "counterfoil/call" not in (result.meta or {})


@pytest.mark.parametrize("name", ["absent", "shy"])
async def test_an_unknown_name_is_the_protocols_own_error(desk: kit.Desk, mode: str, name: str) -> None:
    async with talking(kit.surface(desk), mode) as client:
        with pytest.raises(MCPError) as caught:
            await within(client.call_tool(name, {}))
    assert (caught.value.error.code, caught.value.error.message) == (-32602, f"Unknown tool: {name}")


@pytest.mark.parametrize("name", ["boom", "status"])
async def test_a_failure_of_ours_is_a_result_and_its_log_has_no_content(
    desk: kit.Desk, mode: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(kit.surface(desk), mode) as client:
        with caplog.at_level(logging.DEBUG):
            result = await within(client.call_tool(name, {"secret": kit.CANARY}))
    body = shown(result)
    assert (result.is_error, body["error"]["code"], body["sent"]) == (True, "internal", "no")
    assert "RuntimeError" in caplog.text
    assert kit.CANARY not in json.dumps(body)
    assert not [
        record for record in caplog.records if record.name.startswith("counterfoil") and kit.CANARY in str(record)
    ]


async def test_an_answer_that_is_not_strict_json_denies_nothing_that_happened(desk: kit.Desk) -> None:
    async with talking(kit.surface(desk)) as client:
        with pytest.raises(MCPError) as caught:
            await within(client.call_tool("broken", {}))
    assert caught.value.error.data == {"call_id": "call_broken"}


async def test_a_stopping_server_refuses_every_call_in_band(desk: kit.Desk, mode: str) -> None:
    surface = kit.surface(desk)
    surface.refuse_calls()
    async with talking(surface, mode) as client:
        direct = await within(client.call_tool("echo", {}))
        base = await within(client.call_tool("tool_call", {}))
        search = await within(client.call_tool("tool_search", {}))
        assert len((await within(client.list_tools())).tools) == 4
    assert not search.is_error
    for result in (direct, base):
        body = shown(result)
        assert (body["error"]["code"], body["error"]["retryable"], body["sent"]) == ("unavailable", True, "no")
        assert result.is_error
    assert desk.requests == []


async def test_more_calls_than_may_be_open_are_refused_and_not_queued(desk: kit.Desk) -> None:
    async with talking(kit.surface(desk)) as client:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(client.call_tool("gate", {})) for _ in range(OPEN_CALLS)]
            while len(desk.requests) < OPEN_CALLS:
                await asyncio.wait(calls, timeout=0)
            late = await within(client.call_tool("gate", {}))
            search = await within(client.call_tool("tool_search", {}))
            desk.gate.set()
        assert not any(call.result().is_error for call in calls)
    assert shown(late)["error"]["code"] == "unavailable"
    assert not search.is_error


async def test_a_call_waits_longer_where_the_client_shows_progress_and_progress_only_grows(
    desk: kit.Desk,
) -> None:
    seen: list[float] = []
    silent = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total in {None, 2.0}
        seen.append(progress)
        if message == "still working":
            desk.gate.set()
            silent.set()

    async with talking(kit.surface(desk, heartbeat_s=0.01), "legacy") as client:  # the other has no token in process
        shows = await within(client.call_tool("progress", {}, progress_callback=hear))
        await within(silent.wait())
        plain = await within(client.call_tool("progress", {}))
    assert (shown(shows)["wait_s"], shown(plain)["wait_s"]) == (20.0, 4.0)
    assert seen == sorted(set(seen))
    assert {1.0, 2.0} <= set(seen)


class Reports(list[str | None]):
    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        del progress, total
        self.append(message)


async def test_a_progress_message_is_text_that_can_be_written() -> None:
    reports = Reports()
    await Progress(reports)(1.0, 2.0, "a\ud800b")
    await Progress(reports)(1.0, 2.0, "\ud800" * 1_000)
    assert reports[0] == "a\\ud800b"
    assert len(str(reports[1]).encode()) == 500


async def test_a_base_tool_is_asked_with_the_arguments_as_they_came(desk: kit.Desk, mode: str) -> None:
    async with talking(kit.surface(desk, wait_s=3.0), mode) as client:
        body = shown(await within(client.call_tool("tool_search", {"query": "x"})))
    assert body == {"claimed": {"name": "desk-app", "version": "9"}, "wait_s": 3.0, "arguments": {"query": "x"}}


async def test_tools_and_artifacts_can_be_read_and_templates_say_so(desk: kit.Desk, mode: str) -> None:
    async with talking(kit.surface(desk), mode) as client:
        templates = (await within(client.list_resource_templates())).resource_templates
        (card,) = (await within(client.read_resource("counterfoil://tools/echo"))).contents
        assert (await within(client.list_resources())).resources == []
    assert [template.uri_template for template in templates] == [
        "counterfoil://tools/{name}",
        "counterfoil://artifacts/{id}{?offset}",
        "counterfoil://runs/{run_id}",
        "counterfoil://runs/{run_id}/events{?after_seq}",
    ]
    assert isinstance(card, TextResourceContents)
    assert json.loads(card.text) == {"name": "echo"}


@pytest.mark.parametrize("part_bytes", [4, 5, 7, 1000])
async def test_an_artifacts_parts_join_to_the_whole_whatever_the_cut(desk: kit.Desk, part_bytes: int) -> None:
    whole, offset = "", 0
    async with talking(kit.surface(desk, part_bytes=part_bytes)) as client:
        while True:
            (part,) = (await within(client.read_resource(f"counterfoil://artifacts/mine?offset={offset}"))).contents
            assert isinstance(part, TextResourceContents)
            whole += part.text
            if not part.meta:
                break
            offset = part.meta["counterfoil/next_offset"]
    assert whole.encode() == kit.ARTIFACT


async def test_an_artifact_that_is_no_text_travels_as_bytes(desk: kit.Desk) -> None:
    async with talking(kit.surface(desk)) as client:
        (part,) = (await within(client.read_resource("counterfoil://artifacts/bytes"))).contents
    assert isinstance(part, BlobResourceContents)
    assert base64.b64decode(part.blob) == b"\xff\x00" * 8


async def test_a_foreign_id_and_an_unknown_one_get_the_same_answer(desk: kit.Desk, mode: str) -> None:
    mine, other = kit.surface(desk), kit.surface(desk, Principal("local", "somebody else"))
    errors: list[tuple[int, str]] = []
    for surface, uri in (
        (mine, "counterfoil://artifacts/absent"),
        (other, "counterfoil://artifacts/mine"),
        (mine, "counterfoil://tools/foreign"),
        (mine, "counterfoil://artifacts/mine?offset=-1"),
        (mine, "file:///etc/passwd"),
    ):
        async with talking(surface, mode) as client:
            with pytest.raises(MCPError) as caught:
                await within(client.read_resource(uri))
        errors.append((caught.value.error.code, caught.value.error.message))
    assert set(errors) == {(-32602, "Resource not found")}


async def test_a_changed_catalogue_is_announced_to_a_legacy_client(desk: kit.Desk) -> None:
    heard = asyncio.Event()
    surface = kit.surface(desk)

    async def hear(message: object) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            heard.set()

    async with Client(surface.server, mode="legacy", message_handler=hear) as client:
        await within(client.list_tools())
        await within(surface.announce_tools_changed())
        await within(heard.wait())


async def test_a_changed_catalogue_is_announced_to_a_modern_subscription(desk: kit.Desk) -> None:
    surface = kit.surface(desk)
    async with talking(surface) as client, client.listen(tools_list_changed=True) as events:
        await within(surface.announce_tools_changed())
        event = await within(anext(aiter(events)))
    assert type(event).__name__ == "ToolsListChanged"


async def test_a_key_that_is_too_long_is_refused_before_anything_is_asked(desk: kit.Desk) -> None:
    async with talking(kit.surface(desk)) as client:
        meta: Any = {"counterfoil/idempotency_key": "k" * 201}
        answer = shown(await within(client.call_tool("echo", {}, meta=meta)))
    assert (answer["error"]["code"], answer["state"], desk.requests) == ("invalid_arguments", "refused", [])
    (problem,) = answer["error"]["details"]["problems"]
    assert (problem.keys(), problem["path"]) == (PROBLEM, "/_meta/counterfoil~1idempotency_key")
