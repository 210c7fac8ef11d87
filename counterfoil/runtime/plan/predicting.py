"""What a plan would do, as it is told: each step as predicted, and the approvals that it needs or may need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...registry.budgets import Kind, amounts_of
from ...registry.policy import Standing
from ...registry.vocabulary import Effect, JsonObject, RecoveryClass
from .facts import Facts


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """One step as it would be; `cost` is that of all its known calls, `items` their number, None if not known."""

    id: str
    tool: str
    version: str
    effect: Effect
    recovery: RecoveryClass
    wave: int
    approval: Standing
    cost: float
    items: int | None

    def wire(self) -> JsonObject:
        """One of the `steps` of `plan`."""
        return {
            "id": self.id,
            "tool": self.tool,
            "version": self.version,
            "effect": self.effect.value,
            "recovery": self.recovery.value,
            "wave": self.wave,
            "approval": self.approval.value,
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """An approval that a step needs, or may need: the rule that asks for most, and why."""

    step: str
    tool: str
    approval: Standing
    rule_id: str
    reason: str

    def wire(self) -> JsonObject:
        """One of the `approvals` of `plan`."""
        return {
            "step": self.step,
            "tool": self.tool,
            "approval": self.approval.value,
            "rule_id": self.rule_id,
            "reason": self.reason,
        }


def predicted(ids: Sequence[str], facts: Sequence[Facts], waves: Sequence[int]) -> Iterator[PredictedStep]:
    """The steps in declared order."""
    for step_id, fact, wave in zip(ids, facts, waves, strict=True):
        contract = fact.contract
        cost = Kind.COST.shown(amounts_of(contract).get(Kind.COST, 0) * fact.repeats.shown)
        yield PredictedStep(
            id=step_id,
            tool=contract.name,
            version=contract.version,
            effect=contract.gate.effect,
            recovery=contract.recovery_class,
            wave=wave,
            approval=fact.approval,
            cost=cost,
            items=fact.repeats.count,
        )


def asked(ids: Sequence[str], facts: Sequence[Facts]) -> Iterator[Asked]:
    """The approvals that are needed, or may be."""
    for step_id, fact in zip(ids, facts, strict=True):
        approval, why = fact.approval, fact.strictest
        if approval is not Standing.NONE:
            yield Asked(step_id, fact.contract.name, approval, why.rule_id, why.reason)
