"""Short sequences of facts that a ledger once got wrong, each as the model's search, or its making, brought them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from counterfoil.ledger.rows import CallRow
from tests.property.asking import WITHIN
from tests.property.base import SECOND
from tests.property.book import RETENTION
from tests.property.invariants import Watch
from tests.property.model import Ask, Standing
from tests.property.story import Story
from tests.property.world import DONE, NOBODY_KNOWS, NOT_DONE, TOOLS

UNAVAILABLE, REFUSED = NOT_DONE[0], NOT_DONE[2]
AMBIGUOUS, OBSCURE_RETRYABLE = NOBODY_KNOWS[0], NOBODY_KNOWS[2]
SUCCESS = DONE[0]


@pytest.fixture
def story() -> Iterator[Story]:
    told = Story()
    yield told
    watch = Watch(told, states={call.call_id: call.state for call in told.model.calls.values()})
    watch.look()
    watch.look_at_the_file()
    told.close()


@pytest.fixture
def ask(story: Story) -> Callable[..., Standing]:
    def make(tool: str, *, key: str | None = None, subject: str = "ann", answered: bool = True) -> Standing:
        found = next(one for one in TOOLS if one.name == tool)
        call = story.asks(Ask(found, subject, "1", key), answered=answered)
        assert call is not None
        return call

    return make


def row(story: Story, call: Standing) -> CallRow:
    return story.book.call(call.call_id)


def sent_again(story: Story, call: Standing) -> Standing:
    """The call's first attempt is unknown, and its second one dispatched under its key."""
    story.reports(call, AMBIGUOUS)
    story.sends_again(call, absent=False)
    assert story.sends(call)
    return call


