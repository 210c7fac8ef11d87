"""A far side over HTTP that a test scripts: real sockets on the loopback interface, and effects in a file of its own.

In a test: `with FarSide(path) as far: far.script("/x", Answer(...)); far.seen`. As a process, ended with its stdin:

    python -m tests.kit.http_far_side FILE [PORT]        prints {"port": N}

Without a script `POST /orders/ID/refunds` adds a refund once for each `Idempotency-Key` (always, without one), `GET
/refunds?key=K` lists those of a key, `?reference=R` those whose body has that reference, `GET /refunds` all, `GET
/orders/ID` shows an order. `POST /script` takes `{"path", "answers": [Answer's fields]}`, `POST /release` ends every
hold, `GET /seen` shows the requests. A scripted path that starts with `POST /` or the like is that method's alone.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import struct
import sys
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

LIMIT_S = 20.0
"""No hold of the far side is longer."""


@dataclass(frozen=True)
class Answer:
    """What one request gets.

    `commit` makes the refund before anything else, `commit_late` after a hold. `then` says how it goes on: `drop`
    closes the connection without a byte, `reset` resets it in the middle of the body, `hold` waits for
    `FarSide.release` before the answer, `die` ends the process, `usual` is as without a script.
    """

    status: int = 200
    body: str = "{}"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    commit: bool = False
    commit_late: bool = False
    then: str = "answer"
    length: int | None = None
    raw: bytes | None = None


@dataclass(frozen=True)
class Seen:
    """One request as it came in: `target` is what was on the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Effects:
    """The refunds, in a file that survives everyone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as book:
            book.execute(
                "create table if not exists refunds (n integer primary key, key text unique, ref text, body text)"
            )

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=LIMIT_S, isolation_level="IMMEDIATE")

    def add(self, key: str | None, ref: str, body: str) -> dict[str, Any]:
        """The refund of a key; one and the same each time it is asked for."""
        book = self._open()
        try:
            with book:
                book.execute("insert or ignore into refunds (key, ref, body) values (?, ?, ?)", (key, ref, body))
                sql = "select n, key, ref, body from refunds where key = ? or (? is null and n = last_insert_rowid())"
                row = book.execute(sql, (key, key)).fetchone()
        finally:
            book.close()
        return _refund_of(*row)

    def all(self, key: str | None = None) -> list[dict[str, Any]]:
        """Those of a key, or all."""
        book = self._open()
        try:
            sql = "select n, key, ref, body from refunds where ? is null or key = ? order by n"
            return [_refund_of(*row) for row in book.execute(sql, (key, key))]
        finally:
            book.close()


def _refund_of(number: int, key: str | None, order: str, body: str) -> dict[str, Any]:
    refund = {"refund_id": f"ref_{number}", "key": key, "order_id": order, "state": "done"}
    sent: dict[str, Any] = json.loads(body) if body.startswith("{") else {}
    return refund | {"reference": sent.get("reference")}


class FarSide(ThreadingHTTPServer):
    """The server, in threads of this process."""

    daemon_threads = True

    def __init__(self, path: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.effects = Effects(path)
        self.seen: list[Seen] = []
        self.release = threading.Event()
        self.arrived = threading.Event()
        self.connections = 0
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def host(self) -> str:
        """As it stands in `allow_hosts`."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def script(self, path: str, *answers: Answer) -> None:
        """The next answers of a path, one request each; the last one stays."""
        self._scripts[path] = deque(answers)

    def scripted(self, method: str, path: str) -> Answer | None:
        for name in (f"{method} {path}", path):
            if answers := self._scripts.get(name):
                return answers.popleft() if len(answers) > 1 else answers[0]
        return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what is tested."""

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FarSide  # pyright: ignore[reportIncompatibleVariableOverride] (nobody else makes this handler)
    protocol_version = "HTTP/1.1"
    timeout = LIMIT_S

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base's name)
        """Nothing of a test goes to stderr."""

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        parts = urlsplit(self.path)
        answer = self.server.scripted(self.command, parts.path)
        if answer is None or answer.then == "usual":
            self._give(self._own(parts.path, parse_qs(parts.query), body))
            return
        if answer.commit:
            self._refund(parts.path, body)
        self.server.arrived.set()
        if answer.then == "die":
            os._exit(1)
        if answer.then == "hold":
            self.server.release.wait(LIMIT_S)
        if answer.commit_late:
            self._refund(parts.path, body)
        self._give(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any  # noqa: N815 (the base's names)

    def _own(self, path: str, query: dict[str, list[str]], body: bytes) -> Answer:
        steps = path.strip("/").split("/")
        if path in {"/script", "/release", "/seen"}:
            return self._controlled(path, body)
        if self.command == "POST" and steps[0] == "orders" and steps[-1] == "refunds":
            return Answer(201, json.dumps(self._refund(path, body)))
        if path == "/refunds":
            found = self.server.effects.all(query.get("key", [None])[0])
            wanted = query.get("reference", [None])[0]
            return Answer(200, json.dumps([one for one in found if wanted in {None, one["reference"]}]))
        if steps[0] == "orders" and len(steps) == 2:
            order = {"order_id": unquote(steps[1]), "state": "delayed", "etag": "v7"}
            return Answer(200, json.dumps(order), {"ETag": '"v7"', "X-Request-Id": "req-1"})
        return Answer(404, '{"message": "no such thing"}')

    def _controlled(self, path: str, body: bytes) -> Answer:
        """What a test asks of a far side that is a process of its own."""
        if path == "/seen":
            return Answer(200, json.dumps([[one.method, one.target, one.headers] for one in self.server.seen]))
        if path == "/release":
            held, self.server.release = self.server.release, threading.Event()
            held.set()
        else:
            given = json.loads(body)
            self.server.script(given["path"], *(Answer(**fields) for fields in given["answers"]))
        return Answer()

    def _refund(self, path: str, body: bytes) -> dict[str, Any]:
        order = unquote(path.strip("/").split("/")[1])
        return self.server.effects.add(self.headers.get("Idempotency-Key"), order, body.decode())

    def _give(self, answer: Answer) -> None:
        if answer.then == "drop":
            self.close_connection = True
            return
        data = answer.body.encode() if answer.raw is None else answer.raw
        self.send_response(answer.status)
        for name, value in ({"Content-Type": "application/json"} | answer.headers).items():
            self.send_header(name, value)
        if answer.status not in {204, 304}:
            self.send_header("Content-Length", str(len(data) if answer.length is None else answer.length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if answer.then == "reset" else data)
        if answer.then == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        if answer.length is not None:
            self.close_connection = True


def main(path: str, port: str = "0") -> None:
    """Serve until stdin ends, so that nobody is left behind."""
    with FarSide(Path(path), int(port)) as far:
        sys.stdout.write(json.dumps({"port": far.port}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
