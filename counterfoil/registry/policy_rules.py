"""One policy rule: what it may say, and which calls it matches.

A `Rule` holds what somebody wrote; a `ReadyRule` is the same after its meaning was checked, with its conditions ready
to be asked. Which verdict follows from several matching rules is decided in `policy`, never here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final, NoReturn

from .budgets import ReadyLimit, RuleLimit
from .contract import Contract
from .predicates import Predicate, PredicateError, predicate
from .vocabulary import Assurance, Effect, JsonObject, Verdict

DEFAULT_ASSURANCE: Final[Mapping[Effect, Assurance]] = {
    Effect.READ: Assurance.CLIENT,
    Effect.WRITE: Assurance.CLIENT,
    Effect.DESTRUCTIVE: Assurance.OPERATOR,
}
"""What an `approve` asks for where nobody said; whether a client can be asked is its caller's to find out."""

_GLOB = re.compile(r"[a-z0-9_*?!\[\]-]+")
_GLOB_SIGN = re.compile(r"[*?\[]")


class PolicyError(ValueError):
    """A rule that cannot be right: `rule_id`, `field`, and what may stand there."""

    def __init__(self, rule_id: str, field: str, problem: str) -> None:
        super().__init__(f"policy rule {rule_id!r}, {field}: {problem}")
        self.rule_id = rule_id
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule as it was written; every stated condition must hold, and what is None or empty is no condition.

    `tool` is a glob over tool names; `tags` matches a tool that has one of them; `scope` one that needs this scope;
    `upstream` one that comes from there; `tenant` and `subject` are the principal's, compared exactly. `when` maps a
    JSON Pointer into the validated arguments to operators and their operands. `assurance`, `over_mcp` and `approvers`
    go with verdict `approve`; an empty `approvers` restricts nobody. With a `limit` the rule matches only beyond it.
    """

    id: str
    verdict: Verdict
    tool: str | None = None
    effect: Effect | None = None
    tags: tuple[str, ...] = ()
    scope: str | None = None
    tenant: str | None = None
    subject: str | None = None
    upstream: str | None = None
    when: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    assurance: Assurance | None = None
    over_mcp: bool = False
    approvers: tuple[str, ...] = ()
    reason: str = ""
    limit: RuleLimit | None = None

    @property
    def names_tool(self) -> bool:
        """True if `tool` is one full name and no pattern."""
        return self.tool is not None and not _GLOB_SIGN.search(self.tool)

    def names(self, contract: Contract) -> bool:
        """True if the rule names this contract's effect, or its tool in full: then an `allow` lowers the default."""
        return self.effect is contract.gate.effect or (self.names_tool and self.tool == contract.name)

    def assurance_for(self, effect: Effect) -> Assurance:
        """What its approval asks for; a destructive tool never less than an operator."""
        asked = self.assurance or DEFAULT_ASSURANCE[effect]
        return at_least_operator(asked) if effect is Effect.DESTRUCTIVE else asked


@dataclass(frozen=True, slots=True)
class ReadyRule:
    """A checked rule with its glob and conditions made ready.

    Raises:
        PolicyError: see there.
    """

    rule: Rule
    prefix: str
    glob: re.Pattern[str] | None
    conditions: tuple[Predicate, ...]
    limit: ReadyLimit | None = None

    @classmethod
    def of(cls, rule: Rule) -> ReadyRule:
        """Check a rule's meaning."""
        _check(rule)
        tool = rule.tool or ""
        prefix = _GLOB_SIGN.split(tool, maxsplit=1)[0]
        glob = re.compile(translate(tool)) if rule.tool is not None else None
        return cls(rule, prefix, glob, tuple(_conditions(rule)), _limit(rule))

    @property
    def is_certain(self) -> bool:
        """True if it matches whatever the arguments and whatever was done before."""
        return not self.conditions and self.limit is None

    def covers_tool(self, contract: Contract) -> bool:
        """True if the rule can match some call of this tool."""
        rule, gate = self.rule, contract.gate
        return (
            (rule.effect is None or rule.effect is gate.effect)
            and contract.name.startswith(self.prefix)
            and (self.glob is None or self.glob.match(contract.name) is not None)
            and (not rule.tags or not set(rule.tags).isdisjoint(contract.text.tags))
            and (rule.scope is None or rule.scope in gate.scopes)
            and (rule.upstream is None or rule.upstream == contract.upstream)
        )

    def covers(self, contract: Contract, tenant: str | None, subject: str | None) -> bool:
        """True if the rule matches calls of this tool by this subject of this tenant, conditions aside."""
        rule = self.rule
        return (
            (rule.tenant is None or rule.tenant == tenant)
            and (rule.subject is None or rule.subject == subject)
            and self.covers_tool(contract)
        )

    def holds(self, arguments: JsonObject) -> bool:
        """Ask its conditions; what cannot be compared counts against the caller."""
        unsure = self.rule.verdict is not Verdict.ALLOW
        answers = (condition.holds(arguments) for condition in self.conditions)
        return all(unsure if answer is None else answer for answer in answers)

    def would_hold(self, arguments: JsonObject, unknown: Collection[Sequence[str]]) -> bool | None:
        """Whether it will match once the values at the places `unknown` are there; None if they or its limit decide."""
        unsure = self.rule.verdict is not Verdict.ALLOW
        decided = True
        for condition in self.conditions:
            if condition.hangs_on(unknown):
                decided = False
                continue
            answer = condition.holds(arguments)
            if not (unsure if answer is None else answer):
                return False
        if self.limit is not None and (unknown or self.limit.is_sure(arguments)):
            decided = False
        return True if decided else None


