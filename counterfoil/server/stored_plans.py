"""The plans that the configuration stores: read from their files and checked in full, against the tools there are.

A plan is checked as that of somebody who may do everything, since who may run it, and who must agree, is asked at each
run. What is wrong is told at the key of the file, with the step and the field in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..canonical import JsonObject, canonical, sha256_hex
from ..registry.arguments import ArgumentSchema, InvalidArgumentsError, argument_schema
from ..registry.bounded import Bounds, StrictJsonError
from ..registry.catalogue import Catalogue
from ..registry.contract import BASE_NAMES, NAME, RESERVED_ENDINGS, Text
from ..registry.named_plans import NamedPlan, uses_of
from ..registry.policy import Policy
from ..registry.policy_check import Finding, Severity
from ..registry.principal import NEVER_IN_WILDCARD, Principal
from ..registry.schema import SchemaError
from ..registry.strict_json import parse
from ..registry.vocabulary import Effect, Verdict
from ..runtime.plan.checking import CheckedPlan, PlanLimits, PlanRules, check_plan
from ..runtime.plan.problems import PlanInvalidError, PlanProblem
from ..tools.schema import sensitive_pointers
from .config import Configuration, Problem
from .config.errors import KeyPath
from .config.plan_tables import PlanTable
from .config.tool_kinds import short_schema
from .limits import budgets_of

ANYBODY: Final = Principal("", "", scopes=frozenset({"*", *NEVER_IN_WILDCARD}))
"""Holds every scope: whether a plan is right does not hang on who runs it."""
EVERYTHING: Final = Policy((), dict.fromkeys(Effect, Verdict.ALLOW))
TOLD: Final = 20
"""How many mistakes of one plan are told."""


def read_plans(config: Configuration, catalogue: Catalogue) -> tuple[list[NamedPlan], list[Problem]]:
    """Every stored plan that is right, and what is wrong with the others.

    Where tools are missing because they are wrong themselves, ask again when they are mended.
    """
    plans: list[NamedPlan] = []
    problems: list[Problem] = []
    for name, table in config.plans.items():
        reading = _Reading(config, catalogue, name, table)
        try:
            plans.append(reading.plan())
        except _WrongError:
            problems += reading.problems
    return plans, problems


class _WrongError(Exception):
    """Something was found that ends the reading of one plan."""


class _Reading:
    """One plan, and what was found wrong with it so far."""

    def __init__(self, config: Configuration, catalogue: Catalogue, name: str, table: PlanTable) -> None:
        self.problems: list[Problem] = []
        self._config = config
        self._catalogue = catalogue
        self._name = name
        self._table = table

    def plan(self) -> NamedPlan:
        """The plan, if nothing is wrong with it.

        Raises:
            _WrongError: something is, and stands in `problems`.
        """
        self._check_name()
        takes = self._takes()
        document = self._document()
        if takes is None or document is None:
            raise _WrongError
        self._check_defaults(takes, document)
        checked = self._checked(takes, document)
        if checked is None or self.problems:
            raise _WrongError
        goal, described = checked.plan.goal, self._table.description
        return NamedPlan(
            name=self._name,
            text=Text(self._name, goal if described is None else f"{described}\n\n{goal}", self._table.tags or ()),
            takes=takes,
            document=document,
            uses=tuple(uses_of(document)),
            digest=sha256_hex(canonical({"plan": checked.digest, "input": takes.schema})),
            sensitive=tuple(sensitive_pointers(takes.schema)),
        )

    def _check_name(self) -> None:
        entry = self._catalogue.get(self._name)
        if not NAME.fullmatch(self._name):
            self._say((), "expected a name of 1 to 64 characters of a-z, 0-9 and _")
        elif self._name in BASE_NAMES:
            self._say((), "this is the name of a base tool; choose another")
        elif self._name.endswith(RESERVED_ENDINGS):
            self._say((), f"the endings {' and '.join(RESERVED_ENDINGS)} belong to probes and compensations")
        elif entry is not None:
            self._say((), "a tool has this name, and what is found by a search has one name; choose another")

    def _takes(self) -> ArgumentSchema | None:
        """What runs are given; nothing where no schema is stated."""
        table = self._table
        if table.input is not None and table.input_schema is not None:
            self._say(("input_schema",), "expected input or input_schema, not both")
            return None
        try:
            stated = table.input_schema
            takes = argument_schema(short_schema(table.input or {}, closed=True) if stated is None else stated)
        except SchemaError as error:
            self._say(("input_schema",), str(error))
            return None
        if takes.schema.get("type") != "object":
            self._say(("input_schema",), 'expected type = "object": an input is an object')
            return None
        return takes

    def _document(self) -> JsonObject | None:
        limits = PlanLimits()
        bounds = Bounds(limits.document_bytes, limits.depth, limits.values, limits.document_bytes)
        path = self._config.path.parent / self._table.file
        try:
            with path.open("rb") as file:
                found = parse(file.read(limits.document_bytes + 1), bounds)
        except OSError as error:
            self._say_of_file(f"cannot be read: {error.strerror or type(error).__name__}")
            return None
        except ValueError as error:
            said = str(error) if isinstance(error, StrictJsonError) else "its name holds a null character"
            self._say_of_file(said)
            return None
        if isinstance(found, dict):
            return found
        self._say_of_file("expected a plan, {goal, steps, ...}")
        return None

    def _check_defaults(self, takes: ArgumentSchema, document: JsonObject) -> None:
        """They fit the schema as far as they go; what they leave out is given by each run."""
        defaults = document.get("input")
        if not isinstance(defaults, dict):
            return  # the plan's own check tells of it
        partial = {name: said for name, said in takes.schema.items() if name != "required"}
        try:
            argument_schema(partial).effective(defaults)
        except InvalidArgumentsError as error:
            for problem in error.problems:
                self._say_of_file(f"input: {problem.message}; the schema is [plans.{self._name}] input or input_schema")

    def _checked(self, takes: ArgumentSchema, document: JsonObject) -> CheckedPlan | None:
        rules = PlanRules(self._catalogue, EVERYTHING, budgets_of(self._config.budgets), _limits(self._config))
        try:
            return check_plan(document, ANYBODY, rules, takes=takes.schema)
        except PlanInvalidError as error:
            for text in _told(error):
                self._say_of_file(text)
            return None

    def _say_of_file(self, message: str) -> None:
        self._say(("file",), f"{self._table.file}: {message}")

    def _say(self, below: KeyPath, message: str) -> None:
        self.problems.append(self._config.problem(("plans", self._name, *below), message))


def findings(config: Configuration, catalogue: Catalogue, policy: Policy, local: Principal) -> list[Finding]:
    """Stored plans that are right and that the configuration's own principal could not run: worth a look."""
    rules = PlanRules(catalogue, policy, budgets_of(config.budgets), _limits(config))
    found: list[Finding] = []
    for plan in catalogue.plans():
        try:
            check_plan(plan.document, local, rules, takes=plan.takes.schema)
        except PlanInvalidError as error:
            for text in _told(error):
                said = f"it is right, and {local.subject} (principals.local) could not run it: {text}"
                found.append(Finding(Severity.WARNING, "", str(config.problem(("plans", plan.name), said))))
    return found


def _limits(config: Configuration) -> PlanLimits:
    return PlanLimits(config.limits.plan_steps, config.limits.for_each, config.limits.max_parallel)


def _told(error: PlanInvalidError) -> Iterator[str]:
    yield from map(_spoken, error.problems[:TOLD])
    if left := len(error.problems[TOLD:]) + error.more:
        yield f"and {left} more"


def _spoken(problem: PlanProblem) -> str:
    where = "" if problem.step is None else f"step {problem.step}, "
    return f"{where}{problem.message} ({problem.code})"
