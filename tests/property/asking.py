"""Requests, decisions about them, and their dispatch: each step on the real ledger and in the model."""

from __future__ import annotations

from typing import Final

from counterfoil.ledger.admission import Busy, Duplicate, Unresolved
from counterfoil.ledger.approving import (
    Decided,
    Decision,
    NotDecided,
    decide,
    expire,
    join_key,
    refuse_waiting,
    withdraw,
)
from counterfoil.ledger.bookkeeping import close_request, open_request
from counterfoil.ledger.dispatching import Dispatched, dispatch_new, dispatch_queued, enqueue
from counterfoil.ledger.proposals import Hindered, Proposed, Waiter, propose, repropose
from counterfoil.ledger.recovering import attempt_again, claim
from counterfoil.ledger.settling import Settled, observe

from .base import MOST, SECOND, Base
from .book import RETENTION, first_row, neighbours, proposal
from .model import Ask, Crossing, Proposal, Standing, Stop
from .world import TOOLS, Answer, Handler

VALID: Final = 3_600 * SECOND
WITHIN: Final = 1_800 * SECOND
CLOSED_READ: Final = next(tool for tool in TOOLS if tool.is_read and not tool.resources)


class Asking(Base):
    """See the module."""

    def asks(self, ask: Ask, *, charge: bool = False, answered: bool = True, wait: bool = True) -> Standing | None:
        """A request. `answered`: its commit is told to the server; `wait`: it waits for a busy or joined call."""
        if ask.tool.approval:
            return self._asks_for_approval(ask, wait=wait)
        call_id, owner = self.new_id("call"), self.living()[0]
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments = self.book.seal(call_id, call_id, ask.order)
        attempt = self.attempt(owner, charge=charge)
        stops = self.model.stops(ask, charge=charge)
        result = self.book.record(lambda: dispatch_new(row, who, arguments, attempt), twice=self.twice)
        self.expect(result, stops)
        if isinstance(result, Dispatched):
            call = self.stand(call_id, ask, "dispatched")
            self.crossed(call, owner, answered=answered, charge=charge)
            return call
        if isinstance(result, Busy) and wait:
            queued = self.book.record(lambda: enqueue(row._replace(owner_id=owner), who, arguments), twice=self.twice)
            assert not isinstance(queued, Duplicate | Unresolved)
            call = self.stand(call_id, ask, "queued")
            call.owner = owner
            return call
        return self._joins(result, ask, wait=wait) if isinstance(result, Duplicate) else None

    def _asks_for_approval(self, ask: Ask, *, wait: bool) -> Standing | None:
        call_id, approval_id = self.new_id("call"), self.new_id("apr")
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments = self.book.seal(call_id, call_id, ask.order)
        approval = proposal(approval_id, call_id, ask, self.now, VALID, WITHIN)
        stops = [stop for stop in self.model.stops(ask, charge=False) if stop.kind != "busy"]
        result = self.book.record(
            lambda: propose([Waiter(row, approval.digest, who, arguments)], approval, pending_max=99), twice=self.twice
        )
        self.expect(result.by if isinstance(result, Hindered) else result, stops)
        if isinstance(result, Proposed):
            call = self.stand(call_id, ask, "awaiting_approval")
            call.approval = approval_id
            self._proposed(approval_id, call_id)
            return call
        if isinstance(result, Hindered) and isinstance(result.by, Duplicate):
            return self._joins(result.by, ask, wait=wait)
        return None

    def _proposed(self, approval_id: str, call_id: str) -> None:
        self.model.proposals[approval_id] = Proposal(approval_id, call_id, self.now, self.now + VALID, WITHIN)

    def _joins(self, found: Duplicate, ask: Ask, *, wait: bool) -> Standing:
        call = self.model.calls[found.row.call_id]
        relation = found.relation.value
        if relation == "again":
            self._again(call)
        elif relation == "join" and call.state == "awaiting_approval":
            key = ask.key
            if key is not None:
                self.book.record(lambda: join_key(call.call_id, key, self.now), twice=self.twice)
                if call.key is None:
                    call.key = key
                    if call.crossings:
                        self.model.bind(call)
        elif relation in {"join", "replay"} and wait:
            self.request(call, open_=True)
        return call

    def _again(self, call: Standing) -> None:
        owner = self.living()[0]
        assert self.book.record(lambda: attempt_again(call.call_id, owner, self.now), twice=self.twice) is not None
        call.state, call.outcome, call.owner, call.by_decision = "queued", None, owner, False
        call.open, call.delivered, call.cancelled, call.settled_at, call.settled_by = True, False, False, None, None
        call.opener = owner
        self.model.retain(call, None)

    def request(self, call: Standing, *, open_: bool) -> None:
        """A request begins or ends to wait for a call."""
        owner = self.living()[0]
        if open_ and call.open:
            return
        if open_:
            self.book.record(lambda: open_request(call.call_id, owner), twice=self.twice)
            call.opener = owner
        else:
            holder = call.opener or owner
            self.book.record(lambda: close_request(call.call_id, holder), twice=self.twice)
        call.open = open_

    def reads(self, ask: Ask, answer: Answer) -> None:
        """A closed-world read, recorded after it ran."""
        ask = ask._replace(tool=CLOSED_READ)
        call_id, owner = self.new_id("call"), self.living()[0]
        row, who = first_row(call_id, ask, self.now), neighbours(ask, self.now)
        arguments, said = self.book.seal(call_id, call_id, ask.order), answer.settlement(self.now)
        stops = self.model.stops(ask, charge=False)
        result = self.book.record(lambda: observe(row, who, arguments, said, owner, ()), twice=self.twice)
        self.expect(result, stops)
        if isinstance(result, Settled):
            call = self.stand(call_id, ask, "settled")
            call.owner = owner
            call.crossings.append(Crossing(owner, Handler(running=False), self.now, known=answer.happened))
            self.model.bind(call)
            self.ended(call, answer.outcome, answer.sent, "execution", effect=answer.happened)

    # Decisions.

    def decides(self, found: Proposal, *, approve: bool = True, claims: bool = True) -> None:
        """A person decides; `claims`: a server that is there takes up what was approved."""
        call = self.model.calls[found.call_id]
        said = Decision(approve=approve, by="eve", strength="same_user", via="cli", at=self.now)
        result = self.book.record(lambda: decide(found.approval_id, said), twice=self.twice)
        if found.state != "pending" or self.now > found.expires_at:
            assert isinstance(result, NotDecided)
            self._expired(found)
            return
        assert isinstance(result, Decided)
        found.state = "approved" if approve else "rejected"
        if not approve:
            self.ends_unsent(call, "denied")
            return
        found.execute_until = max(self.now, found.requested_at) + found.within
        call.state, call.by_decision, call.owner = "queued", True, None
        if claims:
            self.claims(call)

    def approves(self, call: Standing) -> None:
        """A person approves the proposal of a call."""
        self.decides(self.model.proposals[call.approval or ""])

    def expires(self, found: Proposal) -> None:
        """The sweep looks at a proposal."""
        self.book.record(lambda: expire(found.approval_id, self.now), twice=self.twice)
        if self.now > found.expires_at:
            self._expired(found)

    def _expired(self, found: Proposal) -> None:
        if found.state == "pending":
            found.state = "expired"
            self.ends_unsent(self.model.calls[found.call_id], "denied")

    def needs_a_fresh_proposal(self, call: Standing) -> None:
        """What was decided no longer covers what would be sent."""
        approval_id = self.new_id("apr")
        ask = Ask(call.tool, call.subject, call.order, call.key)
        approval = proposal(approval_id, call.call_id, ask, self.now, VALID, WITHIN)
        done = self.book.record(lambda: repropose(call.call_id, approval, "why", self.now), twice=self.twice)
        stops = self._hinders(call)
        if stops:
            assert isinstance(done, Hindered)
            assert isinstance(done.by, Unresolved)
            assert done.by.row.call_id in stops
            return
        assert isinstance(done, Proposed)
        self.close_proposal(call, "superseded")
        self._proposed(approval_id, call.call_id)
        call.state, call.outcome, call.approval = "awaiting_approval", None, approval_id
        call.by_decision, call.open, call.cancelled = False, False, False

    def _hinders(self, call: Standing) -> frozenset[str]:
        """The calls of which nobody knows that keep a fresh proposal from being made; one of which nobody knows itself
        waits for none, and a further attempt is no new intent.
        """
        if call.sent == "unknown" or (call.crossings and not call.resources):
            return frozenset()
        found = self.model.neighbours(call.tool, call.subject, call.resources, mine=call.call_id)
        return frozenset[str]().union(*(stop.calls for stop in found if stop.kind == "unresolved"))

    def withdraws(self, call: Standing) -> None:
        """A waiting call is cancelled."""
        assert self.book.record(lambda: withdraw(call.call_id, "ann", "no", self.now), twice=self.twice) is not None
        self.close_proposal(call, "revoked")
        if call.sent != "unknown":
            call.cancelled = True
        self.ends_unsent(call, "permanent_failure", cancelled=True)

    def refuses(self, call: Standing) -> None:
        """A rule says no to a waiting call."""
        done = self.book.record(
            lambda: refuse_waiting(call.call_id, "held", "denied", "on hold", {}, self.now), twice=self.twice
        )
        assert done is not None
        self.close_proposal(call, "revoked")
        self.ends_unsent(call, "denied")

    # Sending.

    def claims(self, call: Standing, n: int = 0) -> None:
        """A server takes up a queued call that nobody owns."""
        owner = self.living()[n % 2]
        assert self.book.record(lambda: claim(call.call_id, owner, self.now), twice=self.twice) is not None
        call.owner = owner

    def sends(self, call: Standing, *, charge: bool = False, answered: bool = True) -> bool:
        """T1 of a queued call, or whatever stands in its way; whether it was made."""
        owner = call.owner or ""
        digest = f"digest of {call.approval}" if call.approval else None
        siblings = not call.tool.is_read and not call.resources
        attempt = self.attempt(owner, charge=charge)
        stops = self._stops_sending(call, charge=charge)
        result = self.book.record(
            lambda: dispatch_queued(call.call_id, attempt, digest=digest, siblings=siblings), twice=self.twice
        )
        self.expect(result, stops)
        if not isinstance(result, Dispatched):
            if stops[0].kind == "forgotten":
                self.unknown(call)
                call.by_decision = False
            return False
        if call.approval is not None:
            self.model.proposals[call.approval].state = "consumed"
        self.crossed(call, owner, answered=answered, charge=charge and not call.charged)
        return True

    def _stops_sending(self, call: Standing, *, charge: bool) -> list[Stop]:  # noqa: PLR0911 (one a guard)
        nobody: frozenset[str] = frozenset()
        if call.cancelled:
            return [Stop("moved", nobody)]
        if not self.model.owners[call.owner or ""]:
            return [Stop("lapsed", nobody)]
        if call.late_answer() is not None:
            return [Stop("late", nobody)]
        if self._key_is_forgotten(call):
            return [Stop("forgotten", nobody)]
        if not self._approved(call):
            return [Stop("approval_gone", nobody)]
        bound = self.model.keys.get((call.subject, call.tool.name, call.key or ""))
        if bound is not None and bound.call_id != call.call_id:
            return [Stop("conflict", frozenset({bound.call_id}))]
        stops = self.model.neighbours(call.tool, call.subject, call.resources, mine=call.call_id)
        if not stops and charge and not call.charged and self.model.used + 1 > MOST:
            return [Stop("over_budget", nobody)]
        return stops

    def _key_is_forgotten(self, call: Standing) -> bool:
        """An attempt is in doubt, and the far side keeps the key that makes another one harmless no longer."""
        doubt = not call.tool.is_read and any(crossing.happened is not False for crossing in call.crossings)
        return doubt and self.now >= call.crossings[0].at + RETENTION

    def _approved(self, call: Standing) -> bool:
        found = self.model.proposals.get(call.approval or "")
        if found is None:
            return True
        usable = found.state == "approved" or (found.state == "consumed" and bool(call.crossings))
        return usable and self.now <= (found.execute_until or 0)
