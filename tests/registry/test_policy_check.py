"""What `check` says of a policy before any call: its tests, names that nothing has, defaults lowered, overlaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.policy import Policy, Rule
from counterfoil.registry.policy_check import Finding, PolicyTest, Severity, check
from counterfoil.registry.vocabulary import Assurance, Effect, JsonObject, Verdict

ALLOW, APPROVE, DENY = Verdict.ALLOW, Verdict.APPROVE, Verdict.DENY


def tool(name: str, effect: Effect = Effect.WRITE, properties: JsonObject | None = None) -> Contract:
    schema: JsonObject = {"type": "object", "properties": properties or {"amount": {"type": "number"}}}
    return Contract(name, Text(name, ""), Schemas(schema), Gate(effect))


REFUND = tool("orders_refund")
READ = tool("orders_get", Effect.READ)
DROP = tool("drop_volume", Effect.DESTRUCTIVE)


class TestCheck:
    TOOLS = (REFUND, READ, DROP)

    def findings(self, rules: list[Rule], tests: list[PolicyTest] | None = None) -> list[Finding]:
        return check(Policy(rules), tests or [], self.TOOLS)

    def test_embedded_tests_pass_in_silence_and_fail_with_the_rule_that_decided(self) -> None:
        rule = Rule(id="big", verdict=DENY, tool="orders_refund", when={"/amount": {"gt": 100}}, subject="me")
        call = PolicyTest(tool="orders_refund", arguments={"amount": 150}, expect=DENY, rule_id="big")
        assert self.findings([rule], [call]) == []
        (failed,) = self.findings([rule], [replace(call, subject="somebody else")])
        assert (failed.severity, failed.rule_id) == (Severity.ERROR, "big")
        assert "expects 'deny', but 'default:write' gives 'approve'" in failed.text

    def test_a_tool_that_nobody_registered_is_an_error_in_a_rule_and_in_a_test(self) -> None:
        rule = Rule(id="typo", verdict=DENY, tool="orders_refnd")
        found = self.findings([rule], [PolicyTest(tool="nothing_like_it", expect=DENY, rule_id="typo")])
        assert [one.severity for one in found] == [Severity.ERROR, Severity.ERROR]
        assert "did you mean 'orders_refund'?" in found[1].text

    def test_a_pattern_that_matches_nothing_is_a_note(self) -> None:
        (found,) = self.findings([Rule(id="r", verdict=DENY, tool="mail_*")])
        assert found == Finding(Severity.NOTE, "r", "no registered tool matches 'mail_*'")

    def test_a_pointer_that_the_schema_does_not_have_is_an_error_and_says_what_it_means(self) -> None:
        when = {"/amont": {"gt": 1}}
        (denies,) = self.findings([Rule(id="r", verdict=DENY, tool="orders_refund", when=when)])
        (allows,) = self.findings([Rule(id="r", verdict=ALLOW, tool="orders_get", when=when)])
        assert denies.severity is Severity.ERROR
        assert "'/amont', so that condition counts as met" in denies.text
        assert "can never match" in allows.text

    def test_a_pointer_that_only_some_of_the_tools_have_is_a_note(self) -> None:
        other = tool("orders_close", properties={"id": {"type": "string"}})
        rule = Rule(id="r", verdict=DENY, tool="orders_*", when={"/amount": {"gt": 1}})
        (found,) = check(Policy([rule]), [], [REFUND, other])
        assert found.severity is Severity.NOTE
        assert "orders_close" in found.text

    def test_a_rule_that_lowers_a_default_is_a_note(self) -> None:
        (found,) = self.findings([Rule(id="r", verdict=ALLOW, effect=Effect.DESTRUCTIVE)])
        assert found.severity is Severity.NOTE
        assert "lowers the default of effect 'destructive', 'approve', for drop_volume" in found.text

    def test_a_client_assurance_that_reaches_a_destructive_tool_is_a_note(self) -> None:
        (found,) = self.findings([Rule(id="r", verdict=APPROVE, tool="drop_*", assurance=Assurance.CLIENT)])
        assert "for drop_volume an operator is asked" in found.text

    def test_overlapping_rules_of_different_verdicts_are_a_note(self) -> None:
        rules = [
            Rule(id="a", verdict=APPROVE, tool="orders_refund", when={"/amount": {"gt": 50}}),
            Rule(id="b", verdict=DENY, tool="orders_*", when={"/amount": {"gt": 100}}),
        ]
        (found,) = self.findings(rules)
        assert found.rule_id == "b"
        assert "overlaps with rule 'a' on orders_refund; there 'deny' wins" in found.text

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ({"when": {"/amount": {"le": 100}}}, {"when": {"/amount": {"gt": 100}}}),
            ({"when": {"/amount": {"eq": 5}}}, {"when": {"/amount": {"lt": 5}}}),
            ({"subject": "alice"}, {"subject": "bob"}),
            ({"effect": Effect.READ}, {"effect": Effect.WRITE}),
        ],
    )
    def test_rules_that_no_call_can_match_together_do_not_overlap(
        self, left: dict[str, object], right: dict[str, object]
    ) -> None:
        base = Rule(id="a", verdict=APPROVE)
        rules = [replace(base, **left), replace(base, id="b", verdict=DENY, **right)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # as above
        assert self.findings(rules) == []

    @pytest.mark.parametrize(
        ("pointer", "known"),
        [("/order/id", True), ("/order/nr", False), ("/lines/3/sku", True), ("/lines/x", False), ("/any/thing", True)],
    )
    def test_pointers_are_followed_through_references_lists_and_open_objects(
        self, pointer: str, *, known: bool
    ) -> None:
        schema: JsonObject = {
            "type": "object",
            "$defs": {"order": {"type": "object", "properties": {"id": {"type": "string"}}}},
            "properties": {
                "order": {"anyOf": [{"$ref": "#/$defs/order"}, {"type": "null"}]},
                "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
                "any": {"type": "object"},
            },
        }
        contract = replace(REFUND, schemas=Schemas(schema))
        rule = Rule(id="r", verdict=DENY, when={pointer: {"exists": True}})
        assert (check(Policy([rule]), [], [contract]) == []) is known
