"""What the steps of a story share: the real ledger, the model beside it, the world outside, and what follows."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from counterfoil.ledger.admission import Busy, Duplicate, OwnerLapsed, Unresolved
from counterfoil.ledger.budgeting import Charge, OverBudget
from counterfoil.ledger.dispatching import (
    ApprovalGone,
    Attempt,
    Dispatched,
    LateFound,
    Moved,
)
from counterfoil.ledger.proposals import Proposed
from counterfoil.ledger.settling import Settled

from .book import RETENTION, Book
from .model import Ask, Crossing, Model, Standing, Stop
from .world import FarSide, Handler

SECOND: Final = 1_000_000
MOST: Final = 6
BUDGET: Final = Charge("tenant:t", "calls", 0, 1, MOST, None)


class Base:
    """See the module. `twice` tells whether the answer to each commit is lost, so that its fact comes again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.book = Book(self.folder / "ledger.db")
        self.model = Model(now=1_790_000_000_000_000, limit=MOST)
        self.far_side = FarSide()
        self.twice = False
        self._made = 0
        self.server_starts()
        self.server_starts()

    def close(self) -> None:
        self.book.close()
        shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.model.now

    def living(self) -> list[str]:
        return [owner for owner, lives in self.model.owners.items() if lives]

    def server_starts(self) -> None:
        owner = self.new_id("own")
        self.book.enter(owner, self.now)
        self.model.owners[owner] = True

    def new_id(self, prefix: str) -> str:
        self._made += 1
        return f"{prefix}_{self._made:03d}"

    def attempt(self, owner: str, *, charge: bool) -> Attempt:
        return Attempt(owner, self.now, None, request_open=True, charges=(BUDGET,) if charge else ())

    def expect(self, result: object, stops: list[Stop]) -> None:
        """The ledger's answer is one that the model gives."""
        kind = kind_of(result)
        wanted = {"moved" if stop.kind == "forgotten" else stop.kind for stop in stops} or {"done"}
        assert kind in wanted, f"the ledger says {kind}, the model {wanted}"
        row = getattr(result, "row", None)
        named = [stop.calls for stop in stops if stop.kind == kind and stop.calls]
        if named and row is not None:
            assert row.call_id in named[0], f"{kind} names {row.call_id}, the model {set(named[0])}"

    # What follows in the model.

    def stand(self, call_id: str, ask: Ask, state: str) -> Standing:
        call = Standing(
            call_id, call_id.replace("call", "act"), ask.tool, ask.subject, ask.order, ask.key, state
        )  # fmt: skip
        self.model.calls[call_id] = call
        return call

    def crossed(self, call: Standing, owner: str, *, answered: bool, charge: bool) -> None:
        """T1 was made. `answered`: its commit was told, so that the handler runs."""
        call.crossings.append(
            Crossing(owner, Handler(running=answered), self.book.call(call.call_id).dispatched_at or 0)
        )
        call.state, call.sent, call.outcome, call.owner = "dispatched", "unknown", None, owner
        call.holds, call.open, call.opener = True, True, owner
        call.charged = call.charged or charge
        self.model.used += int(charge)
        self.model.bind(call)

    def ended(
        self, call: Standing, outcome: str, sent: str, by: str, *, effect: bool | None, state: str = "settled"
    ) -> None:
        call.state, call.outcome, call.sent, call.effect = state, outcome, sent, effect
        call.settled_at, call.settled_by, call.holds = self.settled_at(call), by, False
        self.model.retain(call, self.key_expires_at(call))
        if call.charged and sent == "no" and not self.left(call):
            call.charged = False
            self.model.used -= 1

    def left(self, call: Standing) -> bool:
        """True if any attempt was sent, or may have been, as the settlements of the attempts say."""
        found = self.book.rows("SELECT 1 FROM attempts WHERE call_id = ? AND sent IS NOT 'no'", call.call_id)
        return bool(found)

    def settled_at(self, call: Standing) -> int:
        """As the ledger has it: now, or later where the clock was set back."""
        at = self.book.call(call.call_id).settled_at
        assert at is not None
        assert at >= self.now
        return at

    def key_expires_at(self, call: Standing) -> int | None:
        """As the ledger has it: after the retention, or later where the clock was set back."""
        found = self.book.rows("SELECT min(expires_at), max(expires_at) FROM keys WHERE call_id = ?", call.call_id)
        if not found or found[0] == (None, None):
            return None
        assert found[0][0] >= self.now + RETENTION
        assert found[0][0] == found[0][1]
        return int(found[0][0])

    def unknown(self, call: Standing) -> None:
        call.state, call.outcome, call.sent = "awaiting_reconciliation", "ambiguous", "unknown"

    def ends_unsent(self, call: Standing, outcome: str, *, cancelled: bool = False) -> None:
        """A waiting call that is not sent after all: an attempt that nobody knows of stays unknown."""
        if call.sent == "unknown":
            self.unknown(call)
            call.by_decision = False
            return
        state = "settled" if call.crossings or cancelled else "refused"
        self.ended(call, outcome, "no", "execution", effect=False, state=state)

    def close_proposal(self, call: Standing, state: str) -> None:
        found = self.model.proposals.get(call.approval or "")
        if found is not None and found.state in {"pending", "approved"}:
            found.state = state


def kind_of(result: object) -> str:
    """The model's word for what a fact answered."""
    if isinstance(result, Duplicate):
        return result.relation.value
    names: dict[type, str] = {
        Unresolved: "unresolved", Busy: "busy", OverBudget: "over_budget", OwnerLapsed: "lapsed",
        ApprovalGone: "approval_gone", Moved: "moved", LateFound: "late",
        Dispatched: "done", Proposed: "done", Settled: "done",
    }  # fmt: skip
    return names[type(result)]
