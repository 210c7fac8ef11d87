"""An explanation says what the decision did and why, rule by rule, and shows no secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.policy import Policy, Rule, Standing
from counterfoil.registry.policy_explain import ABSENT, Explanation, Obstacle, RuleSaid, explain
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, JsonObject, Verdict

ALLOW, APPROVE, DENY = Verdict.ALLOW, Verdict.APPROVE, Verdict.DENY
ALICE = Principal("a", "alice", scopes=frozenset({"orders:read"}))
REFUND = Contract(
    "orders_refund",
    Text("Refund", "", ("orders", "money")),
    Schemas({"type": "object", "properties": {"amount": {"type": "number"}, "note": {"type": "string"}}}),
    Gate(Effect.WRITE, scopes=("orders:refund",), sensitive=("/note",)),
)


def explained(rules: list[Rule], arguments: JsonObject | None = None) -> Explanation:
    return explain(Policy(rules), REFUND, arguments, ALICE)


def only(rule: Rule, arguments: JsonObject | None = None) -> RuleSaid:
    (said,) = explained([rule], arguments).rules
    return said


def test_the_clause_that_failed_says_where_what_was_expected_and_what_came() -> None:
    said = only(Rule(id="big", verdict=DENY, when={"/amount": {"gt": 100, "lt": 500}}), {"amount": 50})
    over, under = said.clauses
    assert (said.covers, said.matches) == (True, False)
    assert (over.path, over.expected, over.got, over.answer) == ("/amount", "gt 100", "50", False)
    assert under.answer is True


@pytest.mark.parametrize(("verdict", "counts"), [(DENY, True), (APPROVE, True), (ALLOW, False)])
def test_what_cannot_be_compared_counts_against_the_caller(verdict: Verdict, counts: bool) -> None:
    said = only(Rule(id="r", verdict=verdict, when={"/amount": {"gt": 100}}), {"amount": "much"})
    (clause,) = said.clauses
    assert (clause.answer, clause.counts, said.matches) == (None, counts, counts)


def test_an_absent_place_is_said_to_be_absent() -> None:
    (clause,) = only(Rule(id="r", verdict=DENY, when={"/amount": {"gt": 1}}), {}).clauses
    assert clause.got == ABSENT


def test_a_rule_about_other_calls_names_every_field_that_rules_this_one_out() -> None:
    said = only(Rule(id="r", verdict=DENY, tool="mail_*", subject="bob", tags=("mail",)), {})
    assert said.matches is False
    assert said.obstacles == (
        Obstacle("tool", "mail_*", "orders_refund"),
        Obstacle("tags", "mail", "orders, money"),
        Obstacle("subject", "bob", "alice"),
    )


@pytest.mark.parametrize("path", ["/note", ""])
def test_a_sensitive_value_is_told_by_its_length(path: str) -> None:
    (clause,) = only(Rule(id="r", verdict=DENY, when={path: {"ne": "x"}}), {"note": "my PIN is 1234"}).clauses
    assert "1234" not in clause.got
    assert "characters" in clause.got


def test_a_value_under_a_secret_name_is_told_by_its_length() -> None:
    (clause,) = only(Rule(id="r", verdict=DENY, when={"/password": {"ne": "x"}}), {"password": "hunter22"}).clauses
    assert clause.got == "8 characters (sensitive)"


def test_it_names_the_rule_that_takes_the_default_away() -> None:
    rules = [Rule(id="low", verdict=ALLOW, tool="orders_refund", when={"/amount": {"le": 10}})]
    assert explained(rules, {"amount": 5}).default.lowered_by == "low"
    assert explained(rules, {"amount": 50}).default.lowered_by is None
    assert explained(rules, {"amount": 50}).default.verdict is APPROVE


def test_without_arguments_a_condition_is_open_and_only_the_standing_is_known() -> None:
    found = explained([Rule(id="big", verdict=DENY, when={"/amount": {"gt": 100}}), Rule(id="all", verdict=APPROVE)])
    assert found.decision is None
    assert found.standing is Standing.DEPENDS
    assert [rule.matches for rule in found.rules] == [None, True]


def test_missing_scopes_are_named() -> None:
    assert explained([], {}).missing_scopes == ("orders:refund",)


FIELDS = {
    "tool": st.sampled_from([None, "*", "orders_*", "orders_refund", "mail_*"]),
    "effect": st.sampled_from([None, *Effect]),
    "tags": st.sampled_from([(), ("money",), ("mail",)]),
    "scope": st.sampled_from([None, "orders:refund", "other"]),
    "tenant": st.sampled_from([None, "a", "b"]),
    "subject": st.sampled_from([None, "alice", "bob"]),
    "upstream": st.sampled_from([None, "shop"]),
    "when": st.sampled_from([{}, {"/amount": {"gt": 100}}, {"/amount": {"lt": 100}}, {"/absent": {"eq": 1}}]),
}


@given(st.lists(st.tuples(st.sampled_from([ALLOW, APPROVE, DENY]), st.fixed_dictionaries(FIELDS)), max_size=4))
def test_it_agrees_with_the_decision_whatever_the_rules_are(drawn: list[tuple[Verdict, dict[str, object]]]) -> None:
    rules = [Rule(id=f"r{n}", verdict=verdict, **fields) for n, (verdict, fields) in enumerate(drawn)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # mixed fields, each of its own type
    arguments: JsonObject = {"amount": 150}
    policy = Policy(rules)
    found = explain(policy, REFUND, arguments, ALICE)
    assert found.decision == policy.decide(REFUND, arguments, ALICE)
    matching = [rule for rule, said in zip(rules, found.rules, strict=True) if said.matches]
    assert policy.resolve(REFUND, matching) == found.decision
    for said, ready in zip(found.rules, policy.ready, strict=True):
        assert said.covers == ready.covers(REFUND, ALICE.tenant, ALICE.subject)
        assert said.matches == (said.covers and all(clause.counts for clause in said.clauses))
