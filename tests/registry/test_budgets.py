"""Budgets and rule limits as values: amounts, exact sums, and when a limited rule matches."""

from __future__ import annotations

import pytest

from counterfoil.canonical import JsonValue
from counterfoil.registry.budgets import (
    Budget,
    Budgets,
    Demand,
    Kind,
    ReadyLimit,
    RuleLimit,
    Scope,
    counter_of,
    millionths,
)
from counterfoil.registry.contract import Contract, Gate, Limits, Schemas, Text
from counterfoil.registry.policy import Policy, Rule, Standing
from counterfoil.registry.policy_check import Severity, check
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, Verdict

ANN = Principal("a/b", "ann")


def contract(effect: Effect = Effect.WRITE, cost: float = 0.0) -> Contract:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"amount": {"type": "number"}}}
    return Contract("pay", Text("t", "d"), Schemas(schema), Gate(effect), Limits(cost=cost))


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.1, 100_000), (0.3, 300_000), (1e-7, 1), (7, 7_000_000), (1e11, 10**17), (1e12, None), (-1, None),
     (float("nan"), None), (10**400, None)],
)  # fmt: skip
def test_numbers_are_exact_millionths_and_fractions_of_one_count_against_the_caller(
    number: float, expected: int | None
) -> None:
    assert millionths(number) == expected


def test_ten_tenths_are_exactly_one() -> None:
    assert sum(millionths(0.1) or 0 for _ in range(10)) == millionths(1) == millionths(1.0000001, down=True)


def test_no_two_principals_share_a_counter() -> None:
    pairs = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c")]
    assert len({counter_of(Scope.SUBJECT, Principal(*pair)) for pair in pairs}) == 3
    assert counter_of(Scope.TENANT, ANN) == "tenant:a%2Fb"
    assert counter_of(Scope.SERVER, ANN) == "server"


@pytest.mark.parametrize(
    ("effect", "kinds"),
    [
        (Effect.READ, {Kind.CALLS}),
        (Effect.WRITE, {Kind.CALLS, Kind.WRITES}),
        (Effect.DESTRUCTIVE, {Kind.CALLS, Kind.WRITES, Kind.DESTRUCTIVE}),
    ],
)
def test_a_destructive_call_is_a_write_and_a_call_too(effect: Effect, kinds: set[Kind]) -> None:
    budget = Budget(Scope.SERVER, {Kind.CALLS: 9, Kind.WRITES: 9, Kind.DESTRUCTIVE: 9, Kind.COST: 9}, 60)
    demands = Budgets(windowed=(budget,)).demands(contract(effect), ANN)
    assert {demand.kind for demand in demands} == kinds
    assert all((demand.counter, demand.amount, demand.limit) == ("server", 1, 9) for demand in demands)


def test_what_costs_nothing_takes_no_cost_and_a_run_of_one_has_its_own_ceiling() -> None:
    budgets = Budgets(run=Budget(Scope.RUN, {Kind.COST: 2_000_000, Kind.OUTPUT_BYTES: 1}))
    assert budgets.beyond_run(contract()) is None
    assert budgets.beyond_run(contract(cost=2)) is None
    assert budgets.beyond_run(contract(cost=2.5)) == Demand("run", Kind.COST, 0, 2_500_000, 2_000_000)
    assert Budgets(run=Budget(Scope.RUN, {Kind.ELAPSED_S: 0})).beyond_run(contract()) is not None


@pytest.mark.parametrize("value", [None, "5", True, -1, float("inf"), [5]])
def test_what_cannot_be_added_up_makes_the_rule_match(value: JsonValue) -> None:
    rule = Rule(id="r", verdict=Verdict.DENY, limit=RuleLimit(window_s=60, sum="/amount", max=10))
    policy = Policy([rule], {Effect.WRITE: Verdict.ALLOW})
    assert policy.decide(contract(), {"amount": value}, ANN).verdict is Verdict.DENY
    assert policy.decide(contract(), {}, ANN).verdict is Verdict.DENY
    assert policy.decide(contract(), {"amount": 11}, ANN).verdict is Verdict.ALLOW
    assert policy.decide(contract(), {"amount": 1}, ANN, beyond={"r"}).verdict is Verdict.DENY


def test_a_limited_rule_hides_no_tool_and_leaves_its_approval_open() -> None:
    policy = Policy([Rule(id="r", verdict=Verdict.DENY, limit=RuleLimit(window_s=60, calls=0))])
    assert not policy.hides(contract(), ANN)
    assert policy.standing(contract(), ANN) is Standing.DEPENDS


def test_a_rule_counts_the_calls_that_its_conditions_hold_of() -> None:
    limit = RuleLimit(window_s=60, calls=3, sum="/amount", max=10, per=Scope.TENANT)
    policy = Policy([Rule(id="r", verdict=Verdict.DENY, when={"/amount": {"gt": 1}}, limit=limit)])
    assert policy.counting(contract(), {"amount": 1}, ANN) == []
    (ready,) = policy.counting(contract(), {"amount": 2.5}, ANN)
    assert isinstance(ready, ReadyLimit)
    assert ready.demands({"amount": 2.5}, ANN) == [
        Demand("rule:r/tenant:a%2Fb", Kind.CALLS, 60_000_000, 1, 3, "r"),
        Demand("rule:r/tenant:a%2Fb", Kind.SUM, 60_000_000, 2_500_000, 10_000_000, "r"),
    ]


def test_a_check_finds_a_sum_over_what_no_tool_has() -> None:
    rule = Rule(id="r", verdict=Verdict.DENY, tool="pay", limit=RuleLimit(window_s=60, sum="/amuont", max=10))
    errors = [one for one in check(Policy([rule]), [], [contract()]) if one.severity is Severity.ERROR]
    assert [one.rule_id for one in errors] == ["r"]
    assert "'/amuont', so that limit counts as met" in errors[0].text
