"""The stdio transport as a client meets it: a real child process, real pipes, real signals."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, JSONRPCNotification, TextContent

from counterfoil.server.stdio import Outbox
from counterfoil.server.wire import LineWriter

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX"),
]

KIT = Path(__file__).with_name("kit.py")
ROOT = KIT.parents[2]
LIMIT_S = 30.0
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
T = TypeVar("T")


def within(what: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(what, LIMIT_S)


def call(request_id: str | int, tool: str, /, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode() + b"\n"


@dataclass
class Child:
    process: asyncio.subprocess.Process
    pipe: int  # the read end of the child's stdout
    out: asyncio.StreamReader = field(default_factory=lambda: asyncio.StreamReader(limit=16 * 1024 * 1024))
    reading: asyncio.ReadTransport | None = None

    async def read(self) -> None:
        """Begin to read the child's stdout."""
        loop = asyncio.get_running_loop()
        file = os.fdopen(self.pipe, "rb", 0)
        self.reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.out), file)

    def go_away(self) -> None:
        """Close the child's stdout at our end."""
        if self.reading:
            self.reading.close()
        else:
            os.close(self.pipe)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self.process.stdin
        return self.process.stdin

    async def send(self, *lines: bytes) -> None:
        self.stdin.writelines(lines)
        await within(self.stdin.drain())

    async def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await within(self.out.readline()))
        assert answer["jsonrpc"] == "2.0"
        return answer

    async def hears(self, words: str) -> str:
        """The stderr line that begins with these words."""
        assert self.process.stderr
        while line := (await within(self.process.stderr.readline())).decode():
            if line.startswith(words):
                return line
        pytest.fail(f"the child never said {words!r}")

    async def rest(self) -> tuple[bytes, bytes]:
        """What was still written until the process ended."""
        assert self.process.stderr
        rest = await within(self.out.read()), await within(self.process.stderr.read())
        await self.code()
        return rest

    async def code(self) -> int:
        return await within(self.process.wait())


@asynccontextmanager
async def serving(grace_s: float = 5.0, *, reads: bool = True) -> AsyncGenerator[Child]:
    ours, theirs = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(KIT), str(grace_s)),
        stdin=asyncio.subprocess.PIPE,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    child = Child(process, ours)
    try:
        if reads:
            await child.read()
        yield child
    finally:
        if process.returncode is None:
            process.kill()
        child.go_away()
        await within(process.communicate())


async def test_only_json_rpc_reaches_stdout_whatever_a_tool_does_to_it() -> None:
    async with serving() as child:
        await child.send(call(1, "noise"))
        assert (await child.answer())["result"]["structuredContent"] == {"quiet": True}
        child.stdin.close()
        out, err = await child.rest()
    assert out == b""
    assert all(words in err for words in (b"printed", b"written", b"inherited", b"''", b"left in the buffer"))
    assert child.process.returncode == 0


BROKEN = [
    (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}', 7, "/a"),
    (b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"a":1e400}}}', "x", "/a"),
    (b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"echo","arguments":{"a":NaN}}}', 8, ""),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":' + b"[" * 40 + b"]" * 40 + b"}", 9, ""),
    (b'{"jsonrpc":"2.0","id":10,"method":"ping","params":{"a":"' + b"x" * 200_000 + b'"}}', 10, ""),
    (b"this is no JSON", None, ""),
    (b'{"jsonrpc":"2.0","method":', None, ""),
    (b"\xff\xfe", None, ""),
]


async def test_a_line_that_breaks_a_rule_is_answered_and_the_connection_goes_on() -> None:
    async with serving() as child:
        for line, request_id, path in BROKEN:
            await child.send(line + b"\n", call("next", "echo", n=1))
            refused, answered = await child.answer(), await child.answer()
            code = -32700 if request_id is None else -32602
            assert (refused["error"]["code"], refused["id"]) == (code, request_id)
            data = refused["error"]["data"]
            assert data["code"] == "invalid_arguments"
            assert data["path"].endswith(path)
            assert data["expected"]
            assert data["got"]
            assert (answered["id"], answered["result"]["structuredContent"]) == ("next", {"n": 1})


