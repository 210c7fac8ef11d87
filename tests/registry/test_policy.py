"""Verdicts: which rules match, who wins, and what is known before the arguments are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.registry.budgets import RuleLimit, Scope
from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.policy import Policy, PolicyError, Rule, Standing
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Assurance, Effect, JsonObject, JsonValue, Verdict

ALLOW, APPROVE, DENY = Verdict.ALLOW, Verdict.APPROVE, Verdict.DENY
ALICE = Principal("a", "alice", scopes=frozenset({"*"}))
BOB = Principal("b", "bob", scopes=frozenset({"*"}))


def tool(
    name: str = "orders_refund",
    effect: Effect = Effect.WRITE,
    approval: Assurance = Assurance.NONE,
    properties: JsonObject | None = None,
) -> Contract:
    schema: JsonObject = {"type": "object", "properties": properties or {"amount": {"type": "number"}}}
    gate = Gate(effect, scopes=("orders:refund",), approval=approval)
    return Contract(name, Text(name, "", ("orders", "money")), Schemas(schema), gate, upstream="shop")


REFUND = tool()
READ = tool("orders_get", Effect.READ)
DROP = tool("drop_volume", Effect.DESTRUCTIVE)


def verdict(rules: list[Rule], contract: Contract = REFUND, arguments: JsonObject | None = None) -> Verdict:
    return Policy(rules).decide(contract, arguments or {}, ALICE).verdict


class TestDefaults:
    @pytest.mark.parametrize(
        ("contract", "expected", "assurance"),
        [
            (READ, ALLOW, Assurance.NONE),
            (REFUND, APPROVE, Assurance.CLIENT),
            (DROP, APPROVE, Assurance.OPERATOR),
        ],
    )
    def test_without_rules_reads_pass_writes_ask_the_client_and_destructive_tools_an_operator(
        self, contract: Contract, expected: Verdict, assurance: Assurance
    ) -> None:
        decision = Policy().decide(contract, {}, ALICE)
        assert (decision.verdict, decision.assurance) == (expected, assurance)
        assert decision.rule_id == f"default:{contract.gate.effect}"

    def test_a_default_can_be_configured_by_effect_and_the_others_stay(self) -> None:
        policy = Policy([], {Effect.READ: DENY})
        assert policy.decide(READ, {}, ALICE).verdict is DENY
        assert policy.decide(REFUND, {}, ALICE).verdict is APPROVE

    def test_an_allow_rule_that_names_the_effect_lowers_the_default(self) -> None:
        assert verdict([Rule(id="r", verdict=ALLOW, effect=Effect.WRITE)]) is ALLOW

    def test_an_allow_rule_that_names_the_full_tool_lowers_the_default(self) -> None:
        assert verdict([Rule(id="r", verdict=ALLOW, tool="orders_refund")]) is ALLOW

    @pytest.mark.parametrize("rule", [{"tool": "orders_*"}, {"tool": "orders_refun[d]"}, {"tags": ("orders",)}, {}])
    def test_an_allow_rule_that_names_neither_lowers_nothing(self, rule: dict[str, str]) -> None:
        assert verdict([Rule(id="r", verdict=ALLOW, **rule)]) is APPROVE  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # mixed fields, each of its own type

    def test_an_allow_rule_lowers_neither_a_contract_nor_another_rule(self) -> None:
        lower = Rule(id="low", verdict=ALLOW, effect=Effect.WRITE, tool="orders_refund")
        asked = Policy([lower]).decide(tool(approval=Assurance.OPERATOR), {}, ALICE)
        assert (asked.verdict, asked.assurance, asked.rule_id) == (
            APPROVE,
            Assurance.OPERATOR,
            "contract:orders_refund",
        )
        assert verdict([lower, Rule(id="no", verdict=DENY, subject="alice")]) is DENY


class TestStrictness:
    @settings(deadline=None)
    @given(st.permutations(["allow", "approve", "deny"]), st.integers(1, 3))
    def test_the_strictest_of_all_matching_rules_wins_whatever_their_order(self, words: list[str], count: int) -> None:
        kept = [Verdict(word) for word in words[:count]]
        rules = [Rule(id=one.value, verdict=one, tool="orders_refund") for one in kept]
        decision = Policy(rules).decide(REFUND, {}, ALICE)
        assert decision.verdict is max(kept, key=["allow", "approve", "deny"].index)
        assert decision.reason

    def test_the_strongest_assurance_of_all_that_ask_wins_and_is_named(self) -> None:
        rules = [
            Rule(id="one", verdict=APPROVE, assurance=Assurance.CLIENT),
            Rule(id="two", verdict=APPROVE, assurance=Assurance.SECOND_PERSON, reason="Four eyes."),
        ]
        decision = Policy(rules).decide(tool(approval=Assurance.OPERATOR), {}, ALICE)
        assert (decision.assurance, decision.rule_id, decision.reason) == (Assurance.SECOND_PERSON, "two", "Four eyes.")

    def test_a_rule_without_assurance_takes_the_default_of_the_effect(self) -> None:
        policy = Policy([Rule(id="r", verdict=APPROVE)])
        assert policy.decide(REFUND, {}, ALICE).assurance is Assurance.CLIENT
        assert policy.decide(DROP, {}, ALICE).assurance is Assurance.OPERATOR

    def test_a_destructive_tool_never_ends_below_an_operator(self) -> None:
        rules = [
            Rule(id="low", verdict=ALLOW, effect=Effect.DESTRUCTIVE),
            Rule(id="glob", verdict=APPROVE, tool="drop_*", assurance=Assurance.CLIENT),
        ]
        decision = Policy(rules).decide(DROP, {}, ALICE)
        assert (decision.assurance, decision.rule_id) == (Assurance.OPERATOR, "glob")

    def test_every_decision_has_a_reason_of_its_own_where_none_was_written(self) -> None:
        assert Policy([Rule(id="no", verdict=DENY)]).decide(REFUND, {}, ALICE).reason == "Rule 'no' denies it."
        assert "an operator" in Policy().decide(DROP, {}, ALICE).reason


class TestWhoMayDecide:
    def test_over_mcp_needs_every_rule_of_the_effective_assurance_to_say_so(self) -> None:
        yes = Rule(id="yes", verdict=APPROVE, assurance=Assurance.OPERATOR, over_mcp=True)
        no = Rule(id="no", verdict=APPROVE, assurance=Assurance.OPERATOR)
        weaker = Rule(id="weaker", verdict=APPROVE, assurance=Assurance.CLIENT)
        assert Policy([yes]).decide(REFUND, {}, ALICE).over_mcp
        assert Policy([yes, weaker]).decide(REFUND, {}, ALICE).over_mcp
        assert not Policy([yes, no]).decide(REFUND, {}, ALICE).over_mcp

    def test_over_mcp_is_never_had_from_a_default_or_a_contract_alone(self) -> None:
        weaker = Rule(id="weaker", verdict=APPROVE, assurance=Assurance.CLIENT, over_mcp=True)
        assert not Policy().decide(DROP, {}, ALICE).over_mcp
        assert not Policy([weaker]).decide(tool(approval=Assurance.OPERATOR), {}, ALICE).over_mcp

    def test_approvers_of_several_rules_are_those_that_all_of_them_name(self) -> None:
        rules = [
            Rule(id="one", verdict=APPROVE, approvers=("carol", "dave", "os:root")),
            Rule(id="two", verdict=APPROVE, approvers=("dave", "carol"), assurance=Assurance.OPERATOR),
            Rule(id="three", verdict=APPROVE),
        ]
        assert Policy(rules).decide(REFUND, {}, ALICE).approvers == ("carol", "dave")

    def test_rules_without_a_common_approver_deny_rather_than_wait_for_nobody(self) -> None:
        rules = [Rule(id=name, verdict=APPROVE, approvers=(name,)) for name in ("carol", "dave")]
        decision = Policy(rules).decide(REFUND, {}, ALICE)
        assert (decision.verdict, decision.approvers) == (DENY, ())
        assert "'carol', 'dave'" in decision.reason


class TestMatching:
    @pytest.mark.parametrize(
        ("rule", "matches"),
        [
            (Rule(id="r", verdict=DENY, tool="orders_*"), True),
            (Rule(id="r", verdict=DENY, tool="orders"), False),
            (Rule(id="r", verdict=DENY, effect=Effect.READ), False),
            (Rule(id="r", verdict=DENY, tags=("money", "hr")), True),
            (Rule(id="r", verdict=DENY, tags=("hr",)), False),
            (Rule(id="r", verdict=DENY, scope="orders:refund"), True),
            (Rule(id="r", verdict=DENY, scope="orders:read"), False),
            (Rule(id="r", verdict=DENY, tenant="a", subject="alice"), True),
            (Rule(id="r", verdict=DENY, tenant="b", subject="alice"), False),
            (Rule(id="r", verdict=DENY, subject="bob"), False),
            (Rule(id="r", verdict=DENY, upstream="shop"), True),
            (Rule(id="r", verdict=DENY, upstream="other"), False),
        ],
    )
    def test_a_rule_matches_if_every_stated_condition_holds(self, rule: Rule, *, matches: bool) -> None:
        assert (verdict([rule]) is DENY) is matches

    @pytest.mark.parametrize(
        ("condition", "value", "holds"),
        [
            ({"gt": 100}, 150, True),
            ({"gt": 100}, 100, False),
            ({"ge": 100, "lt": 200}, 100.0, True),
            ({"ge": 100, "lt": 200}, 200, False),
            ({"le": 1}, 2, False),
            ({"gt": 2**53}, 2**53 + 1, True),
            ({"gt": float(2**53)}, 2**53 + 1, True),
            ({"eq": 2**70}, 2**70 + 1, False),
            ({"eq": 10}, 10.0, True),
            ({"eq": [1, {"a": 2}]}, [1.0, {"a": 2}], True),
            ({"eq": [1]}, [True], False),
            ({"ne": "x"}, "y", True),
            ({"in": ["eu", "us"]}, "eu", True),
            ({"not_in": ["eu", "us"]}, "eu", False),
            ({"matches": "prod"}, "production", False),
            ({"matches": "prod.*"}, "prod\nuction", True),
            ({"matches": "prod"}, "prod\n", False),
            ({"matches": "a|b"}, "ab", False),
            ({"exists": True}, None, True),
            ({"exists": False}, 1, False),
        ],
    )
    def test_conditions_compare_exactly_in_rules_of_every_verdict(
        self, condition: dict[str, object], value: JsonValue, *, holds: bool
    ) -> None:
        for kind in (DENY, ALLOW):
            rule = Rule(id="r", verdict=kind, tool="orders_refund", when={"/x": condition})
            matched = verdict([rule], arguments={"x": value}) is kind
            assert matched is holds

    @pytest.mark.parametrize(
        ("condition", "arguments"),
        [
            ({"gt": 100}, {}),
            ({"gt": 100}, {"x": "150"}),
            ({"gt": 0}, {"x": True}),
            ({"eq": 1}, {"x": True}),
            ({"ne": 1}, {"x": "1"}),
            ({"in": ["1"]}, {"x": 1}),
            ({"not_in": [1]}, {"x": None}),
            ({"matches": "a"}, {"x": ["a"]}),
            ({"matches": ".*"}, {"x": "\ud800"}),
        ],
    )
    def test_what_cannot_be_compared_matches_in_deny_and_approve_rules_and_not_in_allow_rules(
        self, condition: dict[str, object], arguments: JsonObject
    ) -> None:
        def rule(kind: Verdict) -> Rule:
            return Rule(id="r", verdict=kind, tool="orders_get", when={"/x": condition})

        assert verdict([rule(DENY)], READ, arguments) is DENY
        assert verdict([rule(APPROVE)], READ, arguments) is APPROVE
        assert Policy([rule(ALLOW)], {Effect.READ: DENY}).decide(READ, arguments, ALICE).verdict is DENY

    def test_absence_is_an_answer_to_exists_and_not_a_doubt(self) -> None:
        rule = Rule(id="r", verdict=DENY, when={"/x": {"exists": True}})
        assert verdict([rule], READ, {}) is ALLOW
        assert verdict([replace(rule, when={"/x": {"exists": False}})], READ, {}) is DENY

    @pytest.mark.parametrize(
        ("pointer", "found"),
        [("/items/1/id", True), ("/items/2/id", False), ("/items/01/id", False), ("/a~1b", True), ("/a~0b", False)],
    )
    def test_pointers_lead_into_members_and_lists(self, pointer: str, *, found: bool) -> None:
        arguments: JsonObject = {"items": [{"id": 1}, {"id": 2}], "a/b": 1}
        rule = Rule(id="r", verdict=DENY, when={pointer: {"exists": True}})
        assert (verdict([rule], READ, arguments) is DENY) is found

    def test_a_hostile_text_cannot_make_a_pattern_slow(self) -> None:
        rule = Rule(id="r", verdict=DENY, when={"/x": {"matches": "(a+)+b"}})
        assert verdict([rule], READ, {"x": "a" * 200_000}) is ALLOW


class TestRefusedRules:
    @pytest.mark.parametrize(
        ("rule", "field", "words"),
        [
            (Rule(id="r", verdict=DENY, when={"/x": {"gtt": 1}}), "when./x", "did you mean 'gt'"),
            (Rule(id="r", verdict=DENY, when={"x": {"gt": 1}}), "when.x", "JSON Pointer"),
            (Rule(id="r", verdict=DENY, when={"/x": {}}), "when./x", "no operator"),
            (Rule(id="r", verdict=DENY, when={"/x": {"gt": True}}), "when./x", "finite number"),
            (Rule(id="r", verdict=DENY, when={"/x": {"le": float("nan")}}), "when./x", "finite number"),
            (Rule(id="r", verdict=DENY, when={"/x": {"in": []}}), "when./x", "at least one"),
            (Rule(id="r", verdict=DENY, when={"/x": {"eq": object()}}), "when./x", "no JSON value"),
            (Rule(id="r", verdict=DENY, when={"/x": {"exists": 1}}), "when./x", "true or false"),
            (Rule(id="r", verdict=DENY, when={"/x": {"matches": "("}}), "when./x", "regular expression"),
            (Rule(id="r", verdict=DENY, when={"/x": {"matches": "a)|(b"}}), "when./x", "regular expression"),
            (Rule(id="r", verdict=DENY, when={"/x": {"matches": "a" * 201}}), "when./x", "at most 200"),
            (Rule(id="r", verdict=DENY, tool="Orders_*"), "tool", "matches no tool name"),
            (Rule(id="r", verdict=DENY, assurance=Assurance.OPERATOR), "assurance", "'approve'"),
            (Rule(id="r", verdict=ALLOW, approvers=("bob",)), "approvers", "'approve'"),
            (Rule(id="r", verdict=DENY, over_mcp=True), "over_mcp", "'approve'"),
            (Rule(id="r", verdict=APPROVE, assurance=Assurance.NONE), "assurance", "'operator'"),
            (
                Rule(id="r", verdict=APPROVE, effect=Effect.DESTRUCTIVE, assurance=Assurance.CLIENT),
                "assurance",
                "reversible",
            ),
            (Rule(id="r", verdict=APPROVE, approvers=("",)), "approvers", "empty"),
            (Rule(id="r", verdict=ALLOW, limit=RuleLimit(window_s=60, calls=1)), "limit", "'deny' or 'approve'"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=60)), "limit.calls", "limits nothing"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=60, sum="/x")), "limit.max", "go together"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=60, max=5)), "limit.sum", "go together"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=0, calls=5)), "limit.window_s", "positive"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=60, sum="x", max=5)), "limit.sum", "JSON Pointer"),
            (Rule(id="r", verdict=DENY, limit=RuleLimit(window_s=60, calls=5, per=Scope.RUN)), "limit.per", "tenant"),
            (Rule(id="default:write", verdict=DENY), "id", "short name"),
        ],
    )
    def test_a_rule_that_cannot_be_right_is_refused_by_id_and_field(self, rule: Rule, field: str, words: str) -> None:
        with pytest.raises(PolicyError) as caught:
            Policy([rule])
        assert (caught.value.rule_id, caught.value.field) == (rule.id, field)
        assert words in str(caught.value)

    def test_two_rules_never_share_an_id(self) -> None:
        with pytest.raises(PolicyError, match="'r', id"):
            Policy([Rule(id="r", verdict=DENY, tool="a"), Rule(id="r", verdict=DENY, tool="b")])


class TestStanding:
    BIG = Rule(id="big", verdict=APPROVE, assurance=Assurance.SECOND_PERSON, when={"/amount": {"gt": 100}})

    @pytest.mark.parametrize(
        ("rules", "contract", "expected"),
        [
            ([], READ, Standing.NONE),
            ([], REFUND, Standing.CLIENT),
            ([], DROP, Standing.OPERATOR),
            ([BIG], REFUND, Standing.DEPENDS),
            ([Rule(id="no", verdict=DENY, tenant="a")], REFUND, Standing.DENIED),
            ([Rule(id="no", verdict=DENY, tenant="b")], REFUND, Standing.CLIENT),
            ([BIG, replace(BIG, id="all", when={})], REFUND, Standing.SECOND_PERSON),
            (
                [Rule(id="ok", verdict=ALLOW, effect=Effect.WRITE, when={"/amount": {"lt": 5}})],
                REFUND,
                Standing.DEPENDS,
            ),
            ([Rule(id="no", verdict=DENY, when={"/amount": {"lt": 5}})], REFUND, Standing.DEPENDS),
        ],
    )
    def test_says_what_is_known_before_the_arguments_are(
        self, rules: list[Rule], contract: Contract, expected: Standing
    ) -> None:
        assert Policy(rules).standing(contract, ALICE) is expected

    def test_only_a_denial_whatever_the_arguments_hides_a_tool(self) -> None:
        sometimes = Rule(id="r", verdict=DENY, tool="orders_refund", when={"/amount": {"gt": 1}})
        assert not Policy([sometimes]).hides(REFUND, ALICE)
        assert Policy([replace(sometimes, when={})]).hides(REFUND, ALICE)
        assert not Policy([replace(sometimes, when={}, subject="alice")]).hides(REFUND, BOB)

    def test_a_tool_denied_by_default_is_hidden_unless_some_arguments_are_allowed(self) -> None:
        defaults = {Effect.WRITE: DENY}
        small = Rule(id="small", verdict=ALLOW, tool="orders_refund", when={"/amount": {"lt": 5}})
        assert Policy([], defaults).hides(REFUND, ALICE)
        assert not Policy([small], defaults).hides(REFUND, ALICE)

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(list(Verdict)), st.booleans()), max_size=5), st.integers(0, 3))
    def test_no_arguments_ever_get_a_verdict_that_the_standing_rules_out(
        self, shapes: list[tuple[Verdict, bool]], amount: int
    ) -> None:
        rules = [
            Rule(id=str(n), verdict=kind, effect=Effect.WRITE, when={"/amount": {"gt": n}} if conditional else {})
            for n, (kind, conditional) in enumerate(shapes)
        ]
        policy = Policy(rules)
        decision = policy.decide(REFUND, {"amount": amount}, ALICE)
        standing = policy.standing(REFUND, ALICE)
        got = "denied" if decision.verdict is DENY else decision.assurance.value
        assert standing in (Standing.DEPENDS, got)

    def test_principals_of_one_audience_get_the_same_verdicts(self) -> None:
        by_tenant = Policy([Rule(id="r", verdict=DENY, tenant="a")])
        assert by_tenant.audience(ALICE) == by_tenant.audience(replace(ALICE, subject="carol"))
        assert by_tenant.audience(ALICE) != by_tenant.audience(BOB)
