"""What was found of each step before anything runs, and what follows from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...registry.contract import Contract
from ...registry.policy import Decision, Standing
from ...registry.vocabulary import Verdict
from .repeating import Repeats


@dataclass(slots=True)
class Facts:
    """What was found of one step; `happens` is False where its `when` is known not to hold, None where it is open."""

    contract: Contract
    repeats: Repeats
    happens: bool | None
    mildest: Decision
    strictest: Decision
    undoable: bool

    @property
    def approval(self) -> Standing:
        """Who must agree, as far as it is known."""
        highest = _standing(self.strictest)
        if self.mildest is self.strictest:
            return highest
        return highest if _standing(self.mildest) is highest else Standing.DEPENDS


def strictest_of(decisions: Sequence[Decision]) -> Decision:
    """The one that asks for most."""
    if len(decisions) == 1:
        return decisions[0]
    return max(decisions, key=lambda one: (one.verdict.strictness, one.assurance.strength))


def happening(facts: Sequence[Facts | None], order: Sequence[int], needs_success: Sequence[Sequence[int]]) -> None:
    """Carry on from step to step that one which needs a skipped step is not run."""
    for index in order:
        fact = facts[index]
        before = [facts[earlier] for earlier in needs_success[index]]
        if fact is None or fact.happens is False:
            continue
        if any(one is not None and one.happens is False for one in before):
            fact.happens = False
        elif any(one is None or one.happens is None for one in before):
            fact.happens = None


def _standing(decision: Decision) -> Standing:
    match decision.verdict:
        case Verdict.ALLOW:
            return Standing.NONE
        case Verdict.APPROVE:
            return Standing(decision.assurance)
        case Verdict.DENY:
            return Standing.DENIED
