"""The mildest and the strictest verdict on a call whose values are not all known: every real one lies between them."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.registry.budgets import RuleLimit
from counterfoil.registry.policy import Decision, Policy, Rule
from counterfoil.registry.vocabulary import Assurance, Effect, JsonObject, JsonValue, Verdict
from tests.runtime.plan.shop import ALICE, NUMBER, STRING, record, tool

CONTRACT = tool("pay", record([], amount=NUMBER, to=STRING, who=record([], name=STRING)), None, Effect.WRITE)
Bounds = tuple[str, str]
PLACES: Final = ["/amount", "/to", "/who", "/who/name"]


def short(decision: Decision) -> str:
    return decision.assurance.value if decision.verdict is Verdict.APPROVE else decision.verdict.value


def bounds(rule: Rule, arguments: JsonObject, *unknown: tuple[str, ...]) -> Bounds:
    low, high = Policy([rule], {Effect.WRITE: Verdict.ALLOW}).bounds(CONTRACT, arguments, ALICE, unknown)
    return short(low), short(high)


def rule(verdict: Verdict, when: dict[str, dict[str, object]], **more: object) -> Rule:
    return Rule(id="r", verdict=verdict, when=when, **more)  # type: ignore[arg-type]  # mixed fields, each of its own type


BIG: dict[str, dict[str, object]] = {"/amount": {"gt": 100}}


@pytest.mark.parametrize(
    ("when", "arguments", "unknown", "expected"),
    [
        (BIG, {"amount": 150}, [], ("deny", "deny")),
        (BIG, {"amount": 50}, [], ("allow", "allow")),
        (BIG, {"amount": 0}, [("amount",)], ("allow", "deny")),
        (BIG, {"amount": 0}, [("to",)], ("allow", "allow")),
        (BIG, {}, [("to",)], ("deny", "deny")),
        (BIG, {}, [()], ("allow", "deny")),
        ({**BIG, "/to": {"eq": "x"}}, {"amount": 0, "to": "y"}, [("amount",)], ("allow", "allow")),
        ({**BIG, "/to": {"eq": "x"}}, {"amount": 0, "to": "x"}, [("amount",)], ("allow", "deny")),
        ({"/to": {"exists": True}}, {"to": ""}, [("to",)], ("deny", "deny")),
        ({"/to": {"exists": False}}, {"to": ""}, [("to",)], ("allow", "allow")),
        ({"/who/name": {"exists": True}}, {"who": {}}, [("who",)], ("allow", "deny")),
        ({"/who": {"eq": {"name": "x"}}}, {"who": {"name": ""}}, [("who", "name")], ("allow", "deny")),
        ({"/who": {"exists": True}}, {"who": {"name": ""}}, [("who", "name")], ("deny", "deny")),
    ],
)
def test_a_condition_decides_where_its_value_is_known(
    when: dict[str, dict[str, object]], arguments: JsonObject, unknown: list[tuple[str, ...]], expected: Bounds
) -> None:
    assert bounds(rule(Verdict.DENY, when), arguments, *unknown) == expected


def test_an_allow_rule_may_or_may_not_take_the_default_away() -> None:
    lower = Rule(id="low", verdict=Verdict.ALLOW, tool="pay", when={"/amount": {"lt": 10}})
    policy = Policy([lower])
    low, high = policy.bounds(CONTRACT, {"amount": 0}, ALICE, [("amount",)])
    assert (short(low), short(high)) == ("allow", "client")
    known, same = policy.bounds(CONTRACT, {"amount": 5}, ALICE, [("to",)])
    assert (short(known), short(same)) == ("allow", "allow")


def test_what_was_used_of_a_limit_is_not_known() -> None:
    assert bounds(rule(Verdict.DENY, {}, limit=RuleLimit(window_s=60, calls=5)), {"amount": 1}) == ("allow", "deny")
    summed = rule(Verdict.DENY, {}, limit=RuleLimit(window_s=60, sum="/amount", max=5))
    assert bounds(summed, {}) == ("deny", "deny")
    assert bounds(summed, {"amount": 0}, ("amount",)) == ("allow", "deny")
    assert bounds(rule(Verdict.DENY, BIG, limit=RuleLimit(window_s=60, calls=5)), {"amount": 1}) == ("allow", "allow")


VALUES: st.SearchStrategy[JsonValue] = st.sampled_from([0, 100, 101, "x", "y", None, {"name": "x"}, {}])
ARGUMENTS = st.dictionaries(st.sampled_from(["amount", "to", "who"]), VALUES)
WHEN = st.dictionaries(
    st.sampled_from(PLACES),
    st.sampled_from(
        [{"gt": 100}, {"eq": "x"}, {"exists": True}, {"exists": False}, {"in": ["x", 0]}, {"ne": {"name": "x"}}]
    ),
    max_size=2,
)


def stated(verdict: Verdict, when: dict[str, dict[str, object]], strong: Assurance | None) -> dict[str, object]:
    return {"verdict": verdict, "when": when, "assurance": strong if verdict is Verdict.APPROVE else None}


RULE = st.builds(
    stated, st.sampled_from(list(Verdict)), WHEN, st.sampled_from([None, Assurance.OPERATOR, Assurance.SECOND_PERSON])
)


@given(st.lists(RULE, max_size=3), ARGUMENTS, st.data())
def test_every_verdict_that_a_call_can_get_lies_between_the_bounds(
    drawn: list[dict[str, object]], arguments: JsonObject, data: st.DataObject
) -> None:
    policy = Policy([Rule(id=f"r{n}", tool="pay", **one) for n, one in enumerate(drawn)])  # type: ignore[arg-type]  # mixed fields, each of its own type
    unknown = data.draw(st.sets(st.sampled_from(sorted(arguments)))) if arguments else set[str]()
    final = {name: data.draw(VALUES) if name in unknown else value for name, value in arguments.items()}
    low, high = policy.bounds(CONTRACT, arguments, ALICE, [(name,) for name in unknown])
    real = policy.decide(CONTRACT, final, ALICE)
    ranks = [(one.verdict.strictness, one.assurance.strength) for one in (low, real, high)]
    assert ranks == sorted(ranks)
    if not unknown:
        assert low == high == real
