"""Tools, scopes, narrowing, compensations, policy, `allow` and budgets: what each rules out, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterfoil.registry.budgets import Budget, Budgets, Kind, Scope
from counterfoil.registry.contract import Limits, Retry
from counterfoil.registry.policy import Policy, Rule
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, JsonObject, JsonValue, Verdict, Visibility
from counterfoil.runtime.plan.checking import PlanLimits
from tests.runtime.plan.shop import ORDER_STEP, STRING, checked, plan, problems, record, rules, step, told, tool

REFUND_STEP = step("pay", "orders_refund", {"order_id": "ord_1", "amount": 5})
READER = Principal("a", "bob", scopes=frozenset({"orders:read"}))


def no(**fields: object) -> Policy:
    return Policy([Rule(id="no", verdict=Verdict.DENY, **fields)])  # type: ignore[arg-type]  # mixed fields, each of its own type


class TestTools:
    def test_an_unknown_tool_is_told_with_the_nearest_one(self) -> None:
        found = problems(plan(step("a", "orders_gett", {"order_id": "x"})))
        assert [(one.step, one.field, one.code) for one in found] == [("a", "tool", "unknown_tool")]
        assert "Did you mean orders_get?" in found[0].message

    @pytest.mark.parametrize("name", ["tool_call", "run", "plan", "exec"])
    def test_a_base_tool_is_no_step(self, name: str) -> None:
        found = problems(plan(step("a", name)))
        assert [(one.code, one.field) for one in found] == [("unknown_tool", "tool")]
        assert "base tool" in found[0].message

    @pytest.mark.parametrize("ending", ["__probe", "__undo"])
    def test_a_probe_or_an_undo_is_no_step_and_no_compensation(self, ending: str) -> None:
        inner = replace(tool("orders_drop"), name="orders_drop" + ending, asked_about="orders_drop")
        under = rules(tool("orders_drop"), inner)
        undo: JsonObject = {"tool": inner.name, "args": {}}
        assert told(plan(step("a", inner.name), {**REFUND_STEP, "compensate": undo}), under) == [
            ("a", "tool", "unknown_tool"),
            ("pay", "compensate.tool", "unknown_tool"),
        ]

    def test_a_hidden_tool_and_one_that_policy_denies_outright_look_like_one_that_nobody_registered(self) -> None:
        hidden = tool("orders_gone", gate={"visibility": Visibility.HIDDEN})
        under = rules(hidden, policy=no(tool="orders_refund"))
        messages = [
            problems(plan(step("a", name)), under)[0].message
            for name in ("orders_gone", "orders_refund", "orders_none")
        ]
        assert {
            text.replace("gone", "X").replace("refund", "X").replace("none", "X").split(".")[0] for text in messages
        } == {"tool: there is no tool 'orders_X'"}

    def test_a_version_is_pinned_and_the_last_one_is_taken_without(self) -> None:
        under = rules(tool("echo", version="2"))
        found = checked(plan(step("a", "echo"), step("b", "echo", version="1")), under).plan.steps
        assert [one.version for one in found] == ["2", "1"]
        wrong = problems(plan(step("a", "echo", version="3")), under)
        assert [(one.code, "'2'" in one.message) for one in wrong] == [("unknown_tool", True)]

    def test_missing_scopes_are_named_and_say_nothing_of_the_schema(self) -> None:
        found = problems(plan(ORDER_STEP, step("pay", "orders_refund", {"nonsense": 1})), who=READER)
        assert [(one.step, one.field, one.code) for one in found] == [("pay", "tool", "insufficient_scope")]
        assert "orders:refund" in found[0].message


class TestNarrowing:
    TOOL = tool("slow", limits=Limits(timeout_s=10, retry=Retry(attempts=3, backoff_s=2, least_s=4)))

    @pytest.mark.parametrize(
        "fields",
        [
            {"timeout_s": 10},
            {"timeout_s": 0.5},
            {"retry": {"attempts": 1, "backoff_s": 2, "least_s": 9}},
            {"retry": {}},
        ],
    )
    def test_a_step_may_narrow_its_contract(self, fields: JsonObject) -> None:
        assert told(plan(step("a", "slow", None, **fields)), rules(self.TOOL)) == []

    @pytest.mark.parametrize(
        ("fields", "place", "figure"),
        [
            ({"timeout_s": 11}, "timeout_s", "at most 10, not 11"),
            ({"retry": {"attempts": 4}}, "retry.attempts", "at most 3, not 4"),
            ({"retry": {"backoff_s": 1}}, "retry.backoff_s", "at least 2, not 1"),
            ({"retry": {"least_s": 3}}, "retry.least_s", "at least 4, not 3"),
        ],
    )
    def test_a_step_that_goes_beyond_its_contract_is_told_the_contracts_figure(
        self, fields: JsonObject, place: str, figure: str
    ) -> None:
        found = problems(plan(step("a", "slow", None, **fields)), rules(self.TOOL))
        assert [(one.field, one.code) for one in found] == [(place, "invalid_arguments")]
        assert figure in found[0].message

    def test_a_write_has_one_attempt_unless_its_contract_says_otherwise(self) -> None:
        assert told(plan(step("a", "notify_send", {"to": "", "text": ""}, retry={"attempts": 2}))) == [
            ("a", "retry.attempts", "invalid_arguments")
        ]


class TestAllow:
    @pytest.mark.parametrize(
        ("allow", "codes"),
        [
            ({"tools": ["orders_*", "notify_send"]}, []),
            ({"tools": ["orders_get"]}, ["tool"]),
            ({"tools": []}, ["tool", "tool"]),
            ({"effects": ["read"]}, ["tool"]),
            ({"effects": ["read", "destructive"]}, []),
            ({"max_cost": 1}, []),
            ({"max_cost": 0.5}, ["allow.max_cost", "tool"]),
            ({}, []),
        ],
    )
    def test_what_the_plan_itself_rules_out_is_denied(self, allow: JsonObject, codes: list[str]) -> None:
        found = problems(plan(ORDER_STEP, REFUND_STEP, allow=allow))
        assert [one.field for one in found] == codes
        assert {one.code for one in found} <= {"denied"}

    def test_the_cost_of_all_steps_together_counts_too(self) -> None:
        again = {**REFUND_STEP, "id": "again"}
        assert told(plan(REFUND_STEP, again, allow={"max_cost": 1})) == [(None, "allow.max_cost", "denied")]

    def test_a_compensation_that_the_plan_names_is_held_to_it(self) -> None:
        undo: JsonObject = {"tool": "orders_charge", "args": {"order_id": "a", "amount": 1}}
        document = plan({**REFUND_STEP, "compensate": undo}, allow={"tools": ["orders_refund"]})
        assert told(document) == [("pay", "compensate.tool", "denied")]


class TestCompensation:
    TELL = step("tell", "notify_send", {"to": "a", "text": "b"})

    def test_strict_refuses_an_effect_that_nothing_undoes(self) -> None:
        document = plan(ORDER_STEP, REFUND_STEP, self.TELL, on_failure="compensate", compensation="strict")
        assert told(document) == [("tell", "compensate", "not_compensable")]

    def test_a_read_undoes_nothing(self) -> None:
        document = plan({**self.TELL, "compensate": {"tool": "echo", "args": {}}}, on_failure="compensate")
        assert told(document) == [("tell", "compensate.tool", "not_compensable")]

    @pytest.mark.parametrize("compensate", ["none", {"tool": "notify_send", "args": {"to": "a", "text": "forget it"}}])
    def test_strict_takes_an_own_compensation_and_an_effect_that_is_kept_on_purpose(
        self, compensate: JsonValue
    ) -> None:
        document = plan({**self.TELL, "compensate": compensate}, on_failure="compensate", compensation="strict")
        assert told(document) == []

    def test_best_effort_warns_of_what_nothing_undoes(self) -> None:
        found = checked(plan(REFUND_STEP, self.TELL, on_failure="compensate"))
        assert any("no compensation: tell." in one for one in found.warnings)
        assert not any("pay" in one and "no compensation" in one for one in found.warnings)

    def test_the_scopes_of_a_compensation_are_needed_where_it_could_run(self) -> None:
        who = Principal("a", "carol", scopes=frozenset({"orders:refund"}))
        assert told(plan(REFUND_STEP), who=who) == []
        found = problems(plan(REFUND_STEP, on_failure="compensate"), who=who)
        assert [(one.step, one.field, one.code) for one in found] == [("pay", "compensate", "insufficient_scope")]
        assert "orders:charge" in found[0].message
        undo: JsonObject = {"tool": "orders_charge", "args": {"order_id": "a", "amount": 1}}
        assert told(plan({**REFUND_STEP, "compensate": undo}), who=who) == [
            ("pay", "compensate.tool", "insufficient_scope")
        ]

    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            ({"order_id": "${order.order_id}", "amount": "${pay.amount}"}, []),
            ({"order_id": "${pay.refund_id}", "amount": "${refund.amount ?? 0}"}, []),
            ({"order_id": "a", "amount": "${pay.refund_id}"}, [("compensate.args.amount", "bad_reference")]),
            ({"order_id": "a", "amount": "${pay.amuont}"}, [("compensate.args.amount", "bad_reference")]),
            ({"order_id": "a"}, [("compensate.args.amount", "invalid_arguments")]),
            ({"order_id": "a", "amount": "${item}"}, [("compensate.args.amount", "bad_reference")]),
        ],
    )
    def test_the_arguments_of_an_own_compensation_are_checked_and_may_use_the_steps_own_output(
        self, args: JsonObject, expected: list[tuple[str, str]]
    ) -> None:
        undo: JsonObject = {"tool": "orders_charge", "args": args}
        pay: JsonObject = {**REFUND_STEP, "save_as": "refund", "compensate": undo}
        assert [(one.field, one.code) for one in problems(plan(ORDER_STEP, pay))] == expected

    def test_of_a_for_each_the_compensation_has_the_item_and_its_own_output(self) -> None:
        undo: JsonObject = {"tool": "orders_charge", "args": {"order_id": "${item}", "amount": "${pay.amount}"}}
        pay = step("pay", "orders_refund", {"order_id": "${item}", "amount": 1}, for_each=["a", "b"], compensate=undo)
        assert told(plan(pay)) == []


class TestPolicy:
    def test_what_policy_denies_with_known_arguments_is_denied_with_its_reason(self) -> None:
        policy = Policy(
            [
                Rule(
                    id="cap",
                    verdict=Verdict.DENY,
                    tool="orders_refund",
                    when={"/amount": {"gt": 3}},
                    reason="Too much.",
                )
            ]
        )
        found = problems(plan(REFUND_STEP), rules(policy=policy))
        assert [(one.step, one.field, one.code) for one in found] == [("pay", "tool", "denied")]
        assert "Too much." in found[0].message
        assert "cap" in found[0].message

    def test_an_item_that_policy_denies_is_named(self) -> None:
        policy = no(tool="notify_send", when={"/to": {"eq": "bad"}})
        tell = step("tell", "notify_send", {"to": "${item}", "text": "x"}, for_each=["good", "bad"])
        found = problems(plan(tell), rules(policy=policy))
        assert [one.code for one in found] == ["denied"]
        assert found[0].message.endswith("(item 1)")

    def test_a_default_of_the_tool_counts(self) -> None:
        takes = record([], level={"type": "integer", "default": 9}, x=True)
        policy = no(tool="levelled", when={"/level": {"ge": 9}})
        document = plan(
            ORDER_STEP,
            step("a", "levelled"),
            step("b", "levelled", {"x": "${order}"}),
            step("c", "levelled", {"level": 1}),
        )
        assert told(document, rules(tool("levelled", takes), policy=policy)) == [
            ("a", "tool", "denied"),
            ("b", "tool", "denied"),
        ]


class TestBudgets:
    CEILING = Budgets(Budget(Scope.RUN, {Kind.CALLS: 3, Kind.DESTRUCTIVE: 1, Kind.COST: 1_500_000}))

    @pytest.mark.parametrize(
        ("budget", "field"),
        [({"calls": 1}, "budget.calls"), ({"writes": 0}, "budget.writes"), ({"destructive": 0}, "budget.destructive"),
         ({"cost": 0.5}, "budget.cost"), ({"output_bytes": 0}, "budget.output_bytes"),
         ({"elapsed_s": 0}, "budget.elapsed_s")],
    )  # fmt: skip
    def test_a_plan_that_certainly_takes_more_than_it_asks_for_is_over_budget(
        self, budget: JsonObject, field: str
    ) -> None:
        found = problems(plan(ORDER_STEP, REFUND_STEP, budget=budget))
        assert [(one.step, one.field, one.code) for one in found] == [(None, field, "over_budget")]

    def test_the_ceiling_of_the_configuration_counts_too_and_is_named(self) -> None:
        document = plan(REFUND_STEP, {**REFUND_STEP, "id": "b"}, budget={"calls": 9})
        found = problems(document, rules(budgets=self.CEILING))
        assert [(one.field, one.code) for one in found] == [
            ("budget.destructive", "over_budget"),
            ("budget.cost", "over_budget"),
        ]
        assert all("[budgets.run]" in one.message for one in found)

    @pytest.mark.parametrize(
        ("limits", "refused"),
        [({Kind.WRITES: 0}, True), ({Kind.OUTPUT_BYTES: 0}, True), ({Kind.WRITES: 1, Kind.CALLS: 1}, False)],
    )
    def test_a_step_that_fits_into_no_window_of_a_wider_budget_is_named(
        self, limits: dict[Kind, int], refused: bool
    ) -> None:
        wider = rules(budgets=Budgets(windowed=(Budget(Scope.TENANT, limits, 3_600_000_000),)))
        found = problems(plan(REFUND_STEP), wider) if refused else []
        assert [(one.step, one.field, one.code) for one in found] == [("pay", "tool", "over_budget")] * refused
        assert all("[budgets.tenant] has 0 in each window" in one.message for one in found)
        assert told(plan({**REFUND_STEP, "when": "${input.maybe ?? false}"}), wider) == []
        assert told(plan(REFUND_STEP, {**REFUND_STEP, "id": "b"}), wider) == [
            (name, "tool", "over_budget") for name in ("pay", "b") if refused
        ]

    def test_a_plan_may_ask_for_less_and_is_warned_if_it_asks_for_more(self) -> None:
        found = checked(plan(ORDER_STEP, budget={"calls": 9, "writes": 2}), rules(budgets=self.CEILING))
        assert found.budget["limits"] == {"calls": 3, "destructive": 1, "cost": 1.5, "writes": 2}
        assert any(one.startswith("budget.calls is 9") for one in found.warnings)

    @pytest.mark.parametrize(
        "steps",
        [
            [step("s", "shipments_get", {"shipment_id": "x"}), {**REFUND_STEP, "when": "${s.late}"}],
            [step("s", "echo", when="${input.maybe ?? false}"), {**REFUND_STEP, "depends_on": ["s"]}],
            [ORDER_STEP, {**REFUND_STEP, "for_each": "${order.contacts}"}],
            [{**REFUND_STEP, "for_each": []}],
        ],
    )
    def test_what_may_not_happen_is_no_reason_to_refuse(self, steps: list[JsonValue]) -> None:
        assert told(plan(*steps, budget={"destructive": 0})) == []

    def test_items_that_are_known_count_each(self) -> None:
        each: JsonObject = {**REFUND_STEP, "for_each": [1, 2, 3]}
        assert told(plan(each, budget={"calls": 2})) == [(None, "budget.calls", "over_budget")]
        assert told(plan(each, budget={"calls": 3})) == []

    def test_a_list_that_has_at_least_so_many_items_counts_those(self) -> None:
        make = tool("make", None, record(l={"type": "array", "items": STRING, "minItems": 4}))
        document = plan(step("m", "make"), step("e", "echo", {"x": "${item}"}, for_each="${m.l}"), budget={"calls": 4})
        assert told(document, rules(make)) == [(None, "budget.calls", "over_budget")]
        otherwise = step("e", "echo", {"x": "${item}"}, for_each="${m.l ?? []}")
        assert told(plan(step("m", "make"), otherwise, budget={"calls": 4}), rules(make)) == []

    def test_a_step_behind_one_that_needs_only_settled_is_certain(self) -> None:
        after: JsonObject = {**REFUND_STEP, "depends_on": ["s"], "needs": "settled"}
        skipped = step("s", "echo", when="${input.no}")
        assert told(plan(skipped, after, budget={"destructive": 0}, input={"no": False})) == [
            (None, "budget.destructive", "over_budget")
        ]
        assert told(plan(skipped, {**after, "needs": "success"}, budget={"destructive": 0}, input={"no": False})) == []


class TestItems:
    def test_more_items_than_the_limit_are_too_large(self) -> None:
        few = rules(tool("make", None, record(l={"type": "array", "minItems": 4})), limits=PlanLimits(for_each=3))
        document = plan(
            step("m", "make"),
            step("a", "echo", for_each=[1, 2, 3, 4]),
            step("b", "echo", for_each="${input.l}"),
            step("c", "echo", for_each="${m.l}"),
            input={"l": [1, 2, 3, 4]},
        )
        assert told(document, few) == [(name, "for_each", "too_large") for name in "abc"]


def test_every_effect_has_its_default_approval() -> None:
    found = checked(plan(ORDER_STEP, REFUND_STEP, step("t", "notify_send", {"to": "", "text": ""})))
    assert [(one.effect, one.approval) for one in found.predicted] == [
        (Effect.READ, "none"),
        (Effect.DESTRUCTIVE, "operator"),
        (Effect.WRITE, "client"),
    ]