NO_MESSAGES = [
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
    (b'{"id":1,"method":"ping"}', 1),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
    (b'"hello"', None),
]


async def test_json_that_is_no_json_rpc_message_is_an_invalid_request() -> None:
    async with serving() as child:
        for line, request_id in NO_MESSAGES:
            await child.send(line + b"\n", b"\n", call("next", "echo"))
            refused, answered = await child.answer(), await child.answer()
            assert (refused["error"]["code"], refused["id"], answered["id"]) == (-32600, request_id, "next")


async def test_integers_beyond_double_precision_come_back_exact() -> None:
    async with serving() as child:
        await child.send(call(1, "echo", id=9007199254740993, more=10**30))
        answer = await child.answer()
    assert answer["result"]["structuredContent"] == {"id": 9007199254740993, "more": 10**30}


async def test_two_open_requests_with_one_id_are_both_answered_and_delivered_with_their_own_content() -> None:
    first, second = call(1, "gate", tag="a"), call(1, "echo", tag="b")
    async with serving() as child:
        await child.send(first)
        await child.hears("waiting")
        await child.send(second)
        assert (await child.answer())["result"]["structuredContent"] == {"tag": "b"}
        assert await child.hears("delivered") == "delivered call_echo\n"
        child.process.send_signal(signal.SIGUSR1)
        assert (await child.answer())["result"]["structuredContent"] == {"tag": "a"}
        assert await child.hears("delivered") == "delivered call_gate\n"


async def test_the_end_of_the_input_ends_an_idle_server() -> None:
    async with serving() as child:
        await child.send(call(1, "echo"))
        await child.answer()
        child.stdin.close()
        assert await child.code() == 0


async def test_requests_sent_before_the_end_of_the_input_are_answered() -> None:
    async with serving() as child:
        await child.send(*(call(n, "echo", n=n) for n in range(20)))
        child.stdin.close()
        out, _ = await child.rest()
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(20))


async def test_a_call_that_outlives_the_grace_does_not_hold_the_process() -> None:
    async with serving(grace_s=0.2) as child:
        await child.send(call(1, "hold"))
        await child.hears("holding")
        child.stdin.close()
        await child.hears("let go")
        assert await child.code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_refuses_new_calls_and_still_writes_the_answers_of_open_ones(number: signal.Signals) -> None:
    async with serving(grace_s=LIMIT_S) as child:
        await child.send(call(1, "gate", kept=True))
        await child.hears("waiting")
        child.process.send_signal(number)
        answer: dict[str, Any] = {}
        view: dict[str, Any] = {}
        request_id = 1
        while view.get("state") != "refused":  # calls that were read before the signal was are still served
            request_id += 1
            await child.send(call(request_id, "echo"))
            answer = await child.answer()
            view = answer["result"]["structuredContent"]
        assert answer["result"]["isError"] is True
        assert (view["error"]["code"], view["outcome"], view["sent"]) == ("unavailable", "retryable_failure", "no")
        child.process.send_signal(signal.SIGUSR1)
        assert (await child.answer())["result"]["structuredContent"] == {"kept": True}
        assert await child.code() == 0


@pytest.mark.parametrize(("tool", "says"), [("stuck", "stuck"), ("freeze", "frozen")])
async def test_a_tool_that_blocks_a_thread_or_the_loop_does_not_outlive_a_signal(tool: str, says: str) -> None:
    async with serving(grace_s=0.2) as child:
        await child.send(call(1, tool))
        await child.hears(says)
        child.process.send_signal(signal.SIGTERM)
        assert await child.code() == 0


@pytest.mark.parametrize(("tool", "says"), [("hold", "holding"), ("freeze", "frozen")])
async def test_a_second_signal_ends_at_once_with_130(tool: str, says: str) -> None:
    async with serving(grace_s=300) as child:
        await child.send(call(1, tool))
        await child.hears(says)
        child.process.send_signal(signal.SIGINT)
        while child.process.returncode is None:  # two signals that arrive as one count once
            child.process.send_signal(signal.SIGINT)
            await asyncio.wait({asyncio.ensure_future(child.process.wait())}, timeout=0.1)
        assert child.process.returncode == 130


