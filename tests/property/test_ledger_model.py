"""The ledger's facts in any order, beside a model of what the ledger must say and a world that counts effects.

Each rule is a step of a story, carried out on a real file; often twice, as after a commit whose answer was lost. After
each the file must say what the model says, and what must never happen has not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.asking import CLOSED_READ
from tests.property.base import SECOND
from tests.property.invariants import Watch
from tests.property.model import ENDED, SENT_AND_OPEN, Ask, Proposal, Standing
from tests.property.story import Story
from tests.property.world import TOOLS, Handler, Tool, answers

LOOKS_EVERY: Final = 8  # steps between two looks at the whole file
WAITING: Final = {"queued", "awaiting_approval"}
RECONCILED: Final = ("rule", "rule", "rule", "retry", "retry", "probe", "no answer", "yes", "no")

asks = st.builds(
    Ask,
    tool=st.sampled_from(TOOLS),
    subject=st.sampled_from(["ann", "ann", "bob"]),
    order=st.sampled_from(["1", "2"]),
    key=st.sampled_from([None, None, "k1", "k2"]),
)
picks = st.integers(0, 15)
flags = st.booleans()
mostly = st.sampled_from([True, True, True, False])


def waits(one: Standing) -> bool:
    return one.state in WAITING


class Machine(RuleBasedStateMachine):
    """A story, what is looked at after each step of it, and the steps that both machines have."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.watch = Watch(self.story)
        self.steps = 0

    def teardown(self) -> None:
        try:
            self.watch.look_at_the_file()
        finally:
            self.story.close()

    @invariant()
    def nothing_is_wrong(self) -> None:
        self.steps += 1
        self.watch.look()
        if self.steps % LOOKS_EVERY == 0:
            self.watch.look_at_the_file()

    def some(self, test: Callable[[Standing], bool]) -> list[Standing]:
        return [one for one in self.story.model.calls.values() if test(one)]

    def pick(self, n: int, test: Callable[[Standing], bool]) -> Standing:
        """The n-th call from the last one."""
        found = self.some(test)
        return found[-1 - n % len(found)]

    def _move(self, call: Standing, which: int, *, acts: bool, ends: bool, charge: bool) -> None:
        running = [number for number, one in enumerate(call.crossings, 1) if one.handler.running]
        if call.state == "awaiting_approval":
            self._decide(self.story.model.proposals[call.approval or ""], which, claims=acts)
        elif call.state == "queued":
            if call.owner is None:
                self.story.claims(call, which)
            self.story.sends(call, charge=charge, answered=which != 0)
        elif running and (call.state != "awaiting_reconciliation" or ends):
            self._report(call, running[which % len(running)], which, acts=acts, ends=ends, retry=charge)
        elif call.state == "awaiting_reconciliation":
            self._reconcile(call, RECONCILED[which % len(RECONCILED)])

    def _decide(self, found: Proposal, which: int, *, claims: bool) -> None:
        if which == 0:
            self.story.expires(found)
        else:
            self.story.decides(found, approve=which > 1, claims=claims)

    def _report(self, call: Standing, number: int, which: int, *, acts: bool, ends: bool, retry: bool) -> None:
        """A handler may also act and say nothing yet, or end without a word."""
        if acts:
            self.story.acts(call, number)
        possible = answers(call.tool, call.crossings[number - 1].handler)
        if which < 2 * len(possible):
            answer = possible[which % len(possible)]
            retry = retry and answer.outcome == "retryable_failure" and (answer.happened is False or call.tool.keyed)
            ends = ends or answer.outcome != "ambiguous"
            self.story.reports(call, answer, number, retry=retry, ends=ends)
        elif not acts and ends and not (call.state == "dispatched" and number == len(call.crossings)):
            self.story.ends_without_a_word(call, number)

    def _reconcile(self, call: Standing, what: str) -> None:
        if what in {"yes", "no"}:
            self.story.person_says(call, happened=what == "yes")
        elif what == "retry":
            self.story.person_says_retry(call)
        elif what == "rule" and (call.tool.keyed or self.story.is_over_for_good(call)):
            self.story.sends_again(call, absent=not call.tool.keyed)
        else:
            self.story.is_probed(call, "happened" if what == "probe" else "unknown")

    @rule(n=picks, killed=flags, taken=mostly, twice=flags)
    def a_server_lapses(self, n: int, killed: bool, taken: bool, twice: bool) -> None:
        self.story.twice = twice
        self.story.lapses(self.story.living()[n % 2], killed=killed)
        while taken and (orphans := self.some(self.is_orphaned)):
            self.story.takes_over(orphans[0])

    def is_orphaned(self, one: Standing) -> bool:
        return self.is_owned(one) and not self.story.model.owners[one.owner or ""]

    def is_owned(self, one: Standing) -> bool:
        return one.state in {"dispatched", "queued"} and one.owner is not None

    @rule(n=picks, what=st.sampled_from(["late", "late", "own", "requests"]), twice=flags)
    def a_server_sweeps(self, n: int, what: str, twice: bool) -> None:
        self.story.twice = twice
        late = self.some(lambda one: any(crossing.late is not None for crossing in one.crossings))
        owned = self.some(self.is_owned)
        if what == "late" and late:
            self.story.reads_late_evidence(late[n % len(late)])
        elif what == "own" and owned:
            call = owned[-1 - n % len(owned)]
            (self.story.takes_over if self.is_orphaned(call) else self.story.finds_unfollowed)(call)
        else:
            self.story.closes_requests_of_gone_servers()


