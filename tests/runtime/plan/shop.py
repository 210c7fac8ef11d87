"""The tools of the plan's tests: an order desk like that of the design's example, and whatever a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterfoil.registry.adapter import Call
from counterfoil.registry.budgets import Budgets
from counterfoil.registry.catalogue import Catalogue
from counterfoil.registry.contract import Contract, Gate, Limits, Recovery, Schemas, Text
from counterfoil.registry.outcome import Outcome
from counterfoil.registry.policy import Policy
from counterfoil.registry.principal import Principal
from counterfoil.registry.problem import Problem
from counterfoil.registry.vocabulary import Effect, Idempotency, JsonObject, JsonValue
from counterfoil.runtime.plan.checking import CheckedPlan, PlanLimits, PlanRules, check_plan
from counterfoil.runtime.plan.problems import PlanInvalidError, PlanProblem

ALICE = Principal("a", "alice", scopes=frozenset({"*"}))
STRING: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}
BOOLEAN: JsonObject = {"type": "boolean"}


class Hands:
    """Hands that can send anything, but an `if_version` only where `versions` says so; they never send."""

    hard_deadline = False
    blocking = False

    def __init__(self, versions: bool = True) -> None:
        self.versions = versions

    def ready(self) -> None:
        """Always ready."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:
        refused = if_version is not None and not self.versions
        return [Problem.of("/if_version", "a call without if_version", "a version")] if refused else []

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        raise AssertionError("a check calls nothing")


def record(required: Sequence[str] | None = None, **properties: JsonValue) -> JsonObject:
    """An object schema; everything is required unless it is said what is."""
    needed = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": list[JsonValue](needed)}


def items(schema: JsonValue, **limits: int) -> JsonObject:
    return {"type": "array", "items": schema, **limits}


def tool(
    name: str,
    takes: JsonObject | None = None,
    gives: JsonObject | None = None,
    effect: Effect = Effect.READ,
    gate: dict[str, Any] | None = None,
    limits: Limits | None = None,
    recovery: Recovery | None = None,
    version: str = "1",
) -> Contract:
    return Contract(
        name,
        Text(name, f"About {name}."),
        Schemas(takes or {"type": "object"}, gives),
        Gate(effect, **(gate or {})),
        limits or Limits(),
        recovery or Recovery(),
        version,
    )


CONTACT = record(["email"], email=STRING, name=STRING)
ORDER = record(
    order_id=STRING, total=NUMBER, shipment_id=STRING, contacts=items(CONTACT), note={"type": ["string", "null"]}
)
GET = tool("orders_get", record(order_id=STRING), ORDER, gate={"scopes": ("orders:read",)})
SHIPMENT = tool("shipments_get", record(shipment_id=STRING), record(late=BOOLEAN, days={"type": "integer"}))
POLICY = tool("policy_find", record(topic=STRING), record(text=STRING))
REFUND = tool(
    "orders_refund",
    record(["order_id", "amount"], order_id=STRING, amount=NUMBER, note=STRING),
    record(refund_id=STRING, amount=NUMBER),
    Effect.DESTRUCTIVE,
    {"scopes": ("orders:refund",), "sensitive": ("/note",)},
    Limits(cost=1, timeout_s=10),
    Recovery(Idempotency.KEYED, compensation="orders_charge"),
)
CHARGE = tool(
    "orders_charge", record(order_id=STRING, amount=NUMBER), None, Effect.WRITE, {"scopes": ("orders:charge",)}
)
NOTIFY = tool("notify_send", record(to=STRING, text=STRING), record(id=STRING), Effect.WRITE)
ECHO = tool("echo")
SHOP = (GET, SHIPMENT, POLICY, REFUND, CHARGE, NOTIFY, ECHO)


def catalogue(*contracts: Contract, versions: bool = True) -> Catalogue:
    found = Catalogue()
    for contract in contracts:
        found.register(contract, Hands(versions))
    return found


def rules(
    *more: Contract,
    policy: Policy | None = None,
    budgets: Budgets | None = None,
    limits: PlanLimits | None = None,
    versions: bool = True,
) -> PlanRules:
    """The shop's rules, with further tools."""
    return PlanRules(
        catalogue(*SHOP, *more, versions=versions), policy or Policy(), budgets or Budgets(), limits or PlanLimits()
    )


def step(step_id: str, tool_name: str, args: JsonObject | None = None, **fields: JsonValue) -> JsonObject:
    return {"id": step_id, "tool": tool_name, "args": args or {}, **fields}


def plan(*steps: JsonValue, **fields: JsonValue) -> JsonObject:
    return {"goal": "Try it", "steps": list(steps), **fields}


ORDER_STEP = step("order", "orders_get", {"order_id": "ord_1"})


def checked(document: JsonValue, under: PlanRules | None = None, who: Principal = ALICE) -> CheckedPlan:
    return check_plan(document, who, under or rules())


def problems(document: JsonValue, under: PlanRules | None = None, who: Principal = ALICE) -> list[PlanProblem]:
    """What is wrong with a plan; nothing if it is accepted."""
    try:
        check_plan(document, who, under or rules())
    except PlanInvalidError as error:
        return list(error.problems)
    return []


def told(
    document: JsonValue, under: PlanRules | None = None, who: Principal = ALICE
) -> list[tuple[str | None, str, str]]:
    """The same in short: step, field and code."""
    return [(one.step, one.field, one.code) for one in problems(document, under, who)]