async def test_a_client_that_does_not_read_freezes_nothing() -> None:
    async with serving(grace_s=0.2, reads=False) as child:
        await child.send(call("first", "echo"))
        await child.hears("delivered")
        await child.send(*(call(n, "large") for n in range(40)))
        await child.send(call("late", "hold"))
        child.process.send_signal(signal.SIGTERM)
        assert await child.code() == 0


async def test_a_client_that_went_away_ends_the_server() -> None:
    async with serving(grace_s=0.2) as child:
        await child.send(call(1, "echo"))
        await child.answer()
        child.go_away()
        await child.send(call(2, "echo"))
        assert await child.code() == 0


async def test_a_cancelled_request_is_not_answered_and_not_delivered_and_others_go_on() -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    gone = json.dumps(cancel).encode() + b"\n"
    async with serving() as child:
        await child.send(call(1, "hold"), call(2, "gate", kept=True))
        await child.hears("waiting")
        await child.send(gone, gone, gone.replace(b"1}", b"99}"))
        await child.hears("let go")
        await child.send(call(3, "echo"))
        assert (await child.answer())["id"] == 3
        child.process.send_signal(signal.SIGUSR1)
        assert (await child.answer())["id"] == 2
        child.stdin.close()
        out, err = await child.rest()
    assert out == b""
    assert b"delivered call_hold" not in err


async def test_a_call_counts_as_delivered_only_once_its_answer_was_written() -> None:
    async with serving(reads=False) as child:
        await child.send(call(1, "large"), call(2, "gate"))
        await child.hears("waiting")
        child.process.send_signal(signal.SIGUSR1)
        await child.send(b"broken\n", call(3, "hold"))
        assert await child.hears("") == "holding\n"  # and nothing about a delivery before it
        await child.read()
        assert await child.hears("") == "delivered call_large\n"
        assert {(await child.answer())["id"] for _ in range(3)} == {1, 2, None}


async def test_a_silent_call_gives_signs_of_life_to_a_client_that_gave_a_token() -> None:
    params = {"name": "hold", "arguments": {}, "_meta": {**ENVELOPE, "progressToken": "t"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with serving() as child:
        await child.send(json.dumps(request).encode() + b"\n")
        heard = [await child.answer() for _ in range(3)]
    assert {message["method"] for message in heard} == {"notifications/progress"}
    values = [message["params"]["progress"] for message in heard]
    assert values == sorted(set(values))


async def test_a_notification_that_is_not_strict_json_is_dropped_and_logged_and_is_no_error_of_anybody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = os.pipe()
    writer = LineWriter(theirs, lambda: None)
    writer.start()
    outbox = Outbox(writer, lambda: None)
    with caplog.at_level(logging.ERROR):
        for message in ("a\ud800b", "fine"):
            params = {"progressToken": "t", "progress": 1, "message": message}
            notification = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=params)
            await within(outbox.send(SessionMessage(notification)))
    await within(writer.empty())
    lines = os.read(ours, 10_000).splitlines()
    os.close(ours)
    assert [json.loads(line)["params"]["message"] for line in lines] == ["fine"]
    assert "notifications/progress" in caplog.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_real_client_lists_and_calls_in_both_eras(mode: str) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[str(KIT), "1"], env={"PYTHONPATH": str(ROOT)})

    async def talk() -> tuple[list[str], CallToolResult, str | None]:
        async with Client(parameters, mode=mode) as client:
            listed = await client.list_tools()
            called = await client.call_tool("echo", {"a": 1})
            return [tool.name for tool in listed.tools], called, client.instructions

    names, called, instructions = await within(talk())
    assert names == ["tool_search", "status", "echo", "number"]
    assert called.structured_content == {"a": 1}
    assert isinstance(called.content[0], TextContent)
    assert json.loads(called.content[0].text) == {"a": 1}
    assert instructions == "Search first."
