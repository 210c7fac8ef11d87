"""A ledger that is only looked at, with its keys: no owner is entered, and not a byte of it changes.

For whoever asks what was recorded, payloads included, beside whatever servers write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from .approval_rows import SELECT_APPROVAL, ApprovalRow
from .errors import KeyMissingError, UnsupportedLedgerError
from .keyring import Keyring, Secret, load
from .migrations import LATEST, recognise
from .place import reading
from .plans import get_plan
from .run_reading import Snapshot, snapshot
from .run_rows import PlanRow
from .sealing import unseal, whole
from .sql import Fact, one, run

T = TypeVar("T")


class Recorded(NamedTuple):
    """A run, the plan that it follows, and the proposals that its calls waited for, by their ids."""

    found: Snapshot
    plan: PlanRow
    approvals: dict[str, ApprovalRow]


class Witness:
    """Answers of one moment."""

    def __init__(self, connection: sqlite3.Connection, ring: Keyring) -> None:
        self._connection = connection
        self._ring = ring

    def look(self, fact: Fact[T]) -> T:
        """Carry out a fact that only reads."""
        return run(self._connection, fact)

    def open_payload(self, payload_id: str) -> bytes:
        """The whole content of a payload.

        Raises:
            NoSuchPayloadError, KeyMissingError, DamagedLedgerError: see `errors`.
        """
        row, chunks = self.look(whole(payload_id))
        return b"".join(unseal(self._ring, row, n, sealed) for n, sealed in chunks)


@contextmanager
def witness(
    path: Path, *, payload_secrets: Sequence[Secret] = (), approval_secrets: Sequence[Secret] = ()
) -> Generator[Witness]:
    """Look at a ledger that is there.

    Raises:
        DamagedLedgerError, LedgerLockedError, CannotRecordError: see `place.reading`.
        NewerLedgerError, UnsupportedLedgerError: another version wrote it.
        KeyMissingError: its key file is not beside it.
    """
    keys = path.with_name(f"{path.name}.key")
    with reading(path) as connection:
        version = recognise(connection, path)
        if version != LATEST:
            raise UnsupportedLedgerError(
                f"{path} has schema {version}; `counterfoil ledger migrate` brings it to {LATEST}"
            )
        if not keys.exists():
            raise KeyMissingError(f"{keys} is missing, and payloads cannot be opened without it; put it back")
        ring = load(keys, payload_secrets=payload_secrets, approval_secrets=approval_secrets, in_use=True)
        connection.execute("BEGIN")
        yield Witness(connection, ring)


def recorded(run_id: str) -> Fact[Recorded | None]:
    """What is recorded of a run, its chain checked first; None if there is none.

    Raises:
        DamagedChainError: its record is damaged.
    """
    found = yield from snapshot(run_id, outputs=False)
    plan = None if found is None else (yield from get_plan(found.run.plan_id))
    if found is None or plan is None:
        return None
    approvals: dict[str, ApprovalRow] = {}
    for approval_id in {row.approval_id for row in [*found.calls, *found.reused.values()] if row.approval_id}:
        row = yield from one(SELECT_APPROVAL, approval_id=approval_id)
        if row is not None:
            approvals[approval_id] = row
    return Recorded(found, plan, approvals)
