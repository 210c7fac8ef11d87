"""The demo's refund tool does what a careful author would: it never hides that it does not know."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol

import httpx2
import pytest

from counterfoil import Call
from counterfoil.registry.outcome import ProbeAnswer
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import OutcomeClass, Sent
from counterfoil.server.demo import tools
from counterfoil.server.demo.order_facts import LATE_ORDER, ORDERS_URL
from counterfoil.server.demo.order_store import OrderStore

pytestmark = pytest.mark.anyio


class Service(Protocol):
    """What the fixture gives."""

    @property
    def url(self) -> str: ...
    @property
    def client(self) -> httpx2.Client: ...
    @property
    def store(self) -> OrderStore: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools find the service, and a proxy that nobody answers at."""
    monkeypatch.setenv(ORDERS_URL, service.url)
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


async def nothing(*_: object) -> None:
    """Progress that nobody listens to, and a guard that lets everything pass."""


def call(action_id: str) -> Call:
    return Call(
        id="call_1",
        action_id=action_id,
        attempt=1,
        principal=Principal("local", "me"),
        deadline=datetime.max.replace(tzinfo=UTC),
        if_version=None,
        progress_sink=nothing,
        guard_check=nothing,
        loop=asyncio.get_running_loop(),
    )


async def test_a_refund_carries_the_action_id_as_its_key_and_the_probe_finds_it() -> None:
    made = await tools.orders_refund(LATE_ORDER, 10.0, call("act_1"), "late")
    assert (made.kind, made.evidence) == (OutcomeClass.SUCCESS, {"external_reference": "rf_1"})
    found = await tools.refund_happened(call("act_1"))
    assert (found.answer, found.output["refund_id"]) == (ProbeAnswer.HAPPENED, "rf_1")
    assert (await tools.refund_happened(call("act_2"))).answer is ProbeAnswer.ABSENT


async def test_a_lost_reply_is_raised_so_that_the_outcome_is_ambiguous(service: Service) -> None:
    service.client.post("/faults", json={"kind": "drop_reply"})
    with pytest.raises(httpx2.RemoteProtocolError):
        await tools.orders_refund(LATE_ORDER, 10.0, call("act_1"))
    assert (await tools.refund_happened(call("act_1"))).answer is ProbeAnswer.HAPPENED
    assert service.store.refunds(LATE_ORDER) == (1, 1)


async def test_a_message_carries_the_action_id_as_its_key_and_the_probe_finds_it(service: Service) -> None:
    made = await tools.notify_send("ines@customer.example", "Sorry", call("act_1"))
    assert (made.kind, made.evidence) == (OutcomeClass.SUCCESS, {"external_reference": "msg_1"})
    found = await tools.message_sent(call("act_1"))
    assert (found.answer, found.output["to"]) == (ProbeAnswer.HAPPENED, "ines@customer.example")
    assert (await tools.message_sent(call("act_2"))).answer is ProbeAnswer.ABSENT


async def test_a_service_that_cannot_be_reached_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ORDERS_URL, "http://127.0.0.1:9")
    for outcome in (
        await tools.orders_refund(LATE_ORDER, 10.0, call("act_1")),
        await tools.notify_send("ines@customer.example", "Sorry", call("act_1")),
    ):
        assert (outcome.kind, outcome.sent) == (OutcomeClass.RETRYABLE_FAILURE, Sent.NO)


async def test_a_refused_refund_is_a_failure_without_effect(service: Service) -> None:
    outcome = await tools.orders_refund(LATE_ORDER, 1000.0, call("act_1"))
    assert (outcome.kind, outcome.sent) == (OutcomeClass.PERMANENT_FAILURE, Sent.YES)
    assert service.store.refunds(LATE_ORDER)[0] == 0


async def test_reads_answer_what_the_service_knows() -> None:
    order = (await tools.orders_get(LATE_ORDER)).output
    assert order is not None
    assert (order.state, order.days_late) == ("delayed", 6)
    shipment = (await tools.shipments_get(order.shipment_id)).output
    assert shipment is not None
    assert (shipment.late, len(order.contacts)) == (True, 3)
    assert (await tools.shipments_get("nothing")).kind is OutcomeClass.NO_RESULT
    assert (await tools.orders_get("nothing")).kind is OutcomeClass.NO_RESULT
    assert [rule.topic for rule in await tools.policy_find("late delivery")] == ["late delivery"]
    assert (await tools.shipment_carrier("shp_5")).output == "Blue Van"
    assert (await tools.article_stock("nothing")).kind is OutcomeClass.NO_RESULT
