"""The demo's chain through clients of every kind: each person decides where they can, and nobody waits for a form that
their client does not show.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import pytest
from mcp import Client, ClientSession
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    FormElicitationCapability,
    UrlElicitationCapability,
)

from counterfoil.server.app import App, open_app
from counterfoil.server.demo.chain import PLAN
from counterfoil.server.demo.order_facts import LATE_ORDER, ORDERS, ORDERS_URL
from counterfoil.server.demo.order_store import OrderStore
from counterfoil.server.serve import surface_of
from tests.kit.bench import OPERATOR
from tests.kit.chains import becomes, of
from tests.kit.people import Person
from tests.kit.served import view_of

pytestmark = pytest.mark.anyio
CONTACTS: Final = len(ORDERS[LATE_ORDER]["contacts"])
AT_ONCE_S: Final = 10.0
"""A pending answer comes long before this; a form that nobody shows would keep it for `client_wait_s`."""
CONFIGURATION: Final = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[approvals]
client_wait_s = 40
[python]
modules = ["counterfoil.server.demo.tools"]
"""
FORM: Final = ElicitationCapability(form=FormElicitationCapability())
URL: Final = ElicitationCapability(url=UrlElicitationCapability())
BOTH: Final = ElicitationCapability(form=FormElicitationCapability(), url=UrlElicitationCapability())


class Service(Protocol):
    """What the fixture gives."""

    @property
    def url(self) -> str: ...
    @property
    def store(self) -> OrderStore: ...


@dataclass(frozen=True)
class Kind:
    """What a client declares, and in which era it speaks."""

    mode: Literal["auto", "legacy"]
    declares: ElicitationCapability | None

    @property
    def shows_forms(self) -> bool:
        return self.declares is not None and self.declares.form is not None


KINDS: Final = {
    "without elicitation": Kind("auto", None),
    "forms only": Kind("auto", FORM),
    "2025-11-25": Kind("legacy", BOTH),
    "2026-07-28": Kind("auto", BOTH),
    "URL mode only": Kind("auto", URL),
    "URL mode only, 2025-11-25": Kind("legacy", URL),
}


async def decide(app: App, pending: dict[str, Any]) -> None:
    """What a person does at the command line."""
    said = await app.runtime.decide(pending["approval_id"], "approve", decider=OPERATOR, digest=pending["digest"])
    assert said.wire().get("error") is None


@pytest.mark.promise("APR-08")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_a_client_of_any_kind_completes_the_chain_and_its_person_decides_where_they_can(
    tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    (tmp_path / "counterfoil.toml").write_text(CONFIGURATION)
    monkeypatch.setenv(ORDERS_URL, service.url)
    declared = ClientCapabilities(elicitation=kind.declares)
    monkeypatch.setattr(ClientSession, "_build_capabilities", lambda *_: declared)  # the SDK declares both or neither
    person = Person.quick()
    async with (
        open_app(tmp_path / "counterfoil.toml", role="serve") as app,
        Client(surface_of(app).server, mode=kind.mode, elicitation_callback=person) as client,
    ):

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            async with asyncio.timeout(AT_ONCE_S):
                return view_of(await client.call_tool(tool, arguments))

        run_id = (await ask("run", plan=PLAN))["run_id"]
        view = await becomes(ask, run_id, "awaiting_approval")
        (refund,) = view["pending"]
        assert (refund["tool"], service.store.refunds(LATE_ORDER).made, person.read) == ("orders_refund", 0, [])
        assert f"counterfoil approvals approve {refund['approval_id']}" in refund["how"]
        own = await ask("confirm", approval_id=refund["approval_id"], decision="approve")
        assert own["error"]["code"] == "denied"
        await decide(app, refund)  # a destructive tool is an operator's, whatever a client shows
        await until_proposed(app)
        view = await ask("run", run_id=run_id)
        if not kind.shows_forms:
            (tell,) = view["pending"]
            assert (tell["step"], "counterfoil approvals approve" in tell["how"], person.read) == ("tell", True, [])
            await decide(app, tell)
        done = await becomes(ask, run_id)
        assert (done["status"], of(done, "tell")["state"]) == ("succeeded", "succeeded")
        shown: list[dict[str, Any]] = [one.wire() for one in await app.runtime.approvals(pending_only=False)]
    assert len(person.read) == int(kind.shows_forms)
    assert (service.store.refunds(LATE_ORDER), service.store.messages().made) == ((1, 1), CONTACTS)
    strengths = {one["tool"]: one["decided"]["strength"] for one in shown}
    told = "client_attested" if kind.shows_forms else "same_user"
    assert strengths == {"orders_refund": "same_user", "notify_send": told}


async def until_proposed(app: App) -> None:
    """Wait until the messages are proposed."""
    async with asyncio.timeout(AT_ONCE_S):
        while not await app.runtime.approvals():
            await asyncio.sleep(0.02)
