"""The far side of the tests as a process: effects that survive it, one for each key, and a script over HTTP."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfoil import Call
from counterfoil.registry.outcome import Outcome
from counterfoil.registry.vocabulary import OutcomeClass
from counterfoil.tools.http.outbound import Outbound
from counterfoil.tools.http.spec import HttpTool, Request
from counterfoil.tools.http.tool import HttpAdapter
from tests.kit.http_far_side import Effects

pytestmark = pytest.mark.anyio


async def test_it_commits_and_drops_the_reply_and_honours_the_key_across_its_own_end(
    tmp_path: Path, make_call: Callable[..., Call]
) -> None:
    call = replace(make_call(), action_id="act_9")
    for kind in (OutcomeClass.AMBIGUOUS, OutcomeClass.SUCCESS):
        command = [sys.executable, "-m", "tests.kit.http_far_side", str(tmp_path / "effects.db")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 (its one line is awaited by nobody else)
            assert process.stdin is not None
            assert process.stdout is not None
            port = json.loads(process.stdout.readline())["port"]
            outbound = Outbound([f"127.0.0.1:{port}"], trust=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

            async def post(path: str, body: Any, outbound: Outbound = outbound, port: int = port) -> Outcome[Any]:
                spec = HttpTool(
                    Request("POST", f"http://127.0.0.1:{port}{path}", json=body), key_header="Idempotency-Key"
                )
                return await HttpAdapter("post", spec, outbound, str, is_read=False).invoke({}, call, {})

            answers = [{"then": "drop", "commit": True}]
            if kind is OutcomeClass.AMBIGUOUS:
                await post("/script", {"path": "/orders/o1/refunds", "answers": answers})
            assert (await post("/orders/o1/refunds", {"amount": 5})).kind is kind
            await outbound.aclose()
            process.stdin.close()
            assert process.wait(20) == 0
    assert [one["key"] for one in Effects(tmp_path / "effects.db").all()] == ["act_9"]
