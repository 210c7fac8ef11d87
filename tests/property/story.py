"""What happens outside, what comes back, who is gone and who finds out: the rest of a call's life, step by step."""

from __future__ import annotations

from counterfoil.ledger import owners
from counterfoil.ledger.bookkeeping import Delivery, end_handler, mark_delivered, request_cancel
from counterfoil.ledger.recovering import (
    abandon,
    close_orphaned,
    lose,
    note_probe,
    note_word,
    resend,
    resolve,
    rule_out,
    take_over,
)
from counterfoil.ledger.settling import Settlement, settle, take_late

from .asking import Asking
from .model import Crossing, Standing
from .world import DONE, Answer


class Story(Asking):
    """See the module."""

    def acts(self, call: Standing, number: int = 0) -> None:
        """A handler has its effect, now; by default the last attempt's."""
        handler = call.crossings[number - 1].handler
        assert handler.running
        if not handler.acted:
            handler.acted = True
            self.far_side.act(call.tool, call.action_id)

    def reports(
        self,
        call: Standing,
        answer: Answer,
        number: int = 0,
        *,
        retry: bool = False,
        ends: bool = True,
    ) -> None:
        """A handler reports; by default the last attempt's. `ends` is false where it goes on after its deadline."""
        number = number or len(call.crossings)
        crossing = call.crossings[number - 1]
        said = self._sealed(answer, call)
        current = call.state == "dispatched" and number == len(call.crossings)
        self.book.record(
            lambda: settle(
                call.call_id,
                number,
                said,
                retry_at=self.now if retry else None,
                handler_ended=ends,
            ),
            twice=self.twice,
            repeats=True,
        )
        crossing.handler.running = not ends
        if not current:
            self._late(call, crossing, answer)
            return
        crossing.known = answer.happened
        self._settles(call, crossing, answer, retry=retry)

    def _sealed(self, answer: Answer, call: Standing) -> Settlement:
        said = answer.settlement(self.now)
        if not answer.happened:
            return said
        sealed = self.book.seal(self.new_id("out"), call.call_id, "output", "output")
        return Settlement(said.outcome, said.sent, said.at, by=said.by, output=sealed)

    def _settles(self, call: Standing, crossing: Crossing, answer: Answer, *, retry: bool) -> None:
        in_doubt = not call.tool.is_read and not call.others_known_absent(crossing)
        if retry and not call.cancelled:
            unknown = in_doubt or answer.happened is None
            call.state, call.outcome, call.sent = "queued", None, "unknown" if unknown else "no"
        elif answer.outcome == "ambiguous" or (answer.happened is False and in_doubt):
            self.unknown(call)
        else:
            self.ended(call, answer.outcome, answer.sent, "execution", effect=answer.happened)

    def _late(self, call: Standing, crossing: Crossing, answer: Answer) -> None:
        crossing.late = (answer.outcome, answer.sent, answer.happened)
        if call.contradicted and call.settled_by in {"person", "probe"}:
            self.unknown(call)
            call.settled_at, call.settled_by, call.delivered, call.effect = None, None, False, None
            call.holds, call.reopened = True, True
            self.model.retain(call, None)

    def ends_without_a_word(self, call: Standing, number: int) -> None:
        """A handler that was given up comes to its end and brings nothing."""
        self.book.record(lambda: end_handler(call.call_id, number, self.now), twice=self.twice)
        call.crossings[number - 1].handler.running = False

    # Owners that are gone, answers that were lost.

    def lapses(self, owner: str, *, killed: bool) -> None:
        """A server is declared gone. Killed, its handlers are too; else it only stood still, and they go on."""
        assert self.book.record(lambda: owners.declare_lapsed(owner, 0, self.now))
        self.model.owners[owner] = False
        for call in self.model.calls.values():
            for crossing in call.crossings:
                if crossing.owner == owner and killed:
                    crossing.handler.running = False
        self.server_starts()

    def takes_over(self, call: Standing) -> None:
        """Another server takes a call from one that is gone."""
        owner = self.living()[0]
        assert self.book.record(lambda: take_over(call.call_id, owner, self.now), twice=self.twice) is not None
        if call.state == "dispatched":
            call.owner, call.open = owner, False
            self.unknown(call)
        elif call.by_decision or call.sent == "unknown":
            call.owner, call.open = owner, False
        else:
            self._abandoned(call)

    def finds_unfollowed(self, call: Standing) -> None:
        """A server finds a call of its own that nothing in it follows: never sent, if its handler never ran."""
        owner = call.owner or ""
        if call.state == "dispatched" and (call.crossings[-1].handler.running or call.crossings[-1].handler.acted):
            assert self.book.record(lambda: lose(call.call_id, owner, self.now), twice=self.twice) is not None
            call.open = False
            self.unknown(call)
            return
        assert self.book.record(lambda: abandon(call.call_id, owner, self.now), twice=self.twice) is not None
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

    def _abandoned(self, call: Standing) -> None:
        retryable = call.state == "queued" and call.crossings
        call.open = False
        self.ended(call, "retryable_failure" if retryable else "permanent_failure", "no", "recovery", effect=False)

    def closes_requests_of_gone_servers(self) -> None:
        self.book.record(close_orphaned, twice=self.twice)
        for call in self.model.calls.values():
            if call.opener is not None and not self.model.owners[call.opener]:
                call.open = False

    def reads_late_evidence(self, call: Standing) -> None:
        """The sweep lets what came late answer for its call."""
        may = call.state in {"awaiting_reconciliation", "queued"}
        told = call.late_answer() if may else None
        done = self.book.record(lambda: take_late(call.call_id, self.now), twice=self.twice)
        assert (done is not None) == (told is not None)
        if told is not None and told.late is not None:
            self.close_proposal(call, "revoked")
            self.ended(call, told.late[0], told.late[1], "late", effect=told.late[2])

    # Reconciling.

    def is_probed(self, call: Standing, answer: str) -> None:
        """A probe answers truthfully, or not at all."""
        if answer in {"happened", "absent"}:
            answer = "happened" if self.far_side.effects[call.action_id] else "absent"
        revision = self.book.call(call.call_id).revision
        noted = self.book.record(
            lambda: note_probe(call.call_id, revision, answer, "call_probe", self.now), twice=self.twice
        )
        assert noted is not None
        if answer == "happened":
            said = Settlement("success", "yes", self.now, by="probe")
            assert self.book.record(lambda: resolve(call.call_id, noted.revision, said), twice=self.twice) is not None
            self.ended(call, "success", "yes", "probe", effect=True)

    def person_says(self, call: Standing, *, happened: bool) -> None:
        """A person's word, true or not."""
        said = DONE[0].settlement(self.now, "person")
        if not happened:
            said = Settlement(
                "permanent_failure", "unknown", self.now, by="person", code="tool_failed", details={"effect": "none"}
            )
        revision = self.book.call(call.call_id).revision
        done = self.book.record(lambda: resolve(call.call_id, revision, said, word={"by": "eve"}), twice=self.twice)
        assert done is not None
        self.ended(call, said.outcome, said.sent, "person", effect=happened)

    def person_says_retry(self, call: Standing) -> None:
        """`not_happened`, `then: retry`; true or not."""
        revision = self.book.call(call.call_id).revision
        noted = self.book.record(lambda: note_word(call.call_id, revision, {"by": "eve"}, self.now), twice=self.twice)
        assert noted is not None
        call.retries_by_word += 1
        self.sends_again(call, absent=True)

    def is_over_for_good(self, call: Standing) -> bool:
        """What `settle_s` promises: every handler is at its end, and the probe finds nothing."""
        return not any(crossing.handler.running for crossing in call.crossings) and (
            self.far_side.effects[call.action_id] == 0
        )

    def sends_again(self, call: Standing, *, absent: bool) -> None:
        """An unresolved call is queued, or proposed, to be sent again.

        `absent`: a person, or time, has established that no attempt so far had an effect. What somebody asked to stop
        is sent again only then.
        """
        if call.cancelled and not absent:
            return
        owner, revision = self.living()[0], self.book.call(call.call_id).revision
        if absent:
            ruled = self.book.record(lambda: rule_out(call.call_id, revision, self.now), twice=self.twice)
            assert ruled is not None
            revision = ruled.revision
            for crossing in call.crossings:
                crossing.known = False if crossing.known is None else crossing.known
        if call.approval is not None:
            self.needs_a_fresh_proposal(call)
            return
        done = self.book.record(
            lambda: resend(call.call_id, revision, owner, self.now, {"why": "it is safe"}), twice=self.twice
        )
        assert done is not None
        call.state, call.outcome, call.owner, call.by_decision = "queued", None, owner, True
        call.cancelled = False

    # Requests that come and go.

    def asks_to_cancel(self, call: Standing) -> None:
        self.book.record(lambda: request_cancel(call.call_id, "ann", "enough", self.now), twice=self.twice)
        call.cancelled = True

    def is_delivered(self, call: Standing) -> None:
        """A view that showed the call settled was written; meanwhile the call may have moved on."""
        self.book.record(lambda: mark_delivered([Delivery(call.call_id, self.now)]), twice=self.twice)
        if call.settled_at is not None:
            call.open = call.open and call.delivered
            call.delivered = True
