"""The real ledger under the state machine: one SQLite file, facts carried out one by one as the writer does it."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from counterfoil.ledger import keyring, migrations, owners, sealing
from counterfoil.ledger.admission import Neighbours
from counterfoil.ledger.approval_rows import ApprovalRow
from counterfoil.ledger.rows import CallRow, get_call
from counterfoil.ledger.sql import Fact, run

from .model import WINDOW, Ask

T = TypeVar("T")
RETENTION: Final = 86_400_000_000
TABLES: Final = ("calls", "attempts", "approvals", "keys", "leases", "budgets", "events", "outbox", "payloads")


class Book:
    """A ledger file and the facts carried out on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(_fresh_ledger())
        self.connection = migrations.connect(path, now=1, durability="normal")
        self.connection.execute("PRAGMA synchronous = OFF")
        self._ring = keyring.load(path.with_name("ledger.db.key"), in_use=False)

    def close(self) -> None:
        self.connection.close()

    def record(self, make: Callable[[], Fact[T]], *, twice: bool = False, repeats: bool = False) -> T:
        """Carry out one fact and commit it. `twice`: its answer was lost, so it comes again and must change nothing.

        `repeats`: the runtime itself tries it until it is told that it was stored, so that it may not fail either.
        """
        result = self._commit(make)
        if twice:
            before = self.everything()
            with nullcontext() if repeats else suppress(sqlite3.IntegrityError):
                self._commit(make)
            assert self.everything() == before, "a fact that was carried out twice changed something the second time"
        return result

    def _commit(self, make: Callable[[], Fact[T]]) -> T:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            result = run(self.connection, make())
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")
        return result

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES}  # noqa: S608 (constants)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def call(self, call_id: str) -> CallRow:
        row = self._read(lambda: get_call(call_id))
        assert row is not None
        return row

    def _read(self, make: Callable[[], Fact[T]]) -> T:
        return run(self.connection, make())

    def enter(self, owner: str, at: int) -> None:
        self.record(lambda: owners.register(owner, "host", 1, at))

    def seal(self, name: str, call_id: str, content: str, kind: sealing.Kind = "arguments") -> sealing.Sealed:
        return sealing.seal(
            self._ring, payload_id=f"pay_{name}", call_id=call_id, tenant="t", kind=kind,
            content=content.encode(), now=1,
        )  # fmt: skip

    def events(self, call_id: str) -> list[tuple[str, dict[str, Any]]]:
        found = self.rows("SELECT type, body FROM events WHERE call_id = ? ORDER BY seq", call_id)
        return [(kind, json.loads(body)["data"]) for kind, body in found]


@cache
def _fresh_ledger() -> bytes:
    """The bytes of a ledger that nobody has written to; making one takes longer than a story."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        migrations.connect(path, now=1).close()
        return path.read_bytes()


def first_row(call_id: str, ask: Ask, at: int) -> CallRow:
    """A request's row before any move."""
    return CallRow(
        call_id=call_id, run_id=call_id, route="direct", tenant="t", subject=ask.subject, client="c", scopes="[]",
        claimed="{}", tool=ask.tool.name, version="1", schema_digest="d", effect=ask.tool.effect,
        args_digest=ask.order, args_payload=f"pay_{call_id}", args_shown=json.dumps({"order": ask.order}),
        resources=json.dumps(ask.tool.keys(ask.order)), action_id=call_id.replace("call", "act"),
        key_retention=RETENTION, created_at=at, key=ask.key,
    )  # fmt: skip


def neighbours(ask: Ask, now: int) -> Neighbours:
    """What the duplicate rules ask about a request."""
    return Neighbours(
        "t", ask.subject, ask.tool.name, ask.order, ask.key, ask.tool.is_read, direct=True, now=now, window=WINDOW
    )


def proposal(approval_id: str, call_id: str, ask: Ask, at: int, valid: int, within: int) -> ApprovalRow:
    """An undecided approval."""
    return ApprovalRow(
        approval_id=approval_id, call_id=call_id, run_id=call_id, step=None, tenant="t", requester=ask.subject,
        client="c", tool=ask.tool.name, version="1", schema_digest="d", effect=ask.tool.effect,
        digest=f"digest of {approval_id}", assurance="operator", rule_id=None, reason="a rule asks", approvers="[]",
        over_mcp=0, state="pending", requested_at=at, expires_at=at + valid, execute_within=within,
        execute_until=None, decided_at=None, decided_by=None, strength=None, via=None, note=None, superseded_by=None,
    )  # fmt: skip
