"""Adapters of HTTP tools against a far side of the test's own: one that reads, one that refunds, and their call."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from counterfoil import Call
from counterfoil.registry.outcome import Outcome, Probe
from counterfoil.registry.vocabulary import OutcomeClass
from counterfoil.tools.http.outbound import Outbound
from counterfoil.tools.http.probe import HttpProbeAdapter
from counterfoil.tools.http.spec import HttpProbe, HttpTool, Request
from counterfoil.tools.http.tool import HttpAdapter
from tests.kit.http_far_side import FarSide

TOKEN = "Bearer tok-5up3r-s3cret-value"  # noqa: S105 (a made-up one, to be looked for)


def no_trust() -> ssl.SSLContext:
    """Certificates of the system take time to load, and hardly a test needs one."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def output_of(outcome: Outcome[Any]) -> Any:
    assert outcome.kind is OutcomeClass.SUCCESS, outcome
    return outcome.output


def secret(reference: str) -> str:
    if reference != "env:ORDERS_TOKEN":
        raise LookupError(f"{reference} {TOKEN}")
    return TOKEN


@dataclass
class Hands:
    """What a test holds."""

    far: FarSide
    outbound: Outbound
    make_call: Callable[..., Call]

    def request(self, method: str, path: str, **more: Any) -> Request:
        headers = {"Authorization": "env:ORDERS_TOKEN"} | more.pop("headers", {})
        return Request(method, self.far.url + path, headers, **more)

    def call(self, guard: Any = None, timeout_s: float = 10.0, if_version: str | None = None) -> Call:
        call = self.make_call(*([guard] if guard else []))
        return replace(call, deadline=datetime.now(UTC) + timedelta(seconds=timeout_s), if_version=if_version)

    async def read(
        self, path: str = "/x", arguments: Any = None, call: Call | None = None, **spec: Any
    ) -> Outcome[Any]:
        tool = HttpTool(spec.pop("request", None) or self.request("GET", path), **spec)
        adapter = HttpAdapter("look", tool, self.outbound, secret, is_read=True)
        return await adapter.invoke(arguments or {}, call or self.call(), {})

    async def refund(
        self, path: str = "/x", arguments: Any = None, call: Call | None = None, **spec: Any
    ) -> Outcome[Any]:
        request = spec.pop("request", None) or self.request("POST", path, json={"amount": "{amount}", "note": "{note}"})
        tool = HttpTool(request, key_header="Idempotency-Key", **spec)
        adapter = HttpAdapter("refund", tool, self.outbound, secret, is_read=False)
        return await adapter.invoke(arguments or {"amount": 5}, call or self.call(), {})

    async def ask(self, path: str = "/x", **signs: Any) -> Probe:
        adapter = HttpProbeAdapter(
            "refund__probe", HttpProbe(self.request("GET", path), **signs), self.outbound, secret
        )
        answer = (await adapter.invoke({}, self.call(), {})).output
        assert isinstance(answer, Probe)
        return answer