class ManyCalls(Machine):
    """Requests of several people that get into one another's way."""

    @initialize(first=st.lists(asks, min_size=2, max_size=4), answered=mostly)
    def some_ask_at_first(self, first: list[Ask], answered: bool) -> None:
        for ask in first:
            self.story.asks(ask, answered=answered)

    @rule(ask=asks, charge=flags, answered=mostly, wait=flags, twice=flags)
    def somebody_asks(self, ask: Ask, charge: bool, answered: bool, wait: bool, twice: bool) -> None:
        self.story.twice = twice
        self.story.asks(ask, charge=charge, answered=answered, wait=wait)

    @rule(n=picks, which=picks, acts=flags, ends=flags, charge=flags, twice=flags)
    def a_call_moves_on(self, n: int, which: int, acts: bool, ends: bool, charge: bool, twice: bool) -> None:
        """Whatever comes next for an open call: a decision, its dispatch, a handler's report, its reconciliation."""
        self.story.twice = twice
        found = self.some(lambda one: one.state not in ENDED)
        if found:
            self._move(found[-1 - n % len(found)], which, acts=acts, ends=ends, charge=charge)

    @precondition(lambda self: self.some(waits))
    @rule(n=picks, what=st.sampled_from(["fresh", "withdraw", "refuse"]), twice=flags)
    def a_waiting_call_is_stopped(self, n: int, what: str, twice: bool) -> None:
        self.story.twice = twice
        call = self.pick(n, waits)
        if what == "withdraw":
            self.story.withdraws(call)
        elif what == "refuse":
            self.story.refuses(call)
        elif call.state == "queued":
            self.story.needs_a_fresh_proposal(call)

    @precondition(lambda self: self.story.model.calls)
    @rule(n=picks, what=st.sampled_from(["open", "close", "deliver", "cancel", "read"]), ask=asks, twice=flags)
    def requests_come_and_go(self, n: int, what: str, ask: Ask, twice: bool) -> None:
        self.story.twice = twice
        call = self.pick(n, lambda _: True)
        if what == "deliver":
            self.story.is_delivered(call)
        elif what == "cancel":
            if call.state in SENT_AND_OPEN:
                self.story.asks_to_cancel(call)
        elif what == "read":
            possible = answers(CLOSED_READ, Handler(running=True))
            self.story.reads(ask, possible[n % len(possible)])
        else:
            self.story.request(call, open_=what == "open")

    @rule(step=st.sampled_from([1, 400, 2_000, 4_000, 90_000, -5, -1_000]))
    def the_clock_moves(self, step: int) -> None:
        self.story.model.now += step * SECOND


class OneCall(Machine):
    """One call at a time, through many attempts, lapses and words."""

    @initialize(
        tool=st.sampled_from([tool for tool in TOOLS for _ in range(1 + 2 * tool.keyed) if not tool.is_read]),
        key=st.sampled_from([None, "k1"]),
    )
    def it_is_asked_for(self, tool: Tool, key: str | None) -> None:
        self.ask = Ask(tool, "ann", "1", key)
        call = self.story.asks(self.ask)
        if call is not None and call.state == "awaiting_approval":
            self.story.approves(call)

    @rule(which=picks, acts=flags, ends=flags, retry=flags, twice=flags)
    def it_moves_on(self, which: int, acts: bool, ends: bool, retry: bool, twice: bool) -> None:
        self.story.twice = twice
        open_ = self.some(lambda one: one.state not in ENDED)
        if open_:
            self._move(open_[-1], which, acts=acts, ends=ends, charge=retry)
        else:
            self.story.asks(self.ask)

    @rule(which=picks, acts=flags, ends=flags, twice=flags)
    def a_handler_goes_on(self, which: int, acts: bool, ends: bool, twice: bool) -> None:
        """Also one whose call has long moved on, or ended."""
        self.story.twice = twice
        running = [
            (call, number)
            for call in self.story.model.calls.values()
            for number, crossing in enumerate(call.crossings, 1)
            if crossing.handler.running
        ]
        if running:
            call, number = running[-1 - which % len(running)]
            self._report(call, number, which, acts=acts, ends=ends, retry=False)

    @rule(key=st.sampled_from([None, "k1", "k2"]), twice=flags)
    def it_is_asked_for_again(self, key: str | None, twice: bool) -> None:
        self.story.twice = twice
        self.story.asks(self.ask._replace(key=key))


TestManyCalls = ManyCalls.TestCase
TestManyCalls.settings = settings(max_examples=40, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
TestOneCall = OneCall.TestCase
TestOneCall.settings = settings(max_examples=75, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
