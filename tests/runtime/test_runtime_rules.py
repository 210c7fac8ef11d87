"""The runtime's pure rules: what follows an attempt, who is first, what an approval binds, what an outcome means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.canonical import JsonValue
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.sealing import Kind, Sealed
from counterfoil.registry.adapter import CallStoppedError
from counterfoil.registry.contract import Contract, Gate, Limits, Rate, Recovery, Retry, Schemas, Text
from counterfoil.registry.outcome import ProbeAnswer
from counterfoil.registry.vocabulary import Effect, ErrorCode, Idempotency, OutcomeClass, Sent
from counterfoil.runtime.attempt import LeaseLostError, as_reported, raised, timed_out
from counterfoil.runtime.capacity import Capacity
from counterfoil.runtime.proposal import Terms, document
from counterfoil.runtime.recovery import Situation, Step, advise, settled_for_good
from counterfoil.runtime.retry import Again, Enough, next_attempt
from counterfoil.runtime.settings import Pool
from counterfoil.runtime.settlement import settlement_of
from counterfoil.runtime.waiting import WaitingRoom
from tests.runtime.bench import SECOND, call_row

NOW = 1_000_000 * SECOND


def contract(effect: Effect = Effect.WRITE, output: Any = None, **parts: Any) -> Contract:
    recovery, limits = parts.get("recovery", Recovery()), parts.get("limits", Limits())
    schemas = Schemas({"type": "object"}, output)
    return Contract("tool", Text("t", "d"), schemas, Gate(effect), limits, recovery, parts.get("version", "1"))


# Recovery: every combination of section 4.

EFFECTS = (Effect.READ, Effect.WRITE)
ANSWERS = (None, *ProbeAnswer)


def expected(
    effect: Effect, idempotency: Idempotency, *, probe: bool, answer: ProbeAnswer | None, kept: bool, promised: bool,
    here: bool, undisturbed: bool,
) -> Step:  # fmt: skip
    """The law, said once more in other words."""
    if probe and answer is None:
        return Step.ASK
    key = idempotency is Idempotency.KEYED and kept
    if answer is not None:
        told = {ProbeAnswer.HAPPENED: Step.SETTLE_HAPPENED, ProbeAnswer.PENDING: Step.WAIT}
        if answer is ProbeAnswer.ABSENT and (key or promised):
            return Step.RESEND
        return told.get(answer, Step.PARK)
    natural = idempotency is Idempotency.NATURAL and undisturbed
    return Step.RESEND if key or (here and (effect is Effect.READ or natural)) else Step.PARK


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("idempotency", list(Idempotency))
@pytest.mark.parametrize("effect", EFFECTS)
def test_what_follows_an_attempt_without_settlement(
    effect: Effect, idempotency: Idempotency, answer: ProbeAnswer | None
) -> None:
    for probe, kept, promised, here, undisturbed in product((False, True), repeat=5):
        if answer is not None and not probe:
            continue
        recovery = Recovery(
            idempotency, key_retention_s=100, probe="tool__probe" if probe else None, settle_s=60 if promised else None
        )
        dispatched = NOW - (99 if kept else 100) * SECOND
        case = Situation(
            contract(effect, recovery=recovery), NOW, dispatched, NOW - 61 * SECOND, answer, answer is not None, here,
            undisturbed,
        )  # fmt: skip
        step = expected(
            effect, idempotency, probe=probe, answer=answer, kept=kept, promised=promised, here=here,
            undisturbed=undisturbed,
        )  # fmt: skip
        assert advise(case).step is step, case


@pytest.mark.parametrize(
    ("settle_s", "hard_deadline_at", "safe"),
    [
        (60, NOW - 61 * SECOND, True),
        (60, NOW - 60 * SECOND, False),
        (60, None, False),
        (None, NOW - 10_000 * SECOND, False),
    ],
    ids=["past", "not yet", "no deadline", "no promise"],
)
def test_an_absent_effect_can_no_longer_appear_only_after_deadline_and_promise(
    settle_s: float | None, hard_deadline_at: int | None, *, safe: bool
) -> None:
    assert settled_for_good(contract(recovery=Recovery(settle_s=settle_s)), hard_deadline_at, NOW) is safe


# Retry.


def test_attempts_end_with_their_number() -> None:
    assert isinstance(next_attempt(Retry(3), 3, 1e9, None, 0.5), Enough)
    assert isinstance(next_attempt(Retry(3), 2, 1e9, None, 0.5), Again)


@pytest.mark.parametrize(("attempts", "base"), [(1, 2.0), (2, 4.0), (3, 8.0)])
def test_the_pause_doubles_and_jitters_by_half(attempts: int, base: float) -> None:
    pauses = [next_attempt(Retry(9, backoff_s=2.0), attempts, 1e9, None, chance) for chance in (0.0, 0.5, 1.0)]
    assert pauses == [Again(base / 2), Again(base), Again(base * 1.5)]


def test_the_other_sides_wish_is_honoured_where_it_is_longer() -> None:
    assert next_attempt(Retry(3, 1.0), 1, 1e9, 30.0, 0.5) == Again(30.0)
    assert next_attempt(Retry(3, 1.0), 1, 1e9, 0.1, 0.5) == Again(1.0)
    assert next_attempt(Retry(3, 1.0), 1, 1e9, float("nan"), 0.5) == Again(1.0)
    assert isinstance(next_attempt(Retry(3, 1.0), 1, 1e9, float("inf"), 0.5), Enough)


def test_no_attempt_starts_without_the_least_time_left() -> None:
    assert isinstance(next_attempt(Retry(3, 1.0, least_s=5.0), 1, 5.9, None, 0.5), Enough)
    assert next_attempt(Retry(3, 1.0, least_s=5.0), 1, 6.0, None, 0.5) == Again(1.0)


# Waiting and capacity.


def test_whoever_came_first_is_first_at_each_key() -> None:
    room = WaitingRoom()
    with room.place("t", ["a", "b"]) as first, room.place("t", ["b", "c"]) as second, room.place("t", ["c"]) as third:
        assert [room.is_first(place) for place in (first, second, third)] == [True, False, False]
    with room.place("t", ["b"]) as later:
        assert room.is_first(later)


def test_readers_stand_side_by_side_and_behind_a_writer_that_came_before() -> None:
    room = WaitingRoom()
    shared = ["shared:a"]
    with (
        room.place("t", shared) as one,
        room.place("t", shared) as two,
        room.place("t", ["a"]) as writer,
        room.place("t", shared) as three,
    ):
        assert [room.is_first(place) for place in (one, two, writer, three)] == [True, True, False, False]


def test_tenants_do_not_wait_for_each_other() -> None:
    room = WaitingRoom()
    with room.place("t", ["a"]), room.place("u", ["a"]) as other:
        assert room.is_first(other)


@pytest.mark.anyio
async def test_leaving_wakes_those_behind() -> None:
    room = WaitingRoom()
    first = room.place("t", ["a"])
    first.__enter__()
    with room.place("t", ["a"]) as second:
        first.__exit__(None, None, None)
        assert second.woken.is_set()
        assert room.is_first(second)


@pytest.mark.anyio
async def test_capacity_is_taken_in_order_and_given_back_once() -> None:
    capacity = Capacity({"p": Pool(1)}, threads=4)
    tool = contract(limits=Limits(pool="p"))
    slot = await capacity.slot(tool, blocking=False)
    assert capacity.full(tool, blocking=False)
    waiting = asyncio.ensure_future(capacity.slot(tool, blocking=False))
    await asyncio.sleep(0)
    assert not waiting.done()
    slot.release()
    slot.release()
    (await waiting).release()
    assert not capacity.full(tool, blocking=False)
    again = [await capacity.slot(tool, blocking=False)]
    assert capacity.full(tool, blocking=False)
    again[0].release()


@pytest.mark.anyio
async def test_a_pool_that_stays_as_it_was_goes_on_counting_and_a_changed_one_begins_anew() -> None:
    capacity = Capacity({"p": Pool(1), "q": Pool(1, Rate(1, 10.0))}, threads=4)
    same, other = contract(limits=Limits(pool="p")), contract(limits=Limits(pool="q"))
    slots = [await capacity.slot(one, blocking=False) for one in (same, other)]
    assert capacity.start(other, 0.0) == 0.0
    capacity.replace({"p": Pool(1), "q": Pool(2, Rate(1, 5.0))})
    assert [capacity.full(one, blocking=False) for one in (same, other)] == [True, False]
    assert [capacity.start(other, 1.0), capacity.start(other, 2.0)] == [0.0, 4.0]
    for slot in slots:
        slot.release()
    capacity.replace({})
    assert not capacity.full(same, blocking=False)


@pytest.mark.anyio
async def test_a_wait_that_is_given_up_keeps_nothing() -> None:
    capacity = Capacity({"p": Pool(1)}, threads=1)
    tool = contract(limits=Limits(pool="p", concurrency=1))
    slot = await capacity.slot(tool, blocking=True)
    waiting = asyncio.ensure_future(capacity.slot(tool, blocking=True))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    slot.release()
    assert not capacity.full(tool, blocking=True)


def test_a_rate_counts_starts_and_says_how_long_to_wait() -> None:
    capacity = Capacity({}, threads=1)
    tool = contract(limits=Limits(rate=Rate(1, 10.0)))
    assert [capacity.start(tool, now) for now in (0.0, 4.0, 10.0)] == [0.0, 6.0, 0.0]


# Attempts: what an end means for an effect.

READ, WRITE = contract(Effect.READ), contract(Effect.WRITE)


@pytest.mark.parametrize("error", [ConnectionError(), TimeoutError(), ValueError("x"), RuntimeError("x")])
def test_whatever_a_write_raises_is_unknown(error: Exception) -> None:
    outcome = raised(WRITE, error)
    assert (outcome.kind, outcome.sent) == (OutcomeClass.AMBIGUOUS, Sent.UNKNOWN)


@pytest.mark.parametrize(
    ("error", "kind", "sent"),
    [
        (ValueError("x"), OutcomeClass.PERMANENT_FAILURE, Sent.YES),
        (ConnectionError(), OutcomeClass.RETRYABLE_FAILURE, Sent.UNKNOWN),
        (TimeoutError(), OutcomeClass.RETRYABLE_FAILURE, Sent.UNKNOWN),
    ],
)
def test_what_a_read_raises_is_a_failure(error: Exception, kind: OutcomeClass, sent: Sent) -> None:
    outcome = raised(READ, error)
    assert (outcome.kind, outcome.sent) == (kind, sent)


@pytest.mark.parametrize("tool", [READ, WRITE])
def test_only_the_guard_knows_that_nothing_left(tool: Contract) -> None:
    stopped, lapsed = raised(tool, CallStoppedError("x")), raised(tool, LeaseLostError("x"))
    assert (stopped.code, stopped.sent) == (ErrorCode.CANCELLED, Sent.NO)
    assert (lapsed.code, lapsed.sent) == (ErrorCode.UNAVAILABLE, Sent.NO)


def test_a_deadline_leaves_a_write_unknown_and_fails_a_read() -> None:
    assert timed_out(WRITE, 1.0).kind is OutcomeClass.AMBIGUOUS
    read = timed_out(READ, 1.0)
    assert (read.kind, read.sent) == (OutcomeClass.RETRYABLE_FAILURE, Sent.UNKNOWN)


def test_a_read_cannot_be_in_doubt() -> None:
    assert as_reported(READ, Outcome.ambiguous("x")).kind is OutcomeClass.RETRYABLE_FAILURE
    assert as_reported(WRITE, Outcome.ambiguous("x")).kind is OutcomeClass.AMBIGUOUS


def test_a_probes_answer_becomes_json() -> None:
    found = as_reported(READ, Outcome.success(Probe.happened({"a": 1}, {"request_id": "r"})))
    assert found.output == {"answer": "happened", "output": {"a": 1}, "evidence": {"request_id": "r"}}


# Settlement: codes and effects per class.


class Drawer:
    """Keeps nothing; seals into the open."""

    def seal(self, kind: Kind, content: bytes) -> Sealed:
        return Sealed("pay_1", "call_1", "t", kind, len(content), "s" * 64, "c" * 64, b"", "k", (content,), NOW)

    def clear(self, value: JsonValue) -> JsonValue:
        return value

    def project(self, value: JsonValue, sensitive: Sequence[str] = ()) -> JsonValue:
        del sensitive
        return value


def settled(outcome: Outcome[Any], tool: Contract = WRITE, limit: int = 1_000, by: str = "execution") -> Any:
    return settlement_of(tool, outcome, Drawer(), NOW, limit, by).settlement


@pytest.mark.parametrize(
    ("outcome", "code", "sent", "effect"),
    [
        (Outcome.success({}), None, "yes", None),
        (Outcome.no_result(), None, "yes", None),
        (Outcome.partial({}, "half"), None, "yes", None),
        (Outcome.ambiguous("x"), "ambiguous", "unknown", None),
        (Outcome.permanent("x"), "tool_failed", "yes", "none"),
        (Outcome.permanent("x", "unknown"), "tool_failed", "unknown", "unknown"),
        (Outcome.permanent("x", "no"), "tool_failed", "no", "none"),
        (Outcome.retryable("x", "yes"), "tool_failed", "yes", "none"),
        (Outcome.retryable("x", "unknown"), "tool_failed", "unknown", "unknown"),
        (Outcome.unavailable("x"), "unavailable", "no", None),
        (Outcome(OutcomeClass.DENIED, sent=Sent.NO), "denied", "no", None),
        (Outcome(OutcomeClass.INVALID_REQUEST, sent=Sent.NO), "invalid_arguments", "no", None),
        (
            Outcome(OutcomeClass.PERMANENT_FAILURE, sent=Sent.YES, code=ErrorCode.UNAVAILABLE),
            "tool_failed",
            "yes",
            "none",
        ),
    ],
)
def test_the_code_and_the_effect_of_a_settlement(
    outcome: Outcome[Any], code: str | None, sent: str, effect: str | None
) -> None:
    found = settled(outcome)
    assert (found.outcome, found.code, found.sent) == (outcome.kind.value, code, sent)
    assert (found.details or {}).get("effect") == effect


def test_a_failed_read_has_no_effect_whatever_was_sent() -> None:
    assert settled(Outcome.retryable("x", "unknown"), READ).details["effect"] == "none"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_what_was_not_sent_has_one_of_five_codes(code: ErrorCode) -> None:
    found = settled(Outcome(OutcomeClass.PERMANENT_FAILURE, sent=Sent.NO, code=code))
    own = {"unavailable", "denied", "cancelled", "invalid_arguments", "tool_failed"}
    assert (found.code, found.sent) == (code.value if code.value in own else "tool_failed", "no")


@pytest.mark.parametrize("kind", [OutcomeClass.SUCCESS, OutcomeClass.PARTIAL, OutcomeClass.NO_RESULT])
@pytest.mark.parametrize("sent", list(Sent))
def test_what_happened_was_sent(kind: OutcomeClass, sent: Sent) -> None:
    assert (settled(Outcome(kind, sent=sent)).sent, settled(Outcome(kind, sent=sent)).code) == ("yes", None)


def test_no_result_has_no_output() -> None:
    result = settlement_of(WRITE, Outcome(OutcomeClass.NO_RESULT, 5), Drawer(), NOW, 1_000)
    assert (result.settlement.output, result.output, result.output_bytes) == (None, None, None)


def test_an_output_that_breaks_its_schema_has_happened() -> None:
    strict = contract(output={"type": "object", "required": ["a"]})
    for outcome in (Outcome.success({"b": 1}), Outcome.success(None), Outcome.partial({"b": 1}, "half")):
        found = settled(outcome, strict)
        assert (found.outcome, found.code, found.sent) == ("success", "output_invalid", "yes")


def test_an_output_beyond_the_limit_has_happened_and_is_cut() -> None:
    found = settled(Outcome.success({"a": "x" * 100}), limit=50)
    assert (found.outcome, found.code, found.output.bytes) == ("success", "output_invalid", 50)


@pytest.mark.parametrize(
    "kind", [OutcomeClass.PERMANENT_FAILURE, OutcomeClass.AMBIGUOUS, OutcomeClass.RETRYABLE_FAILURE]
)
def test_no_output_makes_a_success_of_what_is_none(kind: OutcomeClass) -> None:
    found = settled(Outcome(kind, output=float("nan"), sent=Sent.UNKNOWN))
    assert found.outcome == kind.value


def test_whoever_only_knows_that_it_happened_need_not_know_the_output() -> None:
    strict = contract(output={"type": "object", "required": ["a"]})
    assert settled(Outcome.success(None), strict, by="person").code is None


# Proposals: change one field and the digest is another one.

ROW = call_row("call_1", NOW)
TERMS = Terms("operator", "rule", NOW)


def bound(row: CallRow = ROW, tool: Contract = WRITE, args: str = "a", terms: Terms = TERMS) -> bytes:
    return document(row, tool, args, terms)


@pytest.mark.parametrize("name", ["tenant", "subject", "client", "run_id", "step", "call_id", "if_version"])
def test_each_field_of_a_call_is_bound(name: str) -> None:
    another: dict[str, Any] = {name: "another"}
    assert bound(ROW._replace(**another)) != bound()


def test_contract_arguments_and_terms_are_bound() -> None:
    others = {
        bound(),
        bound(tool=replace(WRITE, version="2")),
        bound(tool=contract(Effect.DESTRUCTIVE)),
        bound(args="b"),
        bound(terms=replace(TERMS, assurance="second_person")),
        bound(terms=replace(TERMS, rule_id=None)),
        bound(terms=replace(TERMS, expires_at=NOW + 1)),
    }
    assert len(others) == 7
    assert all(json.loads(one)["tool"] == "tool" for one in others)
