"""Whether a plan's effects could be undone: the compensation that each step has, its arguments, and its scopes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...registry.catalogue import Entry
from .arguing import Arguing
from .drafts import Draft, DraftPlan
from .flow import Sources
from .model import OnPlanFailure, Undo
from .problems import Code
from .repeating import Repeats
from .resolving import Tools, check_allowed
from .uses import follow


@dataclass(frozen=True, slots=True)
class Undoing:
    """Checks the compensations of one plan."""

    plan: DraftPlan
    tools: Tools
    sources: Sources
    arguing: Arguing

    def check(self, draft: Draft, entry: Entry, repeats: Repeats) -> bool:
        """Whether the step's effect can be undone, or need not be; what is wrong with its compensation is told."""
        if isinstance(draft.compensate, Undo):
            self._check_own(draft, draft.compensate, repeats)
            return True
        if entry.contract.is_read or draft.compensate == "none":
            return True
        undo = self.tools.compensation(entry.contract)
        if undo is None:
            self._tell_missing(draft, entry)
            return False
        if self.plan.on_failure is OnPlanFailure.COMPENSATE:
            self.tools.allows(draft.spot, "compensate", undo.contract)
        return True

    def _tell_missing(self, draft: Draft, entry: Entry) -> None:
        if self.plan.compensation == "strict":
            told = (
                f"compensate: {entry.contract.name} has effect '{entry.contract.gate.effect}' and no compensation, and "
                "the plan is 'strict'; give the step one ({tool, args}), state 'none', or plan with 'best_effort'"
            )
            draft.spot.add("compensate", Code.NOT_COMPENSABLE, told)

    def _check_own(self, draft: Draft, undo: Undo, repeats: Repeats) -> None:
        """Its references may also lead to the step itself, and to the item that is undone."""
        once = draft.for_each is None
        sources = self.sources if once else replace(self.sources, own=frozenset({draft.id, draft.save_as}))
        follow(draft.spot, [use for use in draft.undo_uses if use.reference.root != "item"], sources, None)
        if repeats.any_item is not None:
            items = [use for use in draft.undo_uses if use.reference.root == "item"]
            follow(draft.spot, items, sources, repeats.any_item)
        entry = self.tools.named(draft.spot, "compensate.tool", undo.tool)
        if entry is None:
            return
        check_allowed(draft.spot, "compensate.tool", entry.contract, self.plan.allow)
        if entry.contract.is_read:
            told = (
                f"compensate.tool: {undo.tool} is a 'read', which undoes nothing; name a tool with an effect, or 'none'"
            )
            draft.spot.add("compensate.tool", Code.NOT_COMPENSABLE, told)
        partial = sources.filled(undo.args, repeats.any_item)
        self.arguing.check(draft.spot, entry, partial, "compensate.args")
