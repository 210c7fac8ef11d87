"""What can be said about a policy before any call: its own tests, names that nothing has, defaults lowered, overlaps.

Errors should stop a start or a `check`; notes are for a person to read. Nothing here decides about a call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Final, TypeAlias

from .contract import Contract
from .nearest import hint
from .policy import Policy
from .policy_rules import ReadyRule
from .predicates import Op, Predicate
from .principal import Principal
from .schema_paths import has_path
from .vocabulary import Assurance, Effect, JsonObject, JsonValue, Verdict

SHOWN: Final = 5
"""Tools that one finding names."""

Covered: TypeAlias = Mapping[str, Sequence[Contract]]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a rule, or about a test that stands beside it."""

    severity: Severity
    rule_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTest:
    """One call and the verdict that its author expects; `rule_id` names the rule beside which it was written."""

    tool: str
    expect: Verdict
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    tenant: str = "local"
    subject: str = "me"
    scopes: frozenset[str] = frozenset({"*"})
    rule_id: str = ""


def check(policy: Policy, tests: Sequence[PolicyTest], contracts: Iterable[Contract]) -> list[Finding]:
    """Everything worth saying, errors first; `contracts` are those that unpinned calls take."""
    by_name = {contract.name: contract for contract in contracts}
    covered = {one.rule.id: [c for c in by_name.values() if one.covers_tool(c)] for one in policy.ready}
    findings = [
        *_failing_tests(policy, tests, by_name),
        *_unknown_tools(policy, by_name),
        *_absent_pointers(policy, covered),
        *_lowered_defaults(policy, covered),
        *_raised_assurances(policy, covered),
        *_overlaps(policy, covered),
    ]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def _failing_tests(policy: Policy, tests: Sequence[PolicyTest], by_name: Mapping[str, Contract]) -> Iterator[Finding]:
    for test in tests:
        contract = by_name.get(test.tool)
        if contract is None:
            yield Finding(Severity.ERROR, test.rule_id, f"a test calls {_unknown(test.tool, by_name)}")
            continue
        principal = Principal(test.tenant, test.subject, scopes=test.scopes)
        got = policy.decide(contract, test.arguments, principal)
        if got.verdict is not test.expect:
            yield Finding(
                Severity.ERROR,
                test.rule_id,
                f"a test of {test.tool} with {test.arguments} expects {test.expect.value!r}, but "
                f"{got.rule_id!r} gives {got.verdict.value!r}: {got.reason}",
            )


def _unknown_tools(policy: Policy, by_name: Mapping[str, Contract]) -> Iterator[Finding]:
    for one in policy.ready:
        rule = one.rule
        if rule.tool is None or any(one.glob and one.glob.match(name) for name in by_name):
            continue
        if rule.names_tool:
            yield Finding(Severity.ERROR, rule.id, f"it names {_unknown(rule.tool, by_name)}")
        else:
            yield Finding(Severity.NOTE, rule.id, f"no registered tool matches {rule.tool!r}")


def _unknown(tool: str, by_name: Mapping[str, Contract]) -> str:
    return f"the tool {tool!r}, which is not registered{hint(tool, by_name)}"


def _absent_pointers(policy: Policy, covered: Covered) -> Iterator[Finding]:
    for one in policy.ready:
        tools = covered[one.rule.id]
        places = {c.pointer: c.parts for c in one.conditions}
        summed = one.rule.limit.sum if one.rule.limit is not None else None
        if summed is not None and one.limit is not None:
            places[summed] = one.limit.parts
        for pointer, parts in places.items():
            without = [contract.name for contract in tools if not has_path(contract.schemas.input, parts)]
            if not without:
                continue
            effect = "can never match" if one.rule.verdict is Verdict.ALLOW else "counts as met"
            part = "limit" if pointer == summed else "condition"
            severity = Severity.ERROR if len(without) == len(tools) else Severity.NOTE
            yield Finding(
                severity,
                one.rule.id,
                f"the arguments of {_list(without)} have no {pointer!r}, so that {part} {effect} there",
            )


def _lowered_defaults(policy: Policy, covered: Covered) -> Iterator[Finding]:
    for one in policy.ready:
        if one.rule.verdict is not Verdict.ALLOW:
            continue
        for effect in Effect:
            default = policy.defaults[effect]
            names = [c.name for c in covered[one.rule.id] if c.gate.effect is effect and one.rule.names(c)]
            if names and default is not Verdict.ALLOW:
                text = f"it lowers the default of effect {effect.value!r}, {default.value!r}, for {_list(names)}"
                yield Finding(Severity.NOTE, one.rule.id, text)


def _raised_assurances(policy: Policy, covered: Covered) -> Iterator[Finding]:
    for one in policy.ready:
        names = [c.name for c in covered[one.rule.id] if c.gate.effect is Effect.DESTRUCTIVE]
        if one.rule.assurance is Assurance.CLIENT and names:
            text = f"'client' is for reversible writes; for {_list(names)} an operator is asked"
            yield Finding(Severity.NOTE, one.rule.id, text)


def _overlaps(policy: Policy, covered: Covered) -> Iterator[Finding]:
    names = {rule_id: {contract.name for contract in contracts} for rule_id, contracts in covered.items()}
    for left, right in combinations(policy.ready, 2):
        common = names[left.rule.id] & names[right.rule.id]
        if not common or left.rule.verdict is right.rule.verdict or _apart(left, right):
            continue
        strict = max(left.rule.verdict, right.rule.verdict, key=lambda verdict: verdict.strictness)
        text = f"it overlaps with rule {left.rule.id!r} on {_list(sorted(common))}; there {strict.value!r} wins"
        yield Finding(Severity.NOTE, right.rule.id, text)


def _apart(left: ReadyRule, right: ReadyRule) -> bool:
    """True if no call can match both, as far as principals and bounds on numbers tell."""
    return any(_differ(getattr(left.rule, name), getattr(right.rule, name)) for name in ("tenant", "subject")) or any(
        _disjoint(left.conditions, right.conditions, pointer) for pointer in left.rule.when.keys() & right.rule.when
    )


def _differ(left: str | None, right: str | None) -> bool:
    return left is not None and right is not None and left != right


def _disjoint(left: Sequence[Predicate], right: Sequence[Predicate], pointer: str) -> bool:
    low: tuple[float, bool] = (-math.inf, False)
    high: tuple[float, bool] = (math.inf, True)
    for one in (*left, *right):
        bound = one.operand
        if one.pointer != pointer or isinstance(bound, bool) or not isinstance(bound, int | float):
            continue
        if one.op in (Op.GT, Op.GE, Op.EQ):
            low = max(low, (bound, one.op is Op.GT))
        if one.op in (Op.LT, Op.LE, Op.EQ):
            high = min(high, (bound, one.op is not Op.LT))
    return low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1]))


def _list(names: Sequence[str]) -> str:
    shown, rest = ", ".join(names[:SHOWN]), len(names) - SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown
