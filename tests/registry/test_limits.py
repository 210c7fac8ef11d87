"""Rates that are never exceeded, waits that are honest, and the breaker for repeated failures."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.registry.contract import Rate
from counterfoil.registry.limits import ACTORS_MAX, DIGESTS_MAX, FAILURES, Actor, Breaker, RateState

ME = Actor("a", "alice", "orders_refund")


class TestRate:
    def test_lets_so_many_start_and_says_when_the_next_may(self) -> None:
        state = RateState(Rate(2, 10.0))
        assert [state.take(100.0), state.take(104.0), state.take(105.0)] == [0.0, 0.0, 5.0]
        assert state.take(110.0) == 0.0
        assert state.retry_after(110.0) == 4.0

    def test_asking_in_vain_costs_nothing(self) -> None:
        state = RateState(Rate(1, 10.0))
        state.take(0.0)
        assert [state.take(1.0), state.take(2.0)] == [9.0, 8.0]

    @settings(deadline=None)
    @given(st.integers(1, 4), st.floats(0.001, 1e4), st.lists(st.floats(0, 1e3), min_size=1, max_size=30))
    def test_no_window_ever_holds_more_starts_and_each_wait_is_enough(
        self, count: int, per_s: float, gaps: list[float]
    ) -> None:
        state, now, starts = RateState(Rate(count, per_s)), 1e6, list[float]()
        for gap in gaps:
            now += gap
            wait = state.take(now)
            if wait:
                now += wait
                assert state.take(now) == 0.0
            starts.append(now)
        for first, over in zip(starts, starts[count:], strict=False):
            assert over >= first + per_s

    def test_a_wait_is_enough_to_the_last_bit(self) -> None:
        state = RateState(Rate(1, 38.6))
        state.take(17.5)
        assert state.take(23.13 + state.retry_after(23.13)) == 0.0

    def test_a_clock_that_steps_back_never_lets_more_through(self) -> None:
        state = RateState(Rate(2, 10.0))
        state.take(100.0)
        state.take(50.0)
        assert state.take(61.0) > 0
        state.take(110.0)
        assert state.take(105.0) > 0

    @pytest.mark.parametrize("rate", [Rate(0, 1.0), Rate(1, 0.0), Rate(1, float("inf"))])
    def test_a_rate_that_makes_no_sense_is_refused(self, rate: Rate) -> None:
        with pytest.raises(ValueError, match="1 or more"):
            RateState(rate)


class TestBreaker:
    def fail(self, breaker: Breaker, *times: float, digest: str = "d", actor: Actor = ME) -> None:
        for now in times:
            breaker.note_failure(actor, digest, now)

    def test_five_failures_within_ten_minutes_block_until_ten_minutes_after_the_last(self) -> None:
        breaker = Breaker()
        self.fail(breaker, 0, 100, 200, 300)
        assert breaker.blocked_until(ME, "d", 300) is None
        self.fail(breaker, 600)
        assert breaker.blocked_until(ME, "d", 600) == 1200
        assert breaker.blocked_until(ME, "d", 1199.9) == 1200
        assert breaker.blocked_until(ME, "d", 1200) is None

    def test_failures_further_apart_do_not_add_up(self) -> None:
        breaker = Breaker()
        self.fail(breaker, 0, 200, 400, 500, 601)
        assert breaker.blocked_until(ME, "d", 601) is None
        self.fail(breaker, 602)
        assert breaker.blocked_until(ME, "d", 602) == 1202

    def test_asking_while_blocked_does_not_prolong_it_and_afterwards_the_count_begins_anew(self) -> None:
        breaker = Breaker()
        self.fail(breaker, *range(FAILURES), 100, 300, 500)
        assert breaker.blocked_until(ME, "d", 501) == 604
        self.fail(breaker, 605)
        assert breaker.blocked_until(ME, "d", 605) is None

    def test_a_success_of_the_tool_by_the_subject_clears_all_its_arguments(self) -> None:
        breaker = Breaker()
        self.fail(breaker, *range(5))
        self.fail(breaker, *range(5), digest="other")
        breaker.note_success(ME)
        assert breaker.blocked_until(ME, "d", 5) is None
        assert breaker.blocked_until(ME, "other", 5) is None

    @pytest.mark.parametrize("other", [ME._replace(subject="bob"), ME._replace(tool="x"), ME._replace(tenant="b")])
    def test_others_and_their_successes_have_no_part_in_it(self, other: Actor) -> None:
        breaker = Breaker()
        self.fail(breaker, *range(5))
        breaker.note_success(other)
        assert breaker.blocked_until(ME, "d", 5)
        assert breaker.blocked_until(other, "d", 5) is None
        assert breaker.blocked_until(ME, "another", 5) is None

    def test_memory_is_bounded_and_the_oldest_goes_first(self) -> None:
        breaker = Breaker()
        self.fail(breaker, *range(5))
        for n in range(DIGESTS_MAX - 1):
            self.fail(breaker, 5, digest=str(n))
        assert breaker.blocked_until(ME, "d", 6)
        for n in range(DIGESTS_MAX * 2):
            self.fail(breaker, 6, digest=str(n))
        assert len(breaker) == DIGESTS_MAX
        assert breaker.blocked_until(ME, "d", 6) is None
        for n in range(ACTORS_MAX + 10):
            self.fail(breaker, 7, actor=ME._replace(subject=str(n)))
        assert len(breaker) == ACTORS_MAX
        self.fail(breaker, 8, 9, 10, 11, actor=ME._replace(subject="10"))
        for n in range(ACTORS_MAX - 1):
            self.fail(breaker, 12, actor=ME._replace(tenant="b", subject=str(n)))
        assert breaker.blocked_until(ME._replace(subject="10"), "d", 12)
