"""The ledger's facts in any order, beside a model of what the ledger must say and a world that counts effects.

Each rule carries out one fact, or two as the runtime does, on a real file; often twice, as after a commit whose answer
was lost. After each rule the file must say what the model says, and everything that must never happen has not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterfoil.ledger import owners
from counterfoil.ledger.admission import Busy, Duplicate, OwnerLapsed, Unresolved
from counterfoil.ledger.approving import (
    Decided,
    Decision,
    NotDecided,
    Proposed,
    decide,
    expire,
    join_key,
    propose,
    refuse_waiting,
    repropose,
    withdraw,
)
from counterfoil.ledger.bookkeeping import Delivery, end_handler, mark_delivered, request_cancel, set_request_open
from counterfoil.ledger.check import check
from counterfoil.ledger.dispatching import (
    ApprovalGone,
    Attempt,
    Charge,
    Dispatched,
    LateFound,
    Moved,
    OverBudget,
    dispatch_new,
    dispatch_queued,
    enqueue,
)
from counterfoil.ledger.recovering import (
    abandon,
    attempt_again,
    claim,
    close_orphaned,
    lose,
    note_probe,
    note_word,
    resend,
    resolve,
    take_over,
)
from counterfoil.ledger.settling import Settled, Settlement, observe, settle, take_late
from counterfoil.ledger.states import MOVES, CallState
from counterfoil.ledger.verify import verify_database
from tests.property.book import RETENTION, Book, first_row, neighbours, proposal
from tests.property.fold import fold
from tests.property.model import ENDED, SENT_AND_OPEN, Ask, Binding, Crossing, Model, Proposal, Standing, Stop, conflict
from tests.property.world import DONE, TOOLS, Answer, FarSide, Handler, answers

SECOND: Final = 1_000_000
VALID: Final = 3_600 * SECOND
WITHIN: Final = 1_800 * SECOND
BUDGET: Final = Charge("tenant:t", "calls", 0, 1, 6, None)
PAIRS: Final = {(before.value, after.value) for (before, _), after in MOVES.items()}
WAITING: Final = {"queued", "awaiting_approval"}

asks = st.builds(
    Ask,
    tool=st.sampled_from(TOOLS),
    subject=st.sampled_from(["ann", "ann", "bob"]),
    order=st.sampled_from(["1", "2"]),
    key=st.sampled_from([None, None, "k1", "k2"]),
)
picks = st.integers(0, 15)
flags = st.booleans()


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


class LedgerMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.book = Book(self.folder / "ledger.db")
        self.model = Model(now=1_790_000_000_000_000, limit=BUDGET.limit)
        self.far_side = FarSide()
        self.last_states: dict[str, str] = {}
        self.consumed: dict[str, str] = {}
        self.bound: dict[tuple[str, ...], str] = {}
        self.made = 0

    def teardown(self) -> None:
        try:
            assert verify_database(self.book.path).problems == ()
        finally:
            self.book.close()
            shutil.rmtree(self.folder)

    # Helpers: what there is, and what follows in the model.

    @property
    def now(self) -> int:
        return self.model.now

    def some(self, test: Callable[[Standing], bool]) -> list[Standing]:
        return [one for one in self.model.calls.values() if test(one)]

    def pick(self, n: int, test: Callable[[Standing], bool]) -> Standing:
        found = self.some(test)
        return found[n % len(found)]

    def living(self) -> list[str]:
        return [owner for owner, lives in self.model.owners.items() if lives]

    def new_id(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}_{self.made:03d}"

    def attempt(self, owner: str, *, charge: bool) -> Attempt:
        return Attempt(owner, self.now, None, request_open=True, charges=(BUDGET,) if charge else ())

    def expect(self, result: object, stops: list[Stop]) -> None:
        """The ledger's answer is one that the model gives."""
        kind = kind_of(result)
        wanted = {stop.kind for stop in stops} or {"done"}
        assert kind in wanted, f"the ledger says {kind}, the model {wanted}"
        row = getattr(result, "row", None)
        named = [stop.calls for stop in stops if stop.kind == kind and stop.calls]
        if named and row is not None:
            assert row.call_id in named[0], f"{kind} names {row.call_id}, the model {set(named[0])}"

    def stand(self, call_id: str, ask: Ask, state: str) -> Standing:
        call = Standing(
            call_id, call_id.replace("call", "act"), ask.tool, ask.subject, ask.order, ask.key, state, len(self.model.calls)
        )  # fmt: skip
        self.model.calls[call_id] = call
        return call

    def crossed(self, call: Standing, owner: str, *, answered: bool, charge: bool) -> None:
        """T1 was made. `answered`: its commit was told, so that the handler runs."""
        call.crossings.append(Crossing(owner, Handler(running=answered)))
        call.state, call.sent, call.outcome, call.owner = "dispatched", "unknown", None, owner
        call.holds, call.open = True, True
        call.charged = call.charged or charge
        self.model.used += int(charge)
        self.model.bind(call)

    def ended(
        self, call: Standing, outcome: str, sent: str, by: str, *, effect: bool | None, state: str = "settled"
    ) -> None:
        call.state, call.outcome, call.sent, call.effect = state, outcome, sent, effect
        call.settled_at, call.settled_by, call.holds = self.now, by, False
        self.model.retain(call, self.now + RETENTION)

    def unknown(self, call: Standing) -> None:
        call.state, call.outcome, call.sent = "awaiting_reconciliation", "ambiguous", "unknown"

    def ends_unsent(self, call: Standing, outcome: str, by: str = "execution", *, cancelled: bool = False) -> None:
        """A waiting call that is not sent after all: an attempt that nobody knows of stays unknown."""
        if call.sent == "unknown":
            self.unknown(call)
            call.by_decision = False
            return
        state = "settled" if call.crossings or cancelled else "refused"
        self.ended(call, outcome, "no", by, effect=False, state=state)

    def close_proposal(self, call: Standing, state: str) -> None:
        found = self.model.proposals.get(call.approval or "")
        if found is not None and found.state in {"pending", "approved"}:
            found.state = state

    # Owners and time.

    @initialize()
    def two_servers_start(self) -> None:
        for _ in range(2):
            self.server_starts()

    def server_starts(self) -> None:
        owner = self.new_id("own")
        self.book.enter(owner, self.now)
        self.model.owners[owner] = True

    @rule(n=picks, killed=flags)
    def a_server_lapses(self, n: int, killed: bool) -> None:
        """Killed, its handlers are gone; else it only stood still, and its handlers go on."""
        owner = self.living()[n % 2]
        assert self.book.record(lambda: owners.declare_lapsed(owner, 0, self.now))
        self.model.owners[owner] = False
        for call in self.model.calls.values():
            for crossing in call.crossings:
                if crossing.owner == owner and killed:
                    crossing.handler.running = False
        self.server_starts()

    @rule(step=st.sampled_from([1, 400, 2_000, 4_000, 90_000, -5, -1_000]))
    def the_clock_moves(self, step: int) -> None:
        self.model.now += step * SECOND

    # Requests.

    @rule(ask=asks, charge=flags, answered=st.sampled_from([True, True, True, False]), wait=flags, twice=flags)
    def somebody_asks(self, ask: Ask, charge: bool, answered: bool, wait: bool, twice: bool) -> None:
        if ask.tool.approval:
            self._asks_for_approval(ask, wait=wait, twice=twice)
            return
        call_id, owner = self.new_id("call"), self.living()[0]
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments = self.book.seal(call_id, call_id, ask.order)
        attempt = self.attempt(owner, charge=charge)
        stops = self.model.stops(ask, charge=charge)
        result = self.book.record(lambda: dispatch_new(row, who, arguments, attempt), twice=twice)
        self.expect(result, stops)
        if isinstance(result, Dispatched):
            self.crossed(self.stand(call_id, ask, "dispatched"), owner, answered=answered, charge=charge)
        elif isinstance(result, Busy) and wait:
            queued = self.book.record(lambda: enqueue(row._replace(owner_id=owner), who, arguments), twice=twice)
            assert not isinstance(queued, Duplicate | Unresolved)
            self.stand(call_id, ask, "queued").owner = owner
        elif isinstance(result, Duplicate):
            self._joins(result, ask, wait=wait, twice=twice)

    def _asks_for_approval(self, ask: Ask, *, wait: bool, twice: bool) -> None:
        call_id, approval_id = self.new_id("call"), self.new_id("apr")
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments = self.book.seal(call_id, call_id, ask.order)
        approval = proposal(approval_id, call_id, ask, self.now, VALID, WITHIN)
        stops = [stop for stop in self.model.stops(ask, charge=False) if stop.kind != "busy"]
        result = self.book.record(lambda: propose(row, who, arguments, approval, pending_max=99), twice=twice)
        self.expect(result, stops)
        if isinstance(result, Proposed):
            self.stand(call_id, ask, "awaiting_approval").approval = approval_id
            self._proposed(approval_id, call_id)
        elif isinstance(result, Duplicate):
            self._joins(result, ask, wait=wait, twice=twice)

    def _proposed(self, approval_id: str, call_id: str) -> None:
        self.model.proposals[approval_id] = Proposal(approval_id, call_id, self.now + VALID, WITHIN)

    def _joins(self, found: Duplicate, ask: Ask, *, wait: bool, twice: bool) -> None:
        call = self.model.calls[found.row.call_id]
        relation = found.relation.value
        if relation == "again":
            owner = self.living()[0]
            assert self.book.record(lambda: attempt_again(call.call_id, owner, self.now), twice=twice) is not None
            call.state, call.outcome, call.owner, call.by_decision = "queued", None, owner, False
            call.open, call.delivered, call.cancelled, call.settled_at, call.settled_by = True, False, False, None, None
            self.model.retain(call, None)
        elif relation == "join" and call.state == "awaiting_approval":
            key = ask.key
            if key is not None:
                self.book.record(lambda: join_key(call.call_id, key, self.now), twice=twice)
                if call.key is None:
                    call.key = key
                    if call.crossings:
                        self.model.bind(call)
        elif relation in {"join", "replay"} and wait:
            self.book.record(lambda: set_request_open(call.call_id, open_=True), twice=twice)
            call.open = True

    @rule(ask=asks, answer=st.sampled_from([*answers(TOOLS[-1], Handler(running=True))]), twice=flags)
    def a_closed_world_read_is_recorded(self, ask: Ask, answer: Answer, twice: bool) -> None:
        ask = ask._replace(tool=TOOLS[-1])
        call_id, owner = self.new_id("call"), self.living()[0]
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments, said = self.book.seal(call_id, call_id, ask.order), answer.settlement(self.now)
        stops = self.model.stops(ask, charge=False)
        result = self.book.record(lambda: observe(row, who, arguments, said, owner, ()), twice=twice)
        self.expect(result, stops)
        if isinstance(result, Settled):
            call = self.stand(call_id, ask, "settled")
            call.owner = owner
            call.crossings.append(Crossing(owner, Handler(running=False), known=answer.happened))
            self.model.bind(call)
            self.ended(call, answer.outcome, answer.sent, "execution", effect=answer.happened)

    # Decisions.

    @precondition(lambda self: self.model.proposals)
    @rule(n=picks, approve=st.sampled_from([True, True, True, False]), twice=flags)
    def a_person_decides(self, n: int, approve: bool, twice: bool) -> None:
        found = [*self.model.proposals.values()][-1 - n % len(self.model.proposals)]
        call = self.model.calls[found.call_id]
        said = Decision(approve=approve, by="eve", strength="same_user", via="cli", at=self.now)
        result = self.book.record(lambda: decide(found.approval_id, said), twice=twice)
        if found.state != "pending" or self.now > found.expires_at:
            assert isinstance(result, NotDecided)
            if found.state == "pending":
                found.state = "expired"
                self.ends_unsent(call, "denied")
            return
        assert isinstance(result, Decided)
        found.state = "approved" if approve else "rejected"
        if approve:
            found.execute_until = self.now + found.within
            call.state, call.by_decision, call.owner = "queued", True, None
        else:
            self.ends_unsent(call, "denied")

    @precondition(lambda self: self.model.proposals)
    @rule(n=picks, twice=flags)
    def the_sweep_looks_for_an_expired_proposal(self, n: int, twice: bool) -> None:
        found = [*self.model.proposals.values()][n % len(self.model.proposals)]
        self.book.record(lambda: expire(found.approval_id, self.now), twice=twice)
        if found.state == "pending" and self.now > found.expires_at:
            found.state = "expired"
            self.ends_unsent(self.model.calls[found.call_id], "denied")

    def _fresh_proposal(self, call: Standing, *, absent: bool, twice: bool) -> None:
        approval_id = self.new_id("apr")
        ask = Ask(call.tool, call.subject, call.order, call.key)
        approval = proposal(approval_id, call.call_id, ask, self.now, VALID, WITHIN)
        done = self.book.record(lambda: repropose(call.call_id, approval, "why", self.now, absent=absent), twice=twice)
        assert done is not None
        self.close_proposal(call, "superseded")
        self._proposed(approval_id, call.call_id)
        call.state, call.outcome, call.approval = "awaiting_approval", None, approval_id
        call.by_decision, call.open, call.cancelled = False, False, False

    @precondition(lambda self: self.some(lambda one: one.state == "queued"))
    @rule(n=picks, twice=flags)
    def a_queued_call_needs_a_fresh_proposal(self, n: int, twice: bool) -> None:
        self._fresh_proposal(self.pick(n, lambda one: one.state == "queued"), absent=False, twice=twice)

    @precondition(lambda self: self.some(lambda one: one.state in WAITING))
    @rule(n=picks, twice=flags)
    def a_waiting_call_is_withdrawn(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state in WAITING)
        assert self.book.record(lambda: withdraw(call.call_id, "ann", "no", self.now), twice=twice) is not None
        self.close_proposal(call, "revoked")
        if call.sent != "unknown":
            call.cancelled = True
        self.ends_unsent(call, "permanent_failure", cancelled=True)

    @precondition(lambda self: self.some(lambda one: one.state in WAITING))
    @rule(n=picks, twice=flags)
    def a_waiting_call_is_refused(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state in WAITING)
        done = self.book.record(
            lambda: refuse_waiting(call.call_id, "held", "denied", "on hold", {}, self.now), twice=twice
        )
        assert done is not None
        self.close_proposal(call, "revoked")
        self.ends_unsent(call, "denied")

    # Sending.

    @precondition(lambda self: self.some(lambda one: one.state == "queued" and one.owner is None))
    @rule(n=picks, m=picks, twice=flags)
    def a_server_claims(self, n: int, m: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "queued" and one.owner is None)
        owner = self.living()[m % 2]
        assert self.book.record(lambda: claim(call.call_id, owner, self.now), twice=twice) is not None
        call.owner = owner

    @precondition(lambda self: self.some(lambda one: one.state == "queued" and one.owner is not None))
    @rule(n=picks, charge=flags, answered=st.sampled_from([True, True, True, False]), twice=flags)
    def a_queued_call_is_sent(self, n: int, charge: bool, answered: bool, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "queued" and one.owner is not None)
        owner = call.owner or ""
        digest = f"digest of {call.approval}" if call.approval else None
        siblings = not call.tool.is_read and not call.resources
        attempt = self.attempt(owner, charge=charge)
        stops = self._stops_sending(call, charge=charge)
        result = self.book.record(
            lambda: dispatch_queued(call.call_id, attempt, digest=digest, siblings=siblings), twice=twice
        )
        self.expect(result, stops)
        if isinstance(result, Dispatched):
            if call.approval is not None:
                self.model.proposals[call.approval].state = "consumed"
            self.crossed(call, owner, answered=answered, charge=charge and not call.crossings)

    def _stops_sending(self, call: Standing, *, charge: bool) -> list[Stop]:
        if call.cancelled:
            return [Stop("moved", frozenset())]
        if not self.model.owners[call.owner or ""]:
            return [Stop("lapsed", frozenset())]
        if call.crossings and call.late_answer() is not None:
            return [Stop("late", frozenset())]
        found = self.model.proposals.get(call.approval or "")
        if found is not None:
            usable = found.state == "approved" or (found.state == "consumed" and call.crossings)
            if not usable or self.now > (found.execute_until or 0):
                return [Stop("approval_gone", frozenset())]
        bound = self.model.keys.get((call.subject, call.tool.name, call.key or ""))
        if call.key is not None and bound is not None and bound.call_id != call.call_id:
            return [Stop("conflict", frozenset({bound.call_id}))]
        stops = self.model.neighbours(call.tool, call.subject, call.resources, mine=call.call_id)
        if not stops and charge and not call.crossings and self.model.used + 1 > BUDGET.limit:
            return [Stop("over_budget", frozenset())]
        return stops

    # What happens outside, and what comes back.

    def _running(self) -> list[tuple[Standing, int, Crossing]]:
        return [
            (call, number, crossing)
            for call in self.model.calls.values()
            for number, crossing in enumerate(call.crossings, 1)
            if crossing.handler.running
        ]

    @precondition(lambda self: self._running())
    @rule(n=picks)
    def the_effect_happens(self, n: int) -> None:
        running = self._running()
        call, _, crossing = running[n % len(running)]
        if not crossing.handler.acted:
            crossing.handler.acted = True
            self.far_side.act(call.tool, call.action_id)

    @precondition(lambda self: self._running())
    @rule(n=picks, which=picks, retry=flags, ends=flags, refund=flags, twice=flags)
    def a_handler_reports(self, n: int, which: int, retry: bool, ends: bool, refund: bool, twice: bool) -> None:
        running = self._running()
        call, number, crossing = running[n % len(running)]
        possible = answers(call.tool, crossing.handler)
        answer = possible[which % len(possible)]
        ends = ends or answer.outcome != "ambiguous"
        retry = retry and answer.outcome == "retryable_failure"
        back = refund and call.charged and answer.sent == "no" and self.model.used > 0
        said = answer.settlement(self.now)
        if answer.happened:
            said = self._with_output(said, call)
        current = call.state == "dispatched" and number == len(call.crossings)
        self.book.record(
            lambda: settle(
                call.call_id, number, said, retry_at=self.now if retry else None, handler_ended=ends,
                refunds=((BUDGET, 1),) if back else (),
            ),
            twice=twice,
        )  # fmt: skip
        crossing.handler.running = not ends
        if not current:
            self._late(call, crossing, answer)
            return
        if back:
            call.charged = False
            self.model.used -= 1
        crossing.known = answer.happened
        self._settles(call, crossing, answer, retry=retry)

    def _with_output(self, said: Settlement, call: Standing) -> Settlement:
        sealed = self.book.seal(self.new_id("out"), call.call_id, "output", "output")
        return Settlement(said.outcome, said.sent, said.at, by=said.by, output=sealed)

    def _settles(self, call: Standing, crossing: Crossing, answer: Answer, *, retry: bool) -> None:
        in_doubt = not call.tool.is_read and not call.others_known_absent(crossing)
        if retry and answer.happened is False and not call.cancelled:
            call.state, call.outcome, call.sent = "queued", None, "unknown" if in_doubt else "no"
        elif answer.outcome == "ambiguous" or (answer.happened is False and in_doubt):
            self.unknown(call)
        else:
            self.ended(call, answer.outcome, answer.sent, "execution", effect=answer.happened)

    def _late(self, call: Standing, crossing: Crossing, answer: Answer) -> None:
        crossing.late = (answer.outcome, answer.sent, answer.happened)
        if self._contradiction(call) and call.settled_by in {"person", "probe"}:
            self.unknown(call)
            call.settled_at, call.settled_by, call.delivered, call.effect = None, None, False, None
            call.holds, call.reopened = True, True
            self.model.retain(call, None)

    def _contradiction(self, call: Standing) -> bool:
        """Late evidence says of the call's effect what its settled row denies."""
        if call.state not in ENDED or call.tool.is_read or call.effect is None:
            return False
        lates = [crossing.late[2] for crossing in call.crossings if crossing.late is not None]
        if call.effect is False:
            return True in lates
        return False in lates and all(crossing.happened is False for crossing in call.crossings)

    @precondition(lambda self: self._running())
    @rule(n=picks, twice=flags)
    def a_handler_ends_without_a_word(self, n: int, twice: bool) -> None:
        running = self._running()
        call, number, crossing = running[n % len(running)]
        if call.state == "dispatched" and number == len(call.crossings):
            return
        self.book.record(lambda: end_handler(call.call_id, number, self.now), twice=twice)
        crossing.handler.running = False

    # Owners that are gone, answers that were lost.

    @precondition(lambda self: self.some(self._orphaned))
    @rule(n=picks, twice=flags)
    def a_server_takes_over(self, n: int, twice: bool) -> None:
        call, owner = self.pick(n, self._orphaned), self.living()[0]
        assert self.book.record(lambda: take_over(call.call_id, owner, self.now), twice=twice) is not None
        if call.state == "dispatched":
            call.owner, call.open = owner, False
            self.unknown(call)
        elif call.by_decision or call.sent == "unknown":
            call.owner, call.open = owner, False
        else:
            self._abandoned(call)

    def _orphaned(self, one: Standing) -> bool:
        return one.state in {"dispatched", "queued"} and one.owner is not None and not self.model.owners[one.owner]

    def _abandoned(self, call: Standing) -> None:
        retryable = call.state == "queued" and call.crossings
        call.open = False
        self.ended(call, "retryable_failure" if retryable else "permanent_failure", "no", "recovery", effect=False)

    @precondition(lambda self: self.some(lambda one: one.state in {"dispatched", "queued"} and one.owner is not None))
    @rule(n=picks, twice=flags)
    def a_server_finds_a_call_that_it_does_not_follow(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state in {"dispatched", "queued"} and one.owner is not None)
        owner = call.owner or ""
        handler = call.crossings[-1].handler if call.crossings else Handler(running=False)
        if call.state == "dispatched" and (handler.running or handler.acted):
            assert self.book.record(lambda: lose(call.call_id, owner, self.now), twice=twice) is not None
            call.open = False
            self.unknown(call)
            return
        assert self.book.record(lambda: abandon(call.call_id, owner, self.now), twice=twice) is not None
        if call.state == "dispatched":
            call.crossings[-1].known = False
            if call.tool.is_read or call.others_known_absent(call.crossings[-1]):
                self._abandoned(call)
            else:
                call.open = False
                self.unknown(call)
        elif call.by_decision or call.sent == "unknown":
            call.owner = None
        else:
            self._abandoned(call)

    @rule(twice=flags)
    def requests_of_gone_servers_are_closed(self, twice: bool) -> None:
        self.book.record(close_orphaned, twice=twice)
        for call in self.model.calls.values():
            if call.owner is not None and not self.model.owners[call.owner]:
                call.open = False

    @precondition(lambda self: self.some(lambda one: bool(one.crossings)))
    @rule(n=picks, twice=flags)
    def the_sweep_reads_late_evidence(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: bool(one.crossings))
        may = call.state in {"awaiting_reconciliation", "queued"}
        told = call.late_answer() if may else None
        done = self.book.record(lambda: take_late(call.call_id, self.now), twice=twice)
        assert (done is not None) == (told is not None)
        if told is not None and told.late is not None:
            self.close_proposal(call, "revoked")
            self.ended(call, told.late[0], told.late[1], "late", effect=told.late[2])

    # Reconciling.

    @precondition(lambda self: self.some(lambda one: one.state == "awaiting_reconciliation"))
    @rule(n=picks, answer=st.sampled_from(["happened", "absent", "pending", "unknown"]), twice=flags)
    def a_probe_answers(self, n: int, answer: str, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "awaiting_reconciliation")
        there = self.far_side.effects[call.action_id] > 0
        if answer in {"happened", "absent"}:
            answer = "happened" if there else "absent"
        revision = self.book.call(call.call_id).revision
        noted = self.book.record(
            lambda: note_probe(call.call_id, revision, answer, "call_probe", self.now), twice=twice
        )
        assert noted is not None
        if answer == "happened":
            said = Settlement("success", "yes", self.now, by="probe")
            assert self.book.record(lambda: resolve(call.call_id, noted.revision, said), twice=twice) is not None
            self.ended(call, "success", "yes", "probe", effect=True)

    @precondition(lambda self: self.some(lambda one: one.state == "awaiting_reconciliation"))
    @rule(n=picks, happened=flags, twice=flags)
    def a_person_says_what_happened(self, n: int, happened: bool, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "awaiting_reconciliation")
        said = DONE[0].settlement(self.now, "person")
        if not happened:
            said = Settlement(
                "permanent_failure", "unknown", self.now, by="person", code="tool_failed", details={"effect": "none"}
            )
        revision = self.book.call(call.call_id).revision
        done = self.book.record(lambda: resolve(call.call_id, revision, said, word={"by": "eve"}), twice=twice)
        assert done is not None
        self.ended(call, said.outcome, said.sent, "person", effect=happened)

    @precondition(lambda self: self.some(lambda one: one.state == "awaiting_reconciliation"))
    @rule(n=picks, twice=flags)
    def a_person_says_not_happened_retry(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "awaiting_reconciliation")
        revision = self.book.call(call.call_id).revision
        noted = self.book.record(lambda: note_word(call.call_id, revision, {"by": "eve"}, self.now), twice=twice)
        assert noted is not None
        call.retries_by_word += 1
        self._send_again(call, noted.revision, absent=True, twice=twice)

    @precondition(lambda self: self.some(lambda one: one.state == "awaiting_reconciliation" and one.tool.keyed))
    @rule(n=picks, twice=flags)
    def a_key_makes_sending_again_safe(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state == "awaiting_reconciliation" and one.tool.keyed)
        self._send_again(call, self.book.call(call.call_id).revision, absent=False, twice=twice)

    @precondition(lambda self: self.some(self._over_for_good))
    @rule(n=picks, twice=flags)
    def an_absent_effect_can_no_longer_appear(self, n: int, twice: bool) -> None:
        call = self.pick(n, self._over_for_good)
        self._send_again(call, self.book.call(call.call_id).revision, absent=True, twice=twice)

    def _over_for_good(self, one: Standing) -> bool:
        """What `settle_s` promises: every handler is at its end, and the probe finds nothing."""
        return (
            one.state == "awaiting_reconciliation"
            and not any(crossing.handler.running for crossing in one.crossings)
            and self.far_side.effects[one.action_id] == 0
        )

    def _send_again(self, call: Standing, revision: int, *, absent: bool, twice: bool) -> None:
        owner = self.living()[0]
        if call.approval is not None:
            self._fresh_proposal(call, absent=absent, twice=twice)
        else:
            done = self.book.record(
                lambda: resend(call.call_id, revision, owner, self.now, {"why": "it is safe"}, absent=absent),
                twice=twice,
            )
            if call.cancelled and not absent:
                assert done is None
                return
            assert done is not None
            call.state, call.outcome, call.owner, call.by_decision = "queued", None, owner, True
            call.cancelled = False
        if absent:
            for crossing in call.crossings:
                crossing.known = False if crossing.known is None else crossing.known

    # Requests that come and go.

    @precondition(lambda self: self.some(lambda one: one.state in SENT_AND_OPEN))
    @rule(n=picks, twice=flags)
    def somebody_asks_to_cancel(self, n: int, twice: bool) -> None:
        call = self.pick(n, lambda one: one.state in SENT_AND_OPEN)
        self.book.record(lambda: request_cancel(call.call_id, "ann", "enough", self.now), twice=twice)
        call.cancelled = True

    @precondition(lambda self: self.model.calls)
    @rule(n=picks, twice=flags)
    def a_view_is_delivered(self, n: int, twice: bool) -> None:
        """It showed the call settled; meanwhile the call may have moved on."""
        call = self.pick(n, lambda _: True)
        self.book.record(lambda: mark_delivered([Delivery(call.call_id, self.now)]), twice=twice)
        if call.settled_at is not None:
            call.open = call.open and call.delivered
            call.delivered = True

    @precondition(lambda self: self.model.calls)
    @rule(n=picks, open_=flags, twice=flags)
    def a_request_opens_or_closes(self, n: int, open_: bool, twice: bool) -> None:
        call = self.pick(n, lambda _: True)
        self.book.record(lambda: set_request_open(call.call_id, open_=open_), twice=twice)
        call.open = open_

    # What must hold, always.

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        for call in self.model.calls.values():
            row = self.book.call(call.call_id)
            there: dict[str, Any] = {
                "state": row.state, "outcome": row.outcome, "sent": row.sent, "attempts": row.attempts,
                "generation": row.generation, "owner": row.owner_id, "by_decision": bool(row.by_decision),
                "key": row.key, "approval": row.approval_id, "open": bool(row.request_open),
                "delivered": row.delivered_at is not None, "settled": row.settled_at is not None,
                "cancelled": row.cancel_requested_at is not None,
            }  # fmt: skip
            expected = {
                "state": call.state, "outcome": call.outcome, "sent": call.sent, "attempts": len(call.crossings),
                "generation": len(call.crossings), "owner": call.owner, "by_decision": call.by_decision,
                "key": call.key, "approval": call.approval, "open": call.open,
                "delivered": call.delivered, "settled": call.settled_at is not None, "cancelled": call.cancelled,
            }  # fmt: skip
            assert there == expected, call.call_id
        assert len(self.book.rows("SELECT call_id FROM calls")) == len(self.model.calls)

    @invariant()
    def each_state_was_reached_by_a_legal_move(self) -> None:
        for call in self.model.calls.values():
            before = self.last_states.get(call.call_id, CallState.NEW.value)
            assert before == call.state or (before, call.state) in PAIRS, (call.call_id, before, call.state)
            self.last_states[call.call_id] = call.state

    @invariant()
    def the_events_of_a_call_give_its_row(self) -> None:
        for call in self.model.calls.values():
            folded, row = fold(self.book.events(call.call_id)), self.book.call(call.call_id)
            assert (folded.state, folded.outcome, folded.attempts) == (row.state, row.outcome, row.attempts)

    @invariant()
    def a_keyless_effect_happens_once_unless_a_person_said_that_it_had_not(self) -> None:
        for call in self.model.calls.values():
            assert self.far_side.effects[call.action_id] <= 1 + (0 if call.tool.keyed else call.retries_by_word)

    @invariant()
    def nothing_is_said_of_an_effect_that_is_not_so(self) -> None:
        """Unless a person said it, who may be wrong."""
        for call in self.model.calls.values():
            if call.state not in ENDED or call.tool.is_read or call.settled_by == "person" or call.retries_by_word:
                continue
            if call.effect is not None:
                assert (self.far_side.effects[call.action_id] > 0) == call.effect, call.call_id

    @invariant()
    def leases_are_held_by_those_that_may_act_and_exclude_the_others(self) -> None:
        there = set(self.book.rows("SELECT resource, call_id, shared FROM leases"))
        expected = {
            (key.removeprefix("shared:"), call.call_id, int(key.startswith("shared:")))
            for call in self.model.calls.values()
            if call.holds
            for key in call.resources
        }
        assert there == expected
        under_way = self.some(lambda one: one.state in SENT_AND_OPEN and not one.reopened)
        for place, one in enumerate(under_way):
            for other in under_way[place + 1 :]:
                assert not conflict(one.resources, other.resources), (one.call_id, other.call_id)

    @invariant()
    def a_key_belongs_to_one_call_for_good(self) -> None:
        there = {
            (subject, tool, key): Binding(call_id, order, expires)
            for subject, tool, key, call_id, order, expires in self.book.rows(
                "SELECT subject, tool, key, call_id, args_digest, expires_at FROM keys"
            )
        }
        assert there == self.model.keys
        for name, binding in there.items():
            assert self.bound.setdefault(name, binding.call_id) == binding.call_id
            assert self.model.calls[binding.call_id].order == binding.order

    @invariant()
    def an_approval_is_consumed_once_by_its_own_call(self) -> None:
        for approval_id, state, call_id in self.book.rows("SELECT approval_id, state, call_id FROM approvals"):
            found = self.model.proposals[approval_id]
            assert (state, call_id) == (found.state, found.call_id), approval_id
            if approval_id in self.consumed:
                assert state == "consumed"
            if state == "consumed":
                assert self.consumed.setdefault(approval_id, call_id) == call_id
        consumed = [*self.consumed.values()]
        for call in self.model.calls.values():
            assert consumed.count(call.call_id) <= len(call.crossings)

    @invariant()
    def a_budget_is_never_overdrawn(self) -> None:
        used = self.book.rows("SELECT used FROM budgets")
        assert used == ([(self.model.used,)] if used else [])
        assert 0 <= self.model.used <= BUDGET.limit

    @invariant()
    def the_check_finds_nothing_but_contradictions(self) -> None:
        contradicted = {call.call_id for call in self.model.calls.values() if self._contradiction(call)}
        breaches = check(self.book.path).breaches
        assert {breach.row.partition("/")[0] for breach in breaches if breach.rule == "late_agrees"} == contradicted
        assert [breach for breach in breaches if breach.rule != "late_agrees"] == []


TestLedgerModel = pytest.mark.time_limit(60)(LedgerMachine.TestCase)
TestLedgerModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
