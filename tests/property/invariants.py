"""What must hold after every step of a story, read from the real ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil.ledger.check import check
from counterfoil.ledger.states import MOVES, CallState
from counterfoil.ledger.verify import verify_database

from .base import MOST
from .fold import fold
from .model import ENDED, SENT_AND_OPEN, Binding, conflict
from .story import Story

PAIRS: Final = {(before.value, after.value) for (before, _), after in MOVES.items()}


@dataclass(slots=True)
class Watch:
    """Looks at a story after each step, and remembers what may never change again."""

    story: Story
    states: dict[str, str] = field(default_factory=dict[str, str])
    consumed: dict[str, str] = field(default_factory=dict[str, str])
    bound: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    def look(self) -> None:
        """Everything that is cheap to look at."""
        self._rows_are_what_the_model_says()
        self._states_follow_the_table()
        self._effects_are_counted()
        self._nothing_untrue_is_said_of_an_effect()
        self._leases_exclude()
        self._keys_are_bound_once()
        self._approvals_are_consumed_once()
        self._budget_holds()

    def look_at_the_file(self) -> None:
        """Chains and the users' own check."""
        story = self.story
        assert verify_database(story.book.path).problems == ()
        contradicted = {call.call_id for call in story.model.calls.values() if call.contradicted}
        breaches = check(story.book.path).breaches
        assert {breach.row.partition("/")[0] for breach in breaches if breach.rule == "late_agrees"} == contradicted
        assert [breach for breach in breaches if breach.rule != "late_agrees"] == []

    def _rows_are_what_the_model_says(self) -> None:
        """And each row is what its events say."""
        book = self.story.book
        for call in self.story.model.calls.values():
            row = book.call(call.call_id)
            there: dict[str, Any] = {
                "state": row.state, "outcome": row.outcome, "sent": row.sent, "attempts": row.attempts,
                "generation": row.generation, "owner": row.owner_id, "by_decision": bool(row.by_decision),
                "key": row.key, "approval": row.approval_id, "open": row.request_owner is not None,
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
            folded = fold(book.events(call.call_id))
            assert (folded.state, folded.outcome, folded.attempts) == (row.state, row.outcome, row.attempts)
        assert len(book.rows("SELECT call_id FROM calls")) == len(self.story.model.calls)

    def _states_follow_the_table(self) -> None:
        for call in self.story.model.calls.values():
            before = self.states.get(call.call_id, CallState.NEW.value)
            assert before == call.state or (before, call.state) in PAIRS, (call.call_id, before, call.state)
            self.states[call.call_id] = call.state

    def _effects_are_counted(self) -> None:
        """A keyless effect happens once, unless a person said that it had not happened."""
        for call in self.story.model.calls.values():
            most = 1 + (0 if call.tool.keyed else call.retries_by_word)
            assert self.story.far_side.effects[call.action_id] <= most, call.call_id

    def _nothing_untrue_is_said_of_an_effect(self) -> None:
        """Unless a person said it, who may be wrong; nor is anything said that nobody can know."""
        for call in self.story.model.calls.values():
            if call.state not in ENDED or call.tool.is_read or call.settled_by == "person" or call.retries_by_word:
                continue
            if call.effect is not None:
                assert (self.story.far_side.effects[call.action_id] > 0) == call.effect, call.call_id
            if call.effect is False:
                assert all(crossing.happened is False for crossing in call.crossings), call.call_id

    def _leases_exclude(self) -> None:
        calls = [*self.story.model.calls.values()]
        there = set(self.story.book.rows("SELECT resource, call_id, shared FROM leases"))
        expected = {
            (key.removeprefix("shared:"), call.call_id, int(key.startswith("shared:")))
            for call in calls
            if call.holds
            for key in call.resources
        }
        assert there == expected
        under_way = [call for call in calls if call.state in SENT_AND_OPEN and not call.reopened]
        for place, one in enumerate(under_way):
            for other in under_way[place + 1 :]:
                assert not conflict(one.resources, other.resources), (one.call_id, other.call_id)

    def _keys_are_bound_once(self) -> None:
        there = {
            (subject, tool, key): Binding(call_id, order, expires)
            for subject, tool, key, call_id, order, expires in self.story.book.rows(
                "SELECT subject, tool, key, call_id, args_digest, expires_at FROM keys"
            )
        }
        assert there == self.story.model.keys
        for name, binding in there.items():
            assert self.bound.setdefault(name, binding.call_id) == binding.call_id
            assert self.story.model.calls[binding.call_id].order == binding.order

    def _approvals_are_consumed_once(self) -> None:
        for approval_id, state, call_id in self.story.book.rows("SELECT approval_id, state, call_id FROM approvals"):
            found = self.story.model.proposals[approval_id]
            assert (state, call_id) == (found.state, found.call_id), approval_id
            if approval_id in self.consumed:
                assert state == "consumed"
            if state == "consumed":
                assert self.consumed.setdefault(approval_id, call_id) == call_id
        consumed = [*self.consumed.values()]
        for call in self.story.model.calls.values():
            assert consumed.count(call.call_id) <= len(call.crossings)

    def _budget_holds(self) -> None:
        used = self.story.book.rows("SELECT used FROM budgets")
        assert used == ([(self.story.model.used,)] if used else [])
        assert 0 <= self.story.model.used <= MOST
