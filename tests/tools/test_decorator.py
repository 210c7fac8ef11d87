from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from counterfoil import Call, Outcome, Probe, tool
from counterfoil.registry.contract import Rate, Retry
from counterfoil.registry.vocabulary import Assurance, Effect, Idempotency, RecoveryClass, Visibility
from counterfoil.tools.decorator import Tool, tools_of

if TYPE_CHECKING:
    from counterfoil.registry.contract import Contract


class Refund(BaseModel):
    refund_id: str
    amount: float


class Address(BaseModel):
    street: str
    door_code: SecretStr


@dataclass
class Parcel:
    weight: int
    label: str = ""


def make_refund() -> Tool[..., Any]:
    @tool(
        name="refund_order",
        version="1",
        effect="destructive",
        idempotency="none",
        scopes=["orders:refund"],
        resources=["order:{order_id}"],
        timeout_s=10,
        approval="operator",
    )
    async def refund(order_id: str, amount: float, call: Call) -> Refund:
        """Refund an order."""
        return Refund(refund_id=call.action_id, amount=amount)

    @refund.probe(timeout_s=5)
    async def happened(order_id: str, amount: float, call: Call) -> Probe:
        """Look for it."""
        return Probe.unknown()

    @refund.compensation(effect="write", idempotency="keyed", timeout_s=10)
    async def undo(order_id: str, amount: float, output: Refund, call: Call) -> None:
        """Undo it."""

    return refund


def contracts_of(made: Tool[..., Any]) -> dict[str, Contract]:
    return {contract.name: contract for contract, _ in made.registrations()}


def test_the_input_schema_follows_from_the_type_hints_and_forbids_other_fields() -> None:
    @tool(effect="read")
    async def order_status(order_id: Annotated[str, Field(description="Order number")], deep: bool = False) -> str:
        return order_id if deep else ""

    assert order_status.contract.schemas.input == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "Order number"},
            "deep": {"type": "boolean", "default": False},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    }
    assert order_status.contract.schemas.output == {"type": "string"}


def test_models_and_dataclasses_as_parameters_forbid_other_fields_too() -> None:
    @tool(effect="write")
    async def ship(to: Address, parcels: list[Parcel]) -> None: ...

    shown: Any = ship.contract.schemas.input
    assert shown["$defs"]["Address"]["additionalProperties"] is False
    assert shown["$defs"]["Parcel"]["additionalProperties"] is False


def test_secret_types_and_marked_fields_become_sensitive_pointers_of_the_tool_and_what_follows_it() -> None:
    @tool(effect="write", sensitive=["/note"])
    async def ship(
        to: Address,
        also: list[Address],
        note: str,
        pin: Annotated[str, Field(json_schema_extra={"x-sensitive": True})],
        maybe: SecretStr | None = None,
    ) -> None: ...

    @ship.probe()
    async def shipped(to: Address) -> Probe:
        return Probe.unknown()

    expected = ("/also/*/door_code", "/maybe", "/note", "/pin", "/to/door_code")
    assert ship.contract.gate.sensitive == expected
    assert contracts_of(ship)["ship__probe"].gate.sensitive == expected


def test_a_call_parameter_is_not_part_of_the_schema() -> None:
    shown: Any = make_refund().contract.schemas.input
    assert list(shown["properties"]) == ["order_id", "amount"]


def test_awkward_parameter_names_are_arguments_like_any_other() -> None:
    @tool(effect="read")
    async def odd(schema: str, copy: int, model_config: int, _x: str, from_: str = "") -> None: ...

    shown: Any = odd.contract.schemas.input
    assert list(shown["properties"]) == ["schema", "copy", "model_config", "_x", "from_"]


def test_unstated_fields_of_a_read_are_the_safe_defaults() -> None:
    @tool(effect="read")
    async def look() -> int:
        """Look."""
        return 1

    made = look.contract
    assert (made.name, made.version, made.text.title, made.text.description) == ("look", "1", "look", "Look.")
    assert made.limits.retry == Retry(attempts=3, backoff_s=0.5, least_s=1)
    assert (made.limits.timeout_s, made.limits.external_wait_s, made.limits.freshness_s) == (30, 86400, 300)
    assert (made.gate.open_world, made.gate.approval, made.gate.code) == (True, Assurance.NONE, False)
    assert (made.recovery.idempotency, made.recovery.key_retention_s) == (Idempotency.NONE, 86400)


def test_a_tool_with_an_effect_is_attempted_once_unless_it_states_more() -> None:
    @tool(effect="write")
    async def once() -> None: ...

    @tool(effect="write", retry={"attempts": 4, "backoff_s": 2})
    async def four() -> None: ...

    @tool(effect="read", retry={"least_s": 3})
    async def patient() -> None: ...

    assert once.contract.limits.retry == Retry(attempts=1)
    assert four.contract.limits.retry == Retry(attempts=4, backoff_s=2)
    assert patient.contract.limits.retry == Retry(attempts=3, least_s=3)


