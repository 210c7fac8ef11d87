"""The demo's other side behaves as real ones do: it honours keys, refuses, and can lose a reply after it has acted."""

from __future__ import annotations

import subprocess
import threading
from typing import Protocol

import httpx2
import pytest

from counterfoil.server.demo.order_facts import FACTS, LATE_ORDER
from counterfoil.server.demo.order_store import OrderStore

REFUND = {"amount": 10, "note": "late"}
PATH = f"/orders/{LATE_ORDER}/refunds"


class Service(Protocol):
    """What the fixture gives."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...
    @property
    def client(self) -> httpx2.Client: ...
    @property
    def store(self) -> OrderStore: ...


def post(service: Service, key: str) -> httpx2.Response:
    return service.client.post(PATH, json=REFUND, headers={"Idempotency-Key": key})


def test_a_refund_is_recorded_once_and_found_by_its_key(service: Service) -> None:
    made = post(service, "k1").json()
    assert service.client.get("/refunds", params={"key": "k1"}).json() == [made]
    assert service.client.get("/refunds", params={"key": "k2"}).json() == []
    assert service.client.get(f"/orders/{LATE_ORDER}").json()["refunded"] == 10
    assert service.store.refunds(LATE_ORDER) == (1, 1)


def test_one_key_makes_one_refund_and_every_request_is_counted(service: Service) -> None:
    assert post(service, "k1").json() == post(service, "k1").json()
    assert service.store.refunds(LATE_ORDER) == (1, 2)


def test_more_than_the_order_cost_is_refused(service: Service) -> None:
    refused = service.client.post(PATH, json={"amount": 1000})
    assert refused.status_code == 409
    assert service.store.refunds(LATE_ORDER) == (0, 1)


def test_a_dropped_reply_leaves_the_refund_made(service: Service) -> None:
    service.client.post("/faults", json={"kind": "drop_reply"})
    with pytest.raises(httpx2.RemoteProtocolError):
        post(service, "k1")
    assert service.store.refunds(LATE_ORDER) == (1, 1)
    assert post(service, "k2").status_code == 201


@pytest.mark.parametrize(("fault", "made"), [("hold_after", 1), ("hold_before", 0)])
def test_a_held_reply_does_not_come_while_the_service_holds_it(service: Service, fault: str, made: int) -> None:
    service.client.post("/faults", json={"kind": fault, "seconds": 60})
    with pytest.raises(httpx2.ReadTimeout):
        service.client.post(PATH, json=REFUND, timeout=0.5)
    assert service.store.refunds(LATE_ORDER) == (made, 1)


def test_a_message_is_sent_once_for_its_key_and_counted(service: Service) -> None:
    message, key = {"to": "ines@customer.example", "text": "Sorry"}, {"Idempotency-Key": "k1"}
    sent = [service.client.post("/messages", json=message, headers=key).json() for _ in range(2)]
    assert sent == service.client.get("/messages", params={"key": "k1"}).json() * 2
    assert service.client.get("/messages", params={"key": "k2"}).json() == []
    assert service.store.messages() == (1, 2)


def test_as_many_replies_are_held_as_were_asked_for(service: Service) -> None:
    service.client.post("/faults", json={"kind": "hold_after", "seconds": 60, "times": 2})
    for _ in range(2):
        with pytest.raises(httpx2.ReadTimeout):
            service.client.post("/messages", json={"to": "a", "text": "b"}, timeout=0.5)
    assert service.client.post("/messages", json={"to": "a", "text": "b"}).status_code == 201


def test_facts_are_served_and_unknown_ones_are_not_found(service: Service) -> None:
    for kind, known in FACTS.items():
        identity, body = next(iter(known.items()))
        assert service.client.get(f"/facts/{kind}/{identity}").json() == body
    assert service.client.get("/shipments/shp_5").json()["late"] is True
    assert service.client.get("/shipments/nothing").status_code == 404
    assert service.client.get("/facts/stock/nothing").status_code == 404
    assert service.client.get("/orders/nothing").status_code == 404


def test_house_rules_are_found_by_a_word(service: Service) -> None:
    assert [rule["topic"] for rule in service.client.get("/policies", params={"topic": "late delivery"}).json()] == [
        "late delivery"
    ]


def test_the_service_ends_with_the_one_who_started_it_even_while_it_holds_a_reply(service: Service) -> None:
    service.client.post("/faults", json={"kind": "hold_after", "seconds": 60})
    waiting = threading.Thread(target=_post_quietly, args=(service,))
    waiting.start()
    assert service.process.stdin is not None
    service.process.stdin.close()
    assert service.process.wait(20) == 0
    waiting.join(20)
    assert not waiting.is_alive()


def _post_quietly(service: Service) -> None:
    try:
        post(service, "k1")
    except httpx2.HTTPError:
        return
