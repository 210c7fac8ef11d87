"""Why policy says what it says of one call: each rule with what it covers, which condition failed and on what.

Nothing here decides: the verdict is `Policy`'s own, and a rule matches exactly where `ReadyRule` says so. Values at
sensitive places, or of secret names, are told by their length.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .contract import Contract
from .policy import Decision, Policy, Standing
from .policy_rules import ReadyRule
from .predicates import Predicate, look_up
from .principal import Principal
from .secret_places import Place, is_secret_place, places
from .vocabulary import Assurance, JsonObject, JsonValue, Verdict

ABSENT = "nothing there"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition of a rule. `answer` is None where nothing could be compared; `counts` is what the rule makes of it.

    Without arguments `got` is empty and `counts` is None.
    """

    path: str
    expected: str
    got: str
    answer: bool | None
    counts: bool | None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a rule is about other calls: one of its fields, what it asks for, and what this call has."""

    field: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class RuleSaid:
    """One rule about one call; `matches` is None where it depends on arguments that were not given."""

    id: str
    verdict: Verdict
    reason: str
    obstacles: tuple[Obstacle, ...]
    clauses: tuple[Clause, ...]
    matches: bool | None

    @property
    def covers(self) -> bool:
        """True if the rule is about this tool and this principal, conditions aside."""
        return not self.obstacles


@dataclass(frozen=True, slots=True)
class DefaultSaid:
    """The verdict by effect, and the `allow` rule that takes it away here, if one does."""

    verdict: Verdict
    lowered_by: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that counts for one call; `decision` is None without arguments, where only `standing` is known."""

    decision: Decision | None
    standing: Standing
    contract_asks: Assurance
    default: DefaultSaid
    rules: tuple[RuleSaid, ...]
    missing_scopes: tuple[str, ...]


def explain(policy: Policy, contract: Contract, arguments: JsonObject | None, principal: Principal) -> Explanation:
    """Explain a call with these validated arguments, or what is known before there are any."""
    marked = places(contract.gate.sensitive)
    rules = tuple(_rule(ready, contract, arguments, principal, marked) for ready in policy.ready)
    lowering = [one.id for one, rule in zip(rules, policy.rules, strict=True)
                if one.matches and rule.verdict is Verdict.ALLOW and rule.names(contract)]  # fmt: skip
    return Explanation(
        decision=None if arguments is None else policy.decide(contract, arguments, principal),
        standing=policy.standing(contract, principal),
        contract_asks=contract.gate.approval,
        default=DefaultSaid(policy.defaults[contract.gate.effect], lowering[0] if lowering else None),
        rules=rules,
        missing_scopes=tuple(principal.missing(contract.gate.scopes)),
    )


def _rule(
    ready: ReadyRule, contract: Contract, arguments: JsonObject | None, principal: Principal, marked: Sequence[Place]
) -> RuleSaid:
    rule = ready.rule
    clauses = tuple(_clause(condition, rule.verdict, arguments, marked) for condition in ready.conditions)
    return RuleSaid(
        rule.id,
        rule.verdict,
        rule.reason,
        tuple(_obstacles(ready, contract, principal)),
        clauses,
        _matches(ready, contract, arguments, principal),
    )


def _matches(ready: ReadyRule, contract: Contract, arguments: JsonObject | None, principal: Principal) -> bool | None:
    if not ready.covers(contract, principal.tenant, principal.subject):
        return False
    if arguments is None:
        return None if ready.conditions else True
    return ready.holds(arguments)


def _obstacles(ready: ReadyRule, contract: Contract, principal: Principal) -> Iterator[Obstacle]:
    """Every field that rules this call out, not only the first."""
    rule, gate = ready.rule, contract.gate
    if rule.tool is not None and not (ready.glob and ready.glob.match(contract.name)):
        yield Obstacle("tool", rule.tool, contract.name)
    if rule.effect is not None and rule.effect is not gate.effect:
        yield Obstacle("effect", rule.effect, gate.effect)
    if rule.tags and set(rule.tags).isdisjoint(contract.text.tags):
        yield Obstacle("tags", _listed(rule.tags), _listed(contract.text.tags))
    if rule.scope is not None and rule.scope not in gate.scopes:
        yield Obstacle("scope", rule.scope, _listed(gate.scopes))
    for field in ("tenant", "subject"):
        wanted, given = getattr(rule, field), getattr(principal, field)
        if wanted is not None and wanted != given:
            yield Obstacle(field, wanted, given)
    if rule.upstream is not None and rule.upstream != contract.upstream:
        yield Obstacle("upstream", rule.upstream, contract.upstream or "none")


def _clause(condition: Predicate, verdict: Verdict, arguments: JsonObject | None, marked: Sequence[Place]) -> Clause:
    expected = f"{condition.op} {_text(condition.operand)}"
    if arguments is None:
        return Clause(condition.pointer, expected, "", None, None)
    answer = condition.holds(arguments)
    counts = verdict is not Verdict.ALLOW if answer is None else answer
    return Clause(condition.pointer, expected, _got(condition, arguments, marked), answer, counts)


def _got(condition: Predicate, arguments: JsonObject, marked: Sequence[Place]) -> str:
    found, value = look_up(arguments, condition.parts)
    if not found:
        return ABSENT
    return _length(value) if _holds_secret(value, condition.parts, marked) else _text(value)


def _holds_secret(value: JsonValue, path: Place, marked: Sequence[Place]) -> bool:
    """Whether a secret lies at a place or below it."""
    if is_secret_place(path, marked):
        return True
    if isinstance(value, dict):
        return any(_holds_secret(member, (*path, name), marked) for name, member in value.items())
    if isinstance(value, list):
        return any(_holds_secret(member, (*path, str(n)), marked) for n, member in enumerate(value))
    return False


def _length(value: JsonValue) -> str:
    if isinstance(value, str):
        return f"{len(value)} characters (sensitive)"
    return f"{len(json.dumps(value))} characters of JSON (sensitive)"


def _text(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"
