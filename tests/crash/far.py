"""The far side of the HTTP crash tests: a process of its own with its own database, and tools that are requests to it.

There is one tool of each protection class. Each test has an order of its own, so that one far side serves them all.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kit.http_far_side import Answer

from .kit import HAPPENED, LIMIT_S, ROOT, Stage, assert_whole

READ: Final = "http_read"
NATURAL: Final = "http_natural"
KEYED: Final = frozenset({"http_keyed", "http_keyed_probed", "http_keyed_retry"})
PROBED: Final = frozenset({"http_probed", "http_keyed_probed", "http_settled"})
CLASSES: Final = (
    "http_plain", "http_probed", "http_keyed", "http_keyed_probed", "http_settled", NATURAL, READ,
)  # fmt: skip
USUAL: Final = Answer(then="usual")
TIMEOUT_S: Final = 25

_BASE: Final = """
[tools.{name}]
description = "A request of the {name} class."
effect = "{effect}"
input = {{ order = "string", note = "string" }}
timeout_s = {timeout_s}
{more}
[tools.{name}.http]
method = "{method}"
url = "{url}/orders/{{order}}{path}"
{body}
"""
_PROBE: Final = """
[tools.{name}.probe]
url = "{url}/refunds?{sought}={{call.action_id}}"
happened = {{ path = "/0/state", eq = "done" }}
absent = {{ path = "/0", exists = false }}
output = "/0"
"""
_JSON: Final = 'json = { note = "{note}", reference = "{call.action_id}" }\n'
_KEY: Final = 'idempotency_header = "Idempotency-Key"\n'
_AGAIN: Final = "retry = { attempts = 3, backoff_s = 0.01, least_s = 0.01 }\n"


@dataclass
class Far:
    """One far side; `port` stays when it is started again."""

    book: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the same port as before."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.http_far_side", str(self.book), str(self.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert process.stdout is not None
        self.port = json.loads(process.stdout.readline())["port"]
        self._process = process

    def stop(self) -> None:
        """End it by its stdin, or wait until it is dead."""
        if self._process is not None:
            self._process.communicate(timeout=LIMIT_S)
            self._process = None

    def dies(self) -> None:
        """Wait until it is dead, by its own hand."""
        assert self._process is not None
        self._process.wait(LIMIT_S)
        self.stop()

    def script(self, path: str, *answers: Answer) -> None:
        """The next answers of a path; the last one stays."""
        said = [{name: value for name, value in asdict(one).items() if name != "raw"} for one in answers]
        self._ask("POST", "/script", {"path": path, "answers": said})

    def release(self) -> None:
        """End every hold."""
        self._ask("POST", "/release", {})

    def effects(self, order: str) -> list[dict[str, Any]]:
        """The refunds of an order, as the file has them, whether the process lives or not."""
        with closing(sqlite3.connect(self.book, timeout=LIMIT_S)) as book:
            rows = book.execute("select key, body from refunds where ref = ? order by n", (order,)).fetchall()
        return [{"key": key, "action_id": json.loads(body)["reference"]} for key, body in rows]

    def keys(self, order: str) -> list[str | None]:
        """The key of each request that was sent on an order; None where it had none."""
        seen = self._ask("GET", "/seen")
        return [headers.get("idempotency-key") for _, target, headers in seen if target.startswith(f"/orders/{order}")]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())


@contextmanager
def far_side(folder: Path) -> Generator[Far]:
    """A far side for as long as the block runs."""
    far = Far(folder / "far.db")
    far.start()
    try:
        yield far
    finally:
        far.stop()


def describe(stage: Stage, far: Far, timeout_s: float = TIMEOUT_S) -> Stage:
    """The stage with a tool of each class."""
    text = f'\n[http]\nallow_hosts = ["127.0.0.1:{far.port}"]\n'
    text += _tool(far, "http_plain", timeout_s)
    text += _tool(far, "http_probed", timeout_s, sought="reference")
    text += _tool(far, "http_settled", timeout_s, more="settle_s = 1\n", sought="reference")
    text += _tool(far, "http_keyed", timeout_s, more='idempotency = "keyed"\n')
    text += _tool(far, "http_keyed_probed", timeout_s, more='idempotency = "keyed"\n', sought="key")
    text += _tool(far, "http_keyed_retry", timeout_s, more='idempotency = "keyed"\n' + _AGAIN)
    held = 'idempotency = "natural"\nresources = ["order:{order}"]\n'
    text += _tool(far, NATURAL, timeout_s, effect="write", more=held)
    text += _tool(far, READ, timeout_s, effect="read", more=_AGAIN)
    with stage.config.open("a") as file:
        file.write(text)
    return stage


def _tool(
    far: Far, name: str, timeout_s: float, *, effect: str = "destructive", more: str = "", sought: str = ""
) -> str:
    reads = effect == "read"
    body = 'query = { note = "{note}" }\n' if reads else _JSON + (_KEY if "keyed" in more else "")
    text = _BASE.format(
        name=name, effect=effect, timeout_s=timeout_s, more=more, url=far.url, body=body,
        method="GET" if reads else "POST", path="" if reads else "/refunds",
    )  # fmt: skip
    return text + (_PROBE.format(name=name, url=far.url, sought=sought) if sought else "")


def assert_honest(stage: Stage, far: Far, order: str) -> None:
    """The ledger is whole, contradicts the far side's own book nowhere, and each key is one call's own."""
    assert_whole(stage)
    effects = far.effects(order)
    rows = [row for row in stage.calls() if row["route"] != "probe"]
    assert {effect["action_id"] for effect in effects} <= {row["action_id"] for row in rows}
    for row in rows:
        if row["tool"] == READ:
            continue
        mine = [effect for effect in effects if effect["action_id"] == row["action_id"]]
        told = (row["state"], row["outcome"], row["sent"], row["code"])
        most = row["generation"] if row["tool"] == NATURAL else 1
        assert len(mine) <= most, f"{len(mine)} effects of one call: {told}"
        assert all(effect["key"] in {None, row["action_id"]} for effect in mine)
        if row["outcome"] in HAPPENED:
            assert mine, f"said to have happened, and it has not: {told}"
        elif row["state"] in {"refused", "settled"} or row["sent"] == "no":
            unknown = json.loads(row["details"] or "{}").get("effect") == "unknown"
            assert unknown or not mine, f"said not to have happened, and it has: {told}"
