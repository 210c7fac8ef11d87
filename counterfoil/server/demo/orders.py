"""The order service: a real HTTP server on the loopback interface, in a process of its own.

    python -m counterfoil.server.demo.orders DATABASE

It prints `{"port": N}` and serves until its stdin ends, so it never outlives the one who started it. `POST /faults`
makes the next refunds and messages misbehave: commit and drop the reply, or hold before or after the commit.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

from .order_store import Message, OrderStore, Refund, RefusedError

LOOPBACK: Final = "127.0.0.1"
LONGEST_HOLD_S: Final = 120.0
LARGEST_BODY: Final = 100_000
LOOK_UP_S: Final = 0.3
"""How long it looks for a house rule or a shipment: so long that one sees whether both are asked for at once."""


class Fault(StrEnum):
    """What the next refund or message does wrong."""

    NONE = "none"
    DROP_REPLY = "drop_reply"
    HOLD_BEFORE = "hold_before"
    HOLD_AFTER = "hold_after"


class OrderServer(ThreadingHTTPServer):
    """The service: its store, and the faults that the next refunds and messages take with them."""

    daemon_threads = True

    def __init__(self, store: OrderStore) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.store = store
        self._lock = threading.Lock()
        self._armed: list[tuple[Fault, float]] = []
        self.stopping = threading.Event()

    def arm(self, fault: Fault, seconds: float, times: int) -> None:
        """Choose the faults of the next so many."""
        with self._lock:
            self._armed = [(fault, min(seconds, LONGEST_HOLD_S))] * times

    def disarm(self) -> tuple[Fault, float]:
        """Take one fault; without one left, all goes well."""
        with self._lock:
            return self._armed.pop() if self._armed else (Fault.NONE, 0.0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _orders(self) -> OrderServer:
        return cast("OrderServer", self.server)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
        """Say nothing: the play says what matters."""

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        store = self._orders.store
        match [unquote(part) for part in target.path.strip("/").split("/")]:
            case ["orders", order_id]:
                self._found(store.order(order_id))
            case ["refunds"]:
                self._answer(HTTPStatus.OK, [asdict(found) for found in store.refunds_by_key(query.get("key", ""))])
            case ["messages"]:
                self._answer(HTTPStatus.OK, [asdict(found) for found in store.messages_by_key(query.get("key", ""))])
            case ["policies"]:
                self._orders.stopping.wait(LOOK_UP_S)
                self._answer(HTTPStatus.OK, store.policies(query.get("topic", "")))
            case ["shipments", shipment_id]:
                self._orders.stopping.wait(LOOK_UP_S)
                self._found(store.fact("shipment", shipment_id))
            case ["facts", kind, identity]:
                self._found(store.fact(kind, identity))
            case _:
                self._found(None)

    def do_POST(self) -> None:
        body, store = self._body(), self._orders.store
        match [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]:
            case ["orders", order_id, "refunds"]:
                amount, note = float(body["amount"]), body.get("note")
                self._act("refund", order_id, lambda key: store.refund(order_id, amount, note, key))
            case ["refunds", refund_id, "withdrawals"]:
                self._act("withdrawal", refund_id, lambda _: store.withdraw(refund_id))
            case ["orders", order_id, "replacements"]:
                self._act("replacement", order_id, lambda _: store.replace(order_id))
            case ["messages"]:
                to, text = str(body["to"]), str(body["text"])
                self._act("message", to, lambda key: store.message(to, text, key))
            case ["faults"]:
                self._orders.arm(Fault(body["kind"]), float(body.get("seconds", 0)), int(body.get("times", 1)))
                self._answer(HTTPStatus.OK, {"armed": body["kind"]})
            case _:
                self._found(None)

    def _act(self, kind: str, about: str, make: Callable[[str | None], Refund | Message | None]) -> None:
        """Make a refund or send a message, with whatever fault is due."""
        fault, seconds = self._orders.disarm()
        key = self.headers.get("Idempotency-Key")
        self._orders.store.note_request(kind, about, key)
        if fault is Fault.HOLD_BEFORE:
            self._orders.stopping.wait(seconds)
        try:
            made = make(key)
        except RefusedError as refusal:
            self._answer(HTTPStatus.CONFLICT, {"error": str(refusal)})
            return
        if fault is Fault.DROP_REPLY:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault is Fault.HOLD_AFTER:
            self._orders.stopping.wait(seconds)
        self._answer(HTTPStatus.CREATED, {} if made is None else asdict(made))

    def _body(self) -> dict[str, Any]:
        length = min(int(self.headers.get("Content-Length", 0)), LARGEST_BODY)
        content: dict[str, Any] = json.loads(self.rfile.read(length) or b"{}")
        return content

    def _found(self, body: Any) -> None:  # noqa: ANN401 (any JSON value)
        if body is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "not found"})
        else:
            self._answer(HTTPStatus.OK, body)

    def _answer(self, status: HTTPStatus, body: Any) -> None:  # noqa: ANN401
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def serve(database: Path) -> None:
    """Serve from a new database until stdin ends."""
    store = OrderStore(database)
    store.create()
    with OrderServer(store) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        sys.stdout.write(json.dumps({"port": server.server_port}) + "\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()
        server.stopping.set()
        server.shutdown()
        thread.join()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
