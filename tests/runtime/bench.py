"""Facts on a real ledger, without a runtime: rows, attempts and approvals as the runtime would hand them in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from counterfoil.ledger import owners
from counterfoil.ledger.admission import Neighbours
from counterfoil.ledger.approval_rows import ApprovalRow
from counterfoil.ledger.approving import Decision, decide
from counterfoil.ledger.dispatching import Attempt, Dispatched, dispatch_new, dispatch_queued
from counterfoil.ledger.proposals import Proposed, Waiter, propose
from counterfoil.ledger.queries import CALL
from counterfoil.ledger.recovering import claim
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.sealing import Sealed
from counterfoil.ledger.settling import Settlement, settle
from counterfoil.ledger.sql import Fact
from counterfoil.ledger.store import Ledger

T = TypeVar("T")
SECOND = 1_000_000
HOUR = 3_600 * SECOND


@dataclass
class HandClock:
    """Wall time stands still until it is moved; monotonic time runs on, as the machine's does."""

    at: int = 1_790_000_000 * SECOND
    ahead_s: float = 0.0

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s

    def pass_(self, seconds: float) -> None:
        self.at += round(seconds * SECOND)


SUCCESS = Settlement("success", "yes", 0)
UNSENT = Settlement("retryable_failure", "no", 0, code="unavailable", retryable=True)
FAILED = Settlement("permanent_failure", "yes", 0, code="tool_failed", details={"effect": "none"})
LOST = Settlement("ambiguous", "unknown", 0, code="ambiguous")


def call_row(call_id: str, at: int) -> CallRow:
    """A call that nobody has recorded yet."""
    return CallRow(
        call_id=call_id,
        run_id=call_id,
        route="direct",
        tenant="t",
        subject="me",
        client="c",
        scopes="[]",
        claimed="{}",
        tool="refund",
        version="1",
        schema_digest="d" * 64,
        effect="write",
        args_digest="a" * 64,
        args_payload=f"pay_{call_id}",
        args_shown="{}",
        resources="[]",
        action_id=f"act_{call_id}",
        key_retention=HOUR,
        created_at=at,
    )


@dataclass
class Bench:
    """Makes calls on a ledger, fact by fact."""

    ledger: Ledger
    clock: HandClock
    numbers: Any = field(default_factory=lambda: count(1))

    @property
    def me(self) -> str:
        return self.ledger.owner_id

    async def record(self, make: Callable[[], Fact[T]]) -> T:
        return await self.ledger.record(make)

    async def row_of(self, call_id: str) -> CallRow:
        (row,) = await self.ledger.reads.fetch(CALL, call_id=call_id)
        return row

    async def another_owner(self) -> str:
        owner_id = f"own_{next(self.numbers)}"
        await self.record(lambda: owners.register(owner_id, "host", 1, self.clock.now()))
        return owner_id

    async def lapse(self, owner_id: str) -> None:
        assert await self.record(lambda: owners.declare_lapsed(owner_id, 0, self.clock.now()))

    def row(self, **changes: Any) -> CallRow:
        call_id = f"call_{next(self.numbers)}"
        row = call_row(call_id, self.clock.now())
        if "resources" in changes:
            changes["resources"] = json.dumps(changes["resources"])
        return row._replace(**changes)

    def sealed(self, row: CallRow) -> Sealed:
        return self.ledger.seal(
            payload_id=row.args_payload, call_id=row.call_id, tenant=row.tenant, kind="arguments", content=b"{}"
        )

    def who(self, row: CallRow, **changes: Any) -> Neighbours:
        found = Neighbours(
            tenant=row.tenant,
            subject=row.subject,
            tool=row.tool,
            args_digest=row.args_digest,
            key=row.key,
            is_read=row.is_read,
            direct=True,
            now=self.clock.now(),
            window=900 * SECOND,
        )
        return replace(found, **changes)

    def attempt(self, owner_id: str | None = None, **changes: Any) -> Attempt:
        return replace(Attempt(owner_id or self.me, self.clock.now(), None, request_open=True), **changes)

    async def t1(self, row: CallRow, attempt: Attempt | None = None) -> Any:
        """T1 of a new call; whatever the guards answer."""
        sealed, made = self.sealed(row), attempt or self.attempt()
        return await self.record(lambda: dispatch_new(row, self.who(row), sealed, made))

    async def dispatched(self, attempt: Attempt | None = None, **changes: Any) -> CallRow:
        done = await self.t1(self.row(**changes), attempt)
        assert isinstance(done, Dispatched), done
        return done.row

    async def again(self, call_id: str, attempt: Attempt | None = None, **more: Any) -> Any:
        """T1 of a call that has a row."""
        chosen: dict[str, Any] = {"digest": None, "siblings": False, **more}
        made = attempt or self.attempt()
        return await self.record(lambda: dispatch_queued(call_id, made, **chosen))

    async def settled(self, row: CallRow, settlement: Settlement, **more: Any) -> Any:
        """T2 of the row's attempt, a moment later, by who knows the row as T1 made it."""
        self.clock.pass_(0.001)
        said = replace(settlement, at=self.clock.now())
        return await self.record(lambda: settle(row.call_id, row.generation, said, **{"known": row} | more))

    def approval(self, row: CallRow, digest: str = "f" * 64, **changes: Any) -> ApprovalRow:
        approval = ApprovalRow(
            approval_id=f"apr_{next(self.numbers)}",
            call_id=row.call_id,
            run_id=row.run_id,
            step=None,
            tenant=row.tenant,
            requester=row.subject,
            client=row.client,
            tool=row.tool,
            version=row.version,
            schema_digest=row.schema_digest,
            effect=row.effect,
            digest=digest,
            assurance="operator",
            rule_id="r",
            reason="because",
            approvers="[]",
            over_mcp=0,
            state="pending",
            requested_at=self.clock.now(),
            expires_at=self.clock.now() + HOUR,
            execute_within=900 * SECOND,
            execute_until=None,
            decided_at=None,
            decided_by=None,
            strength=None,
            via=None,
            note=None,
            superseded_by=None,
        )
        return approval._replace(**changes)

    async def proposed(self, **changes: Any) -> tuple[CallRow, ApprovalRow]:
        row = self.row(**changes)
        approval, sealed = self.approval(row), self.sealed(row)
        done = await self.record(
            lambda: propose([Waiter(row, approval.digest, self.who(row), sealed)], approval, pending_max=20)
        )
        assert isinstance(done, Proposed), done
        return done.row, done.approval

    async def decided(self, approval: ApprovalRow, *, approve: bool = True, **changes: Any) -> Any:
        said = replace(Decision(approve, "os:carol", "same_user", "cli", self.clock.now()), **changes)
        return await self.record(lambda: decide(approval.approval_id, said))

    async def approved(self, **changes: Any) -> tuple[CallRow, ApprovalRow]:
        """A call that a person approved, taken up by this process."""
        row, approval = await self.proposed(**changes)
        await self.decided(approval)
        taken = await self.record(lambda: claim(row.call_id, self.me, self.clock.now()))
        assert taken is not None
        return taken, approval