def test_every_stated_field_reaches_the_contract() -> None:
    @tool(
        name="n",
        version="2",
        title="T",
        description="D",
        tags=["a"],
        effect="write",
        open_world=False,
        idempotency="keyed",
        key_retention_s=5,
        scopes=["s"],
        settle_s=6,
        approval="second_person",
        timeout_s=7,
        external_wait_s=8,
        freshness_s=9,
        retry=Retry(2),
        rate="100/m",
        concurrency=3,
        pool="p",
        resources=["shared:x:{a}"],
        cost=1.5,
        sensitive=["/a"],
        evidence={"external_version": "/etag"},
        preview="look",
        code=True,
        visibility="base",
    )
    async def whole(a: str) -> None: ...

    made = whole.contract
    assert (made.name, made.version, made.text.title, made.text.description, made.text.tags) == (
        "n",
        "2",
        "T",
        "D",
        ("a",),
    )
    gate = made.gate
    assert (gate.effect, gate.open_world, gate.scopes, gate.approval) == (Effect.WRITE, False, ("s",), "second_person")
    assert (gate.resources, gate.sensitive, gate.preview) == (("shared:x:{a}",), ("/a",), "look")
    assert (gate.visibility, gate.code, gate.manual) == (Visibility.BASE, True, False)
    limits = made.limits
    assert (limits.timeout_s, limits.external_wait_s, limits.freshness_s, limits.cost) == (7, 8, 9, 1.5)
    assert (limits.retry, limits.rate, limits.concurrency, limits.pool) == (Retry(2), Rate(100, 60), 3, "p")
    recovery = made.recovery
    assert (recovery.idempotency, recovery.key_retention_s, recovery.settle_s) == (Idempotency.KEYED, 5, 6)
    assert recovery.evidence == {"external_version": "/etag"}


@pytest.mark.parametrize(
    ("text", "rate"), [("20/s", Rate(20, 1)), ("100/m", Rate(100, 60)), ("1000/h", Rate(1000, 3600))]
)
def test_a_rate_is_a_count_for_each_second_minute_or_hour(text: str, rate: Rate) -> None:
    @tool(effect="read", rate=text)
    async def look() -> None: ...

    assert look.contract.limits.rate == rate


def test_a_probe_and_a_compensation_are_hidden_contracts_named_after_their_tool() -> None:
    made = contracts_of(make_refund())
    assert list(made) == ["refund_order", "refund_order__probe", "refund_order__undo"]
    main, probe, undo = made.values()
    assert (main.recovery.probe, main.recovery.compensation) == ("refund_order__probe", "refund_order__undo")
    assert main.recovery_class is RecoveryClass.PROBE
    assert probe.asked_about == undo.asked_about == "refund_order"
    assert probe.gate.visibility is undo.gate.visibility is Visibility.HIDDEN
    assert (probe.gate.effect, probe.limits.timeout_s) == (Effect.READ, 5)
    assert (undo.gate.effect, undo.recovery.idempotency) == (Effect.WRITE, Idempotency.KEYED)
    assert probe.schemas.input == undo.schemas.input == main.schemas.input


def test_an_unstated_compensation_has_the_tools_effect_scopes_and_resources_and_no_idempotency() -> None:
    @tool(effect="destructive", idempotency="keyed", scopes=["a"], resources=["r:{x}"], version="7")
    async def burn(x: str) -> None: ...

    @burn.compensation()
    async def unburn(x: str) -> None: ...

    undo = contracts_of(burn)["burn__undo"]
    assert (undo.gate.effect, undo.gate.scopes, undo.gate.resources) == (Effect.DESTRUCTIVE, ("a",), ("r:{x}",))
    assert (undo.recovery.idempotency, undo.version) == (Idempotency.NONE, "7")


def test_resources_may_be_a_function_of_some_of_the_arguments() -> None:
    def keys(order_id: str) -> list[str]:
        return [f"order:{order_id.lower()}"]

    @tool(effect="write", resources=keys)
    async def close(order_id: str, note: str = "") -> None: ...

    assert close.contract.resource_keys({"order_id": "ORD_1", "note": "x"}) == ["order:ord_1"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (None, {"type": "null"}),
        (Any, None),
        (Outcome, None),
        (Outcome[list[str]], {"type": "array", "items": {"type": "string"}}),
        (int | Outcome[int], {"type": "integer"}),
        (
            bytes,
            {
                "type": "object",
                "properties": {"$bytes": {"type": "string", "contentEncoding": "base64"}},
                "required": ["$bytes"],
            },
        ),
    ],
)
def test_the_output_schema_follows_from_the_return_type(annotation: Any, schema: Any) -> None:
    async def give() -> Any: ...

    give.__annotations__["return"] = annotation
    assert tool(effect="read")(give).contract.schemas.output == schema


def test_the_decorated_function_keeps_its_name_and_documentation() -> None:
    made = make_refund()
    assert (made.__name__, made.__doc__) == ("refund", "Refund an order.")  # type: ignore[attr-defined] # set by update_wrapper


def test_tools_of_a_module_are_found_once_each_in_order() -> None:
    module = types.ModuleType("mine")
    first, second = make_refund(), make_refund()
    vars(module).update({"b": first, "alias": first, "a": second, "other": 1})
    assert tools_of(module) == [first, second]
