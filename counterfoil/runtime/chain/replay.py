"""A recorded run under another plan or other rules: what would be different.

Planner, policy and scheduler are the real ones, the outcomes those that were recorded. No adapter is here, nor any way
to one: what is played with knows contracts. Nothing is recorded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from ...ledger.forking import taken_over
from ...ledger.run_rows import WHOLE
from ...registry.catalogue import Catalogue
from ...registry.principal import Principal
from ...registry.vocabulary import Assurance, ErrorCode, Verdict
from ..plan.checking import check_plan
from ..plan.graph import waves
from ..plan.problems import PlanInvalidError
from ..plan.stored import to_document
from .folding import Ending, verdict, waits_for
from .playing import Cast, Play
from .reports import UNKNOWN, Line, Report, Ruling, Told, strictest
from .shown import show_steps
from .states import ENDED, RunStatus, StepState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...ledger.rows import CallRow
    from ...ledger.witness import Recorded
    from ...registry.adapter import Adapter
    from ...registry.contract import Contract
    from ...registry.problem import Problem
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.checking import PlanRules
    from ..plan.model import Plan
    from ..plan.problems import PlanProblem
    from .outputs import Read
    from .reports import Same
    from .shown import StepShown


class Handless:
    """What stands where a tool's hands would be: it finds nothing wrong with any arguments, and can do nothing else."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> tuple[Problem, ...]:
        """None: whether a tool could send something is for its hands to say."""
        del arguments, if_version
        return ()


def without_hands(contracts: Iterable[Contract]) -> Catalogue:
    """A catalogue of these contracts, of which nothing can be called."""
    catalogue, nothing = Catalogue(), cast("Adapter", Handless())
    for contract in contracts:
        catalogue.register(contract, nothing)
    return catalogue


class Replay:
    """One recorded run. The catalogue of `rules` is one `without_hands`; `read` gives the recorded output of a call."""

    def __init__(self, kept: Recorded, plan: Plan, given_input: JsonObject, rules: PlanRules, read: Read) -> None:
        run = kept.found.run
        self._kept = kept
        self._plan = plan
        self._input = given_input
        self._rules = rules
        self._read = read
        scopes = frozenset(json.loads(run.scopes))
        self._who = Principal(run.tenant, run.subject, run.client, scopes, run.proof, json.loads(run.claimed))

    async def play(self, document: JsonValue = None) -> Report:
        """What is different now, with this plan in place of the run's own if one is given.

        The run's own plan is played as it stands where it would be refused now, with what is wrong with it.

        Raises:
            PlanInvalidError: the given plan cannot run.
        """
        asked = to_document(self._plan) if document is None else document
        try:
            checked = check_plan(asked, self._who, self._rules, self._input)
        except PlanInvalidError as error:
            if document is not None:
                raise
            return await self._played(self._plan, self._input, error.problems)
        return await self._played(checked.plan, checked.input, ())

    async def _played(self, plan: Plan, given: JsonObject, problems: tuple[PlanProblem, ...]) -> Report:
        found = self._kept.found
        own = {(row.step or "", WHOLE if row.item is None else row.item): row for row in found.calls}
        parts = Cast(
            self._rules.catalogue,
            self._rules.policy,
            self._who,
            found.run.run_id,
            given,
            taken_over(found.steps, found.reused) | own,
            {(note.step, note.item): note for note in found.steps},
        )
        play = Play(parts, plan, self._read)
        await play.play()
        states = play.states()
        then, now = self._then(), self._now(play, states)
        said: dict[str, Same | None] = {
            step.id: play.steps[step.index].arguments for step in plan.steps if step.index in play.steps
        }
        names = [*now, *(name for name in then if name not in now)]
        lines = tuple(Line(name, then.get(name), now.get(name), said.get(name)) for name in names)
        status = ErrorCode.PLAN_INVALID.value if problems else self._status(plan, states)
        return Report(found.run.run_id, found.run.status, status, lines, problems)

    def _then(self) -> dict[str, Told]:
        shown = show_steps(self._plan, self._kept.found)
        return {
            one.step.id: Told(
                one.step.tool, one.step.version, one.step.schema_digest, wave, one.state.value, self._ruling(one)
            )
            for one, wave in zip(shown, waves(self._plan.edges), strict=True)
        }

    def _ruling(self, shown: StepShown) -> Ruling | None:
        """What policy said then: of its calls, else of what it was refused before it had one."""
        if shown.rows:
            return strictest(map(self._of_row, shown.rows))
        if shown.error is not None and shown.error.code is ErrorCode.DENIED:
            rule = shown.error.details.get("rule")
            return Ruling(Verdict.DENY.value, None if rule is None else str(rule), Assurance.NONE.value)
        return None

    def _of_row(self, row: CallRow) -> Ruling:
        approval = self._kept.approvals.get(row.approval_id or "")
        if approval is not None:
            return Ruling(Verdict.APPROVE.value, approval.rule_id, approval.assurance)
        said = Verdict.DENY if row.code == ErrorCode.DENIED.value else Verdict.ALLOW
        return Ruling(said.value, row.rule_id, Assurance.NONE.value)

    def _now(self, play: Play, states: dict[str, str]) -> dict[str, Told]:
        found: dict[str, Told] = {}
        for step, wave in zip(play.plan.steps, waves(play.plan.edges), strict=True):
            played, entry = play.steps.get(step.index), self._rules.catalogue.get(step.tool, step.version)
            digest = step.schema_digest if entry is None else entry.contract.schema_digest
            ruling = None if played is None else played.ruling
            found[step.id] = Told(step.tool, step.version, digest, wave, states[step.id], ruling)
        return found

    def _status(self, plan: Plan, said: dict[str, str]) -> str:
        """How the run would stand; one that was ended from outside ends so again."""
        if UNKNOWN in said.values():
            return UNKNOWN
        states = {name: StepState(word) for name, word in said.items()}
        run = self._kept.found.run
        if any(state not in ENDED for state in states.values()):
            return waits_for(states.values()) or run.status
        ending = Ending(
            cancelled=run.status == RunStatus.CANCELLED,
            deadline_passed=run.code == ErrorCode.DEADLINE_EXCEEDED.value,
            over_budget=run.status == RunStatus.BUDGET_EXHAUSTED,
            continued=frozenset(step.id for step in plan.steps if step.on_failure == "continue"),
        )
        return verdict(states, ending, {}).status.value