def at_least_operator(assurance: Assurance) -> Assurance:
    """The stronger of this and `operator`."""
    return max(assurance, Assurance.OPERATOR, key=lambda one: one.strength)


def check_unique(rules: Sequence[Rule]) -> None:
    """Refuse a second rule of the same id.

    Raises:
        PolicyError: its id.
    """
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise PolicyError(rule.id, "id", "another rule has this id; every rule needs its own")
        seen.add(rule.id)


def _conditions(rule: Rule) -> list[Predicate]:
    ready: list[Predicate] = []
    for pointer, operators in rule.when.items():
        if not operators:
            raise PolicyError(rule.id, f"when.{pointer}", "it has no operator; write for example { gt = 100 }")
        for op, operand in operators.items():
            try:
                ready.append(predicate(pointer, op, operand))
            except PredicateError as error:
                raise PolicyError(rule.id, f"when.{pointer}", str(error)) from error
    return ready


def _limit(rule: Rule) -> ReadyLimit | None:
    if rule.limit is None:
        return None
    if (problem := rule.limit.problem()) is not None:
        raise PolicyError(rule.id, f"limit.{problem[0]}", problem[1])
    try:
        return ReadyLimit.of(rule.id, rule.limit)
    except PredicateError as error:
        raise PolicyError(rule.id, "limit.sum", str(error)) from error


def _check(rule: Rule) -> None:
    def refuse(field: str, problem: str) -> NoReturn:
        raise PolicyError(rule.id, field, problem)

    if not rule.id.strip() or ":" in rule.id:
        refuse("id", "an id is a short name without ':' (those are the ids of defaults and contracts)")
    if rule.limit is not None and rule.verdict is Verdict.ALLOW:
        refuse("limit", "beyond its limit a rule matches, so it goes with verdict 'deny' or 'approve', not 'allow'")
    if rule.tool is not None and not _GLOB.fullmatch(rule.tool):
        refuse("tool", f"{rule.tool!r} matches no tool name; use a-z, 0-9 and _, with * ? and [...] as wildcards")
    _check_approval(rule, refuse)


def _check_approval(rule: Rule, refuse: Callable[[str, str], NoReturn]) -> None:
    if rule.verdict is not Verdict.APPROVE:
        for name in ("assurance", "over_mcp", "approvers"):
            if getattr(rule, name):
                refuse(name, f"it goes with verdict 'approve', not '{rule.verdict}'")
    if rule.assurance is Assurance.NONE:
        refuse("assurance", "an approval needs somebody; it may be 'client', 'operator' or 'second_person'")
    if rule.assurance is Assurance.CLIENT and rule.effect is Effect.DESTRUCTIVE:
        refuse("assurance", "'client' is for reversible writes; with effect 'destructive' it may be 'operator' or "
                            "'second_person'")  # fmt: skip
    if any(not approver.strip() for approver in rule.approvers):
        refuse("approvers", "an approver is a subject, or 'os:NAME' for a command line account; one of them is empty")
