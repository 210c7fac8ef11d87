"""The check of a plan, from the document to what it would do: everything that is wrong with it, or its prediction.

The order is read, link, resolve, follow each step, then budgets. No mistake hides another, so that all are told at
once. Nothing runs, and nothing is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...registry.bounded import Bounds, StrictJsonError, bounded_copy
from ...registry.budgets import Budgets
from ...registry.catalogue import Catalogue, Entry
from ...registry.policy import Policy
from ...registry.principal import Principal
from ...registry.vocabulary import JsonObject, JsonValue
from .arguing import Arguing
from .drafts import Draft, DraftPlan
from .facts import Facts, happening
from .fields import Spot
from .flow import Sources
from .graph import ordered, waves
from .linking import Links, link
from .model import Needs, Plan, RetryLimit, Step
from .predicting import Asked, PredictedStep, asked, predicted
from .problems import Code, Problems
from .reading import read_plan
from .resolving import Tools
from .shapes import ANYTHING, Shape, listed, or_null
from .spending import check_budget, check_windows, limits_of, shown_budget, used
from .stepwise import Stepwise
from .stored import digest_of, to_stored
from .undoing import Undoing
from .warning import warnings


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """How large a plan may be: `document_bytes`, `depth` and `values` bound its JSON, `references` every `${` in it."""

    steps: int = 5_000
    for_each: int = 200
    max_parallel: int = 8
    document_bytes: int = 4 * 1024 * 1024
    depth: int = 64
    values: int = 250_000
    references: int = 50_000


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What a plan is checked against."""

    catalogue: Catalogue
    policy: Policy
    budgets: Budgets = field(default_factory=Budgets)
    limits: PlanLimits = field(default_factory=PlanLimits)


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A plan that can run, and what it would do; `input` is the effective one, `plan.input` the plan's own.

    `stored` is the plan's normal document, whose digest (64 hex characters) is `digest`.
    """

    plan: Plan
    stored: JsonObject
    digest: str
    input: JsonObject
    predicted: tuple[PredictedStep, ...]
    waves: tuple[tuple[str, ...], ...]
    approvals: tuple[Asked, ...]
    budget: JsonObject
    warnings: tuple[str, ...]

    def wire(self) -> JsonObject:
        """The answer of `plan`, without its `plan_id`."""
        return {
            "digest": self.digest,
            "steps": [step.wire() for step in self.predicted],
            "waves": [list(wave) for wave in self.waves],
            "approvals": [one.wire() for one in self.approvals],
            "budget": self.budget,
            "warnings": list(self.warnings),
        }


def check_plan(
    document: JsonValue,
    principal: Principal,
    rules: PlanRules,
    given: JsonObject | None = None,
    *,
    takes: JsonObject | None = None,
) -> CheckedPlan:
    """Check a plan as this principal's; `given` is laid over its input, member by member.

    With `takes` the input of its runs is not known yet, only the schema that each will fit: references to it lead to
    what that schema says, and what is predicted holds for any of them.

    Raises:
        PlanInvalidError: everything that is wrong with it.
    """
    problems = Problems()
    table = _bounded(document, "", rules.limits, problems)
    laid = _bounded({} if given is None else given, "input", rules.limits, problems)
    _check_references(table, rules.limits, problems)
    problems.raise_any()
    draft = read_plan(table, problems, rules.limits.steps)
    shape = None if takes is None else Shape(takes, takes, "input")
    return _Check(draft, {**draft.input, **laid}, shape, principal, rules).checked(problems)


def _bounded(value: JsonValue, place: str, limits: PlanLimits, problems: Problems) -> JsonObject:
    bounds = Bounds(limits.document_bytes, limits.depth, limits.values, limits.document_bytes)
    try:
        found = bounded_copy(value, bounds)
    except StrictJsonError as error:
        code = Code.TOO_LARGE if "at most" in error.expected else Code.INVALID_ARGUMENTS
        where = place + error.path.replace("/", ".") if place else error.path.removeprefix("/").replace("/", ".")
        problems.add(None, where, code, str(error))
        return {}
    if not isinstance(found, dict):
        Spot(problems).invalid(place, "an object" if place else "a plan, {goal, steps, ...}", found, hidden=True)
        return {}
    return found


def _check_references(table: JsonObject, limits: PlanLimits, problems: Problems) -> None:
    """Before any of them is read, since each costs."""
    count, waiting = 0, list[JsonValue]([table])
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            count += value.count("${")
        elif isinstance(value, list | dict):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    if count > limits.references:
        told = f"a plan has at most {limits.references:,} references, this one {count:,}; make it several plans"
        problems.add(None, "", Code.TOO_LARGE, told)


class _Check:
    """One check of one plan that was read."""

    def __init__(
        self, draft: DraftPlan, effective: JsonObject, takes: Shape | None, principal: Principal, rules: PlanRules
    ) -> None:
        self.draft = draft
        self.input = effective
        self.takes = takes
        self.principal = principal
        self.rules = rules
        self.tools = Tools(rules.catalogue, principal, rules.policy)

    def checked(self, problems: Problems) -> CheckedPlan:
        """The answer.

        Raises:
            PlanInvalidError: everything that is wrong.
        """
        links = link(self.draft.steps)
        entries = [self.tools.of_step(step) for step in self.draft.steps]
        facts = self._facts(links, entries)
        success = [edges if step.needs is Needs.SUCCESS else () for step, edges in self._steps(links)]
        happening(facts, ordered(links.edges), success)
        check_budget(self.draft.spot, used(facts, certain=True), self.draft, self.rules.budgets.run)
        check_windows(self.draft.steps, facts, self.rules.budgets.windowed)
        problems.raise_any()
        return self._predicted(links, [fact for fact in facts if fact is not None])

    def _steps(self, links: Links) -> list[tuple[Draft, tuple[int, ...]]]:
        return list(zip(self.draft.steps, links.edges, strict=True))

    def _facts(self, links: Links, entries: list[Entry | None]) -> list[Facts | None]:
        sources = self._sources(links, entries)
        arguing = Arguing(sources.lookup)
        stepwise = Stepwise(
            self.draft,
            self.principal,
            self.rules.policy,
            self.rules.limits.for_each,
            sources,
            arguing,
            Undoing(self.draft, self.tools, sources, arguing),
        )
        return [stepwise.check(step, entry) for step, entry in zip(self.draft.steps, entries, strict=True)]

    def _sources(self, links: Links, entries: list[Entry | None]) -> Sources:
        shapes: dict[int, Shape] = {}
        given = [self._shape(entry, shapes) for entry in entries]
        for step in self.draft.steps:
            if step.for_each is not None:
                count = len(step.for_each) if isinstance(step.for_each, list) else None
                given[step.index] = listed(given[step.index], count)
        each = frozenset(name for name, at in links.names.items() if self.draft.steps[at].for_each is not None)
        outputs = {name: given[at] for name, at in links.names.items()}
        return Sources(self.input, outputs, each, takes=self.takes)

    def _shape(self, entry: Entry | None, seen: dict[int, Shape]) -> Shape:
        """What a step of this tool gives: its output, or null where it ends without a result."""
        if entry is None or entry.contract.schemas.output is None:
            return ANYTHING
        if id(entry) not in seen:
            contract, output = entry.contract, entry.contract.schemas.output
            seen[id(entry)] = or_null(Shape(output, output, ("gives", contract.name, contract.version)))
        return seen[id(entry)]

    def _predicted(self, links: Links, facts: list[Facts]) -> CheckedPlan:
        draft, rules = self.draft, self.rules
        plan = _plan(draft, links, facts)
        ids = [step.id for step in plan.steps]
        in_wave = waves(links.edges)
        stored = to_stored(plan)
        limits = limits_of(draft.budget, draft.allow, rules.budgets.run)
        most = rules.limits
        return CheckedPlan(
            plan=plan,
            stored=stored,
            digest=digest_of(stored),
            input=self.input,
            predicted=tuple(predicted(ids, facts, in_wave)),
            waves=_grouped(ids, in_wave),
            approvals=tuple(asked(ids, facts)),
            budget=shown_budget(facts, limits),
            warnings=tuple(warnings(draft, ids, facts, rules.budgets.run, most.max_parallel, most.for_each)),
        )


def _grouped(ids: list[str], in_wave: list[int]) -> tuple[tuple[str, ...], ...]:
    found: list[list[str]] = [[] for _ in range(max(in_wave) + 1)]
    for step_id, wave in zip(ids, in_wave, strict=True):
        found[wave].append(step_id)
    return tuple(map(tuple, found))


def _plan(draft: DraftPlan, links: Links, facts: list[Facts]) -> Plan:
    ids = [_id(step) for step in draft.steps]
    return Plan(
        goal=draft.goal,
        steps=tuple(_step(step, fact, links, ids) for step, fact in zip(draft.steps, facts, strict=True)),
        edges=tuple(links.edges),
        input=draft.input,
        on_failure=draft.on_failure,
        compensation=draft.compensation,
        max_parallel=draft.max_parallel,
        deadline_s=draft.deadline_s,
        budget=draft.budget,
        allow=draft.allow,
    )


def _step(draft: Draft, fact: Facts, links: Links, ids: list[str]) -> Step:
    return Step(
        id=_id(draft),
        index=draft.index,
        tool=fact.contract.name,
        version=fact.contract.version,
        schema_digest=fact.contract.schema_digest,
        args=draft.args,
        depends_on=tuple(ids[at] for at in sorted({links.names[name] for name in draft.depends_on})),
        needs=draft.needs,
        save_as=None if draft.save_as == draft.id else draft.save_as,
        for_each=draft.for_each,
        when=draft.when,
        if_version=draft.if_version,
        timeout_s=draft.timeout_s,
        retry=None if draft.retry == RetryLimit() else draft.retry,
        on_failure=draft.on_failure,
        compensate=draft.compensate,
    )


def _id(draft: Draft) -> str:
    if draft.id is None:
        raise AssertionError("a step without an id is a problem, and a plan with a problem is refused")
    return draft.id
