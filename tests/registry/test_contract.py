"""Contracts: what each digest covers, which recovery follows, which names are refused, and keys that never collide."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.registry.contract import (
    BASE_NAMES,
    Contract,
    ContractError,
    Gate,
    Limits,
    Rate,
    Recovery,
    Retry,
    Schemas,
    Text,
)
from counterfoil.registry.principal import Principal
from counterfoil.registry.template import fault_of, render_key
from counterfoil.registry.vocabulary import Assurance, Effect, Idempotency, JsonObject, RecoveryClass, Visibility

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}}
KEYED = Recovery(Idempotency.KEYED, probe="p", settle_s=60, compensation="c")
BASE = Contract(
    "orders_refund",
    Text("Refund", "Refund an order.", ("orders",)),
    Schemas(SCHEMA, {"type": "object"}),
    Gate(Effect.WRITE, scopes=("x", "y"), resources=("order:{a}",)),
    recovery=KEYED,
)


def keys_of(a: str, b: JsonObject) -> list[str]:
    _ = b
    return [f"order:{a}", f"order:{a}"]


def with_gate(**changes: Any) -> Contract:
    return replace(BASE, gate=replace(BASE.gate, **changes))


def with_recovery(**changes: Any) -> Contract:
    return replace(BASE, recovery=replace(BASE.recovery, **changes))


def with_limits(**changes: Any) -> Contract:
    return replace(BASE, limits=replace(BASE.limits, **changes))


class TestDigests:
    @pytest.mark.parametrize(
        "changed",
        [
            replace(BASE, schemas=Schemas({**SCHEMA, "additionalProperties": False}, BASE.schemas.output)),
            replace(BASE, schemas=Schemas(SCHEMA)),
            with_gate(effect=Effect.DESTRUCTIVE),
            with_gate(scopes=("x",)),
            with_gate(resources=("shared:order:{a}",)),
            with_gate(resources=()),
            with_gate(resources=keys_of),
            with_recovery(idempotency=Idempotency.NONE),
            with_recovery(key_retention_s=1),
            with_recovery(probe=None),
            with_recovery(settle_s=None),
            with_recovery(settle_s=61),
            with_recovery(compensation=None),
            with_recovery(compensation_arguments={"a": "{arguments.a}"}),
        ],
    )
    def test_what_plans_and_approvals_pin_changes_the_schema_digest_alone(self, changed: Contract) -> None:
        assert changed.schema_digest != BASE.schema_digest
        assert changed.text_digest == BASE.text_digest

    @pytest.mark.parametrize(
        "changed",
        [
            replace(BASE, text=replace(BASE.text, title="Give back")),
            replace(BASE, text=replace(BASE.text, description="Give money back.")),
            replace(BASE, text=replace(BASE.text, tags=("money",))),
            with_gate(open_world=False),
        ],
    )
    def test_what_is_only_read_changes_the_text_digest_alone(self, changed: Contract) -> None:
        assert changed.schema_digest == BASE.schema_digest
        assert changed.text_digest != BASE.text_digest

    @pytest.mark.parametrize(
        "changed",
        [
            replace(BASE, name="other_name"),
            replace(BASE, version="2"),
            replace(BASE, upstream="shop"),
            with_gate(scopes=("y", "x")),
            with_gate(approval=Assurance.OPERATOR),
            with_gate(sensitive=("/a",)),
            with_gate(preview="p"),
            with_gate(visibility=Visibility.BASE),
            with_gate(code=True),
            with_limits(timeout_s=1, retry=Retry(3), rate=Rate(1, 1), concurrency=1, pool="p", cost=1, sandbox="s"),
            with_recovery(evidence={"external_version": "/etag"}),
            with_recovery(settle_s=60.0),
        ],
    )
    def test_everything_else_changes_neither(self, changed: Contract) -> None:
        assert (changed.schema_digest, changed.text_digest) == (BASE.schema_digest, BASE.text_digest)

    def test_retention_is_pinned_only_where_there_are_keys(self) -> None:
        unkeyed = with_recovery(idempotency=Idempotency.NATURAL)
        longer = replace(unkeyed, recovery=replace(unkeyed.recovery, key_retention_s=1))
        assert unkeyed.schema_digest == longer.schema_digest

    def test_the_short_digest_is_its_first_eight_characters(self) -> None:
        assert BASE.short_digest == BASE.schema_digest[:8]
        assert len(BASE.schema_digest) == 64


class TestRecovery:
    @pytest.mark.parametrize(("effect", "idempotency", "probe"), list(product(Effect, Idempotency, ["p", None])))
    def test_the_class_follows_the_order_probe_key_repeat_person(
        self, effect: Effect, idempotency: Idempotency, probe: str | None
    ) -> None:
        contract = replace(BASE, gate=Gate(effect), recovery=Recovery(idempotency, probe=probe))
        if probe:
            expected = RecoveryClass.PROBE
        elif idempotency is Idempotency.KEYED:
            expected = RecoveryClass.KEYED
        elif effect is Effect.READ or idempotency is Idempotency.NATURAL:
            expected = RecoveryClass.NATURAL
        else:
            expected = RecoveryClass.PERSON
        assert contract.recovery_class is expected

    def test_defaults_are_the_safe_ones(self) -> None:
        plain = Contract("t", Text("t", ""), Schemas({"type": "object"}), Gate(Effect.WRITE))
        assert plain.recovery_class is RecoveryClass.PERSON
        assert plain.gate.open_world
        assert not plain.gate.code

    def test_reads_are_tried_three_times_and_everything_else_once_unless_stated(self) -> None:
        assert with_gate(effect=Effect.READ).retry == Retry(3, 0.5, 1.0)
        assert BASE.retry == Retry(1, 0.5, 1.0)
        assert with_limits(retry=Retry(5)).retry.attempts == 5


LOOK_ALIKE = "оrders"
MALFORMED = ["", "Orders", "orders-get", "orders.get", "a" * 65, LOOK_ALIKE, "a\n"]


class TestNames:
    @pytest.mark.parametrize("name", [*MALFORMED, *sorted(BASE_NAMES), "x__probe", "x__undo"])
    def test_names_that_are_taken_reserved_or_malformed_are_refused(self, name: str) -> None:
        with pytest.raises(ContractError, match="tool name"):
            replace(BASE, name=name)

    def test_a_probe_is_called_after_its_tool_however_long_and_reads(self) -> None:
        long = "a" * 64
        probe = replace(BASE, name=f"{long}__probe", asked_about=long, gate=Gate(Effect.READ))
        assert probe.asked_about == long
        with pytest.raises(ContractError, match="has effect 'read', not 'write'"):
            replace(probe, gate=Gate(Effect.WRITE))
        with pytest.raises(ContractError, match="is called by that name"):
            replace(probe, name="other__probe")
        with pytest.raises(ContractError, match="base tool"):
            replace(probe, name="plan__undo", asked_about="plan")

    def test_a_client_alone_never_approves_a_destructive_tool(self) -> None:
        with pytest.raises(ContractError, match="reversible"):
            with_gate(effect=Effect.DESTRUCTIVE, approval=Assurance.CLIENT)


class TestFigures:
    @pytest.mark.parametrize(
        ("limits", "words"),
        [
            (Limits(timeout_s=0), "timeout_s is 0; it must be more than 0"),
            (Limits(timeout_s=float("nan")), "timeout_s"),
            (Limits(retry=Retry(0)), "retry.attempts"),
            (Limits(retry=Retry(1, backoff_s=-1)), "retry.backoff_s"),
            (Limits(rate=Rate(0, 1)), "rate count"),
            (Limits(concurrency=0), "concurrency"),
            (Limits(cost=-1), "cost"),
        ],
    )
    def test_a_figure_that_makes_no_sense_is_refused_by_its_name(self, limits: Limits, words: str) -> None:
        with pytest.raises(ContractError, match=words):
            replace(BASE, limits=limits)


PAIRS = st.tuples(st.text(max_size=6), st.text(max_size=6))
TEMPLATES = ["order:{a}/{b}", "shared:order:{a}:{b}", "a:{a}-x:{b}y", "file:{b}:/{arguments.a}"]


class TestResourceKeys:
    @settings(deadline=None)
    @given(st.sampled_from(TEMPLATES), PAIRS, PAIRS)
    def test_two_pairs_of_texts_never_give_one_key(
        self, template: str, one: tuple[str, str], two: tuple[str, str]
    ) -> None:
        keys = [render_key(template, {"a": pair[0], "b": pair[1]}) for pair in (one, two)]
        assert (keys[0] == keys[1]) is (one == two)

    @settings(deadline=None)
    @given(st.text(alphabet="ab:/%-xy3AF", max_size=5), st.text(alphabet="ab:/%-xy3AF", max_size=5))
    def test_not_even_with_the_characters_that_templates_are_made_of(self, a: str, b: str) -> None:
        assert render_key("o:{a}-x:{b}", {"a": a, "b": b}) != render_key("o:{a}-x:{b}", {"a": a + "-x:", "b": b})
        key = render_key("o:{a}", {"a": f"shared:{a}"})
        assert key
        assert not key.startswith("shared:")

    @pytest.mark.parametrize(
        "template",
        ["{a}", "shared:{a}", "order:{a}{b}", "order:{a}-{b}", "sha{a}:x", "shared:shared:x", "", "shared:",
         "order:{a", "order:a}", "order:{}", "order:{a b}", "order:{a.}", "order:{a..b}"],
    )  # fmt: skip
    def test_a_template_whose_keys_could_be_mistaken_is_refused(self, template: str) -> None:
        assert fault_of(template)
        with pytest.raises(ContractError, match="resource"):
            with_gate(resources=(template,))

    def test_a_template_names_arguments_that_there_are(self) -> None:
        with pytest.raises(ContractError, match=r"names the argument 'z'; known are \['a', 'b'\]"):
            with_gate(resources=("order:{z}",))

    def test_an_absent_argument_drops_its_key_and_nested_ones_are_followed(self) -> None:
        contract = with_gate(resources=("order:{a}", "shared:line:{b.id}", "all"))
        assert contract.resource_keys({"a": "1", "b": {"id": 7}}) == ["all", "order:1", "shared:line:7"]
        assert contract.resource_keys({"a": None, "b": {}}) == ["all"]

    def test_a_number_and_its_text_are_one_thing(self) -> None:
        contract = with_gate(resources=("order:{a}",))
        assert contract.resource_keys({"a": 17}) == contract.resource_keys({"a": "17"})

    def test_a_key_that_is_held_exclusively_is_not_shared_too(self) -> None:
        contract = with_gate(resources=("order:{a}", "shared:order:{a}"))
        assert contract.resource_keys({"a": "1"}) == ["order:1"]

    def test_a_function_gives_keys_and_is_held_to_giving_texts(self) -> None:
        assert with_gate(resources=keys_of).resource_keys({"a": "1", "b": {}}) == ["order:1"]
        for wrong in ("order:1", [""], [1], None, [["x"]]):
            with pytest.raises(ContractError, match="must return a list of texts"):
                with_gate(resources=lambda wrong=wrong: wrong).resource_keys({})

    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
    def test_what_a_function_raises_is_a_contract_error_and_ends_nothing(self, error: type[BaseException]) -> None:
        def raising(**_: object) -> list[str]:
            raise error

        with pytest.raises(ContractError, match=f"raised {error.__name__}"):
            with_gate(resources=raising).resource_keys({"a": "1"})


class TestScopes:
    @pytest.mark.parametrize(
        ("held", "needed", "missing"),
        [
            (set[str](), ["b", "a", "a"], ["a", "b"]),
            ({"a"}, ["a"], []),
            ({"*"}, ["a", "approve", "reconcile"], ["approve", "reconcile"]),
            ({"*", "approve"}, ["approve"], []),
            ({"orders:*"}, ["orders:read"], ["orders:read"]),
            ({"A"}, ["a"], ["a"]),
        ],
    )
    def test_missing_names_each_scope_once_and_a_wildcard_holds_no_power_over_others(
        self, held: set[str], needed: list[str], missing: list[str]
    ) -> None:
        principal = Principal("t", "s", scopes=frozenset(held))
        assert principal.missing(needed) == missing
        assert all(principal.holds(scope) is (scope not in missing) for scope in needed)