def test_a_second_attempt_that_never_left_says_nothing_about_the_first(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.acts(call)
    sent_again(story, call)
    story.reports(call, UNAVAILABLE)
    assert (row(story, call).state, row(story, call).sent) == ("awaiting_reconciliation", "unknown")


def test_a_call_in_doubt_stays_unresolved_between_its_attempts(story: Story, ask: Callable[..., Standing]) -> None:
    call = sent_again(story, ask("charge"))
    story.reports(call, UNAVAILABLE, retry=True)
    assert row(story, call).is_unresolved
    story.withdraws(call)
    assert row(story, call).state == "awaiting_reconciliation"


def test_a_second_record_that_nobody_acted_on_says_nothing_about_the_first_attempt(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.acts(call)
    story.reports(call, AMBIGUOUS)
    story.sends_again(call, absent=False)
    assert story.sends(call, answered=False)
    story.finds_unfollowed(call)
    assert row(story, call).state == "awaiting_reconciliation"


def test_a_person_who_rules_the_first_attempt_out_lets_the_seconds_failure_stand(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("note")
    story.reports(call, AMBIGUOUS)
    story.person_says_retry(call)
    assert story.sends(call)
    story.reports(call, REFUSED)
    assert (row(story, call).state, row(story, call).outcome) == ("settled", "permanent_failure")


def test_a_superseded_attempt_that_stopped_in_time_says_nothing_about_the_next(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.sends_again(call, absent=False)
    assert story.sends(call)
    story.acts(call)
    story.reports(call, AMBIGUOUS)
    story.reports(call, UNAVAILABLE, number=1)
    story.reads_late_evidence(call)
    assert row(story, call).state == "awaiting_reconciliation"


def test_a_superseded_attempt_that_stopped_in_time_contradicts_no_probe(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.sends_again(call, absent=False)
    assert story.sends(call)
    story.acts(call)
    story.reports(call, AMBIGUOUS)
    story.is_probed(call, "happened")
    story.reports(call, UNAVAILABLE, number=1)
    assert (row(story, call).state, row(story, call).outcome) == ("settled", "success")


def test_late_news_that_knows_nothing_does_not_keep_a_call_from_being_sent(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.reports(call, AMBIGUOUS)
    story.sends_again(call, absent=False)
    assert story.sends(call)


def test_a_call_whose_key_makes_it_safe_stays_unresolved_between_attempts_of_unknown_effect(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.acts(call)
    story.reports(call, OBSCURE_RETRYABLE, retry=True)
    assert row(story, call).is_unresolved
    assert story.sends(call)
    story.reports(call, UNAVAILABLE)
    assert row(story, call).state == "awaiting_reconciliation"


def test_late_news_that_knows_nothing_does_not_outlive_a_persons_word(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("note")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.reports(call, AMBIGUOUS)
    story.person_says_retry(call)
    assert story.sends(call)
    story.reports(call, REFUSED)
    assert row(story, call).state == "settled"


def test_a_key_that_the_far_side_may_have_forgotten_is_not_sent_again(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("charge")
    story.reports(call, AMBIGUOUS)
    story.sends_again(call, absent=False)
    story.model.now += RETENTION
    assert not story.sends(call)
    assert row(story, call).state == "awaiting_reconciliation"


def test_a_read_has_no_effect_that_late_news_could_contradict(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("audit")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.person_says(call, happened=False)
    story.acts(call)
    story.reports(call, SUCCESS)
    assert row(story, call).state == "settled"
    assert "contradiction" not in {kind for kind, _ in story.book.events(call.call_id)}


def test_a_call_is_sent_again_under_the_approval_that_it_was_given_for_that(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("refund")
    story.approves(call)
    assert story.sends(call)
    story.reports(call, AMBIGUOUS)
    story.person_says_retry(call)
    story.approves(call)
    assert story.sends(call)


def test_the_key_of_a_call_that_is_open_again_does_not_expire(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("note", key="k1")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.person_says(call, happened=False)
    story.acts(call)
    story.reports(call, SUCCESS)
    assert row(story, call).state == "awaiting_reconciliation"
    story.model.now += 2 * RETENTION
    assert ask("note", key="k1") is call


def test_the_key_of_a_call_that_is_tried_again_does_not_expire(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("note", key="k1")
    story.reports(call, UNAVAILABLE)
    assert ask("note", key="k1") is call
    assert story.sends(call)
    story.model.now += 2 * RETENTION
    assert ask("note", key="k1") is call


def test_an_identical_call_that_waits_for_a_person_does_not_refuse_an_approved_one(
    story: Story, ask: Callable[..., Standing]
) -> None:
    first = ask("letter")
    story.approves(first)
    second = ask("letter", key="k1")
    assert second is not first
    story.approves(second)
    story.needs_a_fresh_proposal(first)
    assert story.sends(second)


def test_what_comes_late_is_kept_once_however_often_it_is_recorded(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("note")
    story.acts(call)
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.twice = True
    story.reports(call, SUCCESS)
    assert [kind for kind, _ in story.book.events(call.call_id)].count("late_settlement") == 1


def test_a_cancelled_attempt_is_not_followed_by_another(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("note")
    story.asks_to_cancel(call)
    story.reports(call, UNAVAILABLE, retry=True)
    assert row(story, call).state == "settled"


def test_the_key_of_a_cancelled_call_that_never_left_sends_it_after_all(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("note", key="k1")
    story.asks_to_cancel(call)
    story.reports(call, UNAVAILABLE)
    assert ask("note", key="k1") is call
    assert story.sends(call)


def test_only_a_person_has_a_cancelled_call_sent_again(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("charge")
    story.reports(call, AMBIGUOUS)
    story.asks_to_cancel(call)
    story.sends_again(call, absent=False)
    assert row(story, call).state == "awaiting_reconciliation"
    story.person_says_retry(call)
    assert story.sends(call)


def test_a_delivery_that_is_written_down_late_does_not_count_for_a_reopened_call(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("note")
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.person_says(call, happened=False)
    story.acts(call)
    story.reports(call, SUCCESS)
    story.is_delivered(call)
    assert row(story, call).delivered_at is None


def test_the_key_of_a_request_that_joins_a_sent_call_belongs_to_it(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("refund")
    story.approves(call)
    assert story.sends(call)
    story.reports(call, AMBIGUOUS)
    story.person_says_retry(call)
    assert ask("refund", key="k1") is call
    story.approves(call)
    assert story.sends(call)
    story.acts(call)
    story.reports(call, SUCCESS)
    assert ask("refund", key="k1") is call


def test_a_refused_call_leaves_no_approval_behind(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("refund")
    story.approves(call)
    story.refuses(call)
    assert story.book.rows("SELECT state FROM approvals") == [("revoked",)]


def test_late_news_that_settles_a_queued_call_leaves_no_approval_behind(
    story: Story, ask: Callable[..., Standing]
) -> None:
    call = ask("refund")
    story.approves(call)
    assert story.sends(call)
    story.acts(call)
    story.lapses(call.owner or "", killed=False)
    story.takes_over(call)
    story.person_says_retry(call)
    story.approves(call)
    story.reports(call, SUCCESS)
    story.reads_late_evidence(call)
    assert row(story, call).outcome == "success"
    assert "approved" not in {state for (state,) in story.book.rows("SELECT state FROM approvals")}


def test_an_approval_is_not_used_after_its_window(story: Story, ask: Callable[..., Standing]) -> None:
    call = ask("refund")
    story.approves(call)
    story.model.now += WITHIN + SECOND
    assert not story.sends(call)
