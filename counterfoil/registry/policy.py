"""What policy says of one call: the strictest of the contract, every matching rule, and the effect's default.

An `allow` rule that names the effect or the tool's full name takes the default away; it lowers nothing else.
Every decision carries its reason. Holding people to a decision, asking them and recording it happens elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final

from .budgets import ReadyLimit
from .contract import Contract
from .policy_rules import DEFAULT_ASSURANCE, PolicyError, ReadyRule, Rule, at_least_operator, check_unique
from .principal import Principal
from .vocabulary import Assurance, Effect, JsonObject, Verdict

__all__ = ["SAFE_DEFAULTS", "Decision", "Policy", "PolicyError", "Rule", "Standing"]

SAFE_DEFAULTS: Final[Mapping[Effect, Verdict]] = {
    Effect.READ: Verdict.ALLOW,
    Effect.WRITE: Verdict.APPROVE,
    Effect.DESTRUCTIVE: Verdict.APPROVE,
}
READINGS: Final = 20_000
"""Tools, each with a kind of caller, whose rules are kept found; one more is looked up again."""
_DECIDER: Final[Mapping[Assurance, str]] = {
    Assurance.CLIENT: "the user at the client",
    Assurance.OPERATOR: "an operator",
    Assurance.SECOND_PERSON: "a second person",
}


class Standing(StrEnum):
    """What is known of a tool's approval before its arguments are."""

    NONE = "none"
    CLIENT = "client"
    OPERATOR = "operator"
    SECOND_PERSON = "second_person"
    DEPENDS = "depends"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict and why; `assurance` is `none` unless the verdict is `approve`.

    `rule_id` is a rule's, or `default:EFFECT` or `contract:NAME`. Empty `approvers` restrict nobody.
    """

    verdict: Verdict
    assurance: Assurance
    rule_id: str
    reason: str
    approvers: tuple[str, ...] = ()
    over_mcp: bool = False


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the rules say of one tool to one kind of caller; `certain` is the verdict where no condition decides."""

    covering: tuple[ReadyRule, ...]
    mildest: Decision
    certain: Decision | None


@dataclass(frozen=True, eq=False)
class Policy:
    """All rules and the verdicts by effect where no rule says otherwise; an absent effect has its safe default.

    Raises:
        PolicyError: a rule that cannot be right.
    """

    rules: Sequence[Rule] = ()
    defaults: Mapping[Effect, Verdict] = field(default_factory=lambda: SAFE_DEFAULTS)
    ready: tuple[ReadyRule, ...] = field(init=False, repr=False)
    limited: tuple[ReadyRule, ...] = field(init=False, repr=False)
    _read: Callable[[Contract, str | None, str | None], _Reading] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_unique(self.rules)
        object.__setattr__(self, "ready", tuple(map(ReadyRule.of, self.rules)))
        object.__setattr__(self, "limited", tuple(one for one in self.ready if one.limit is not None))
        object.__setattr__(self, "defaults", {**SAFE_DEFAULTS, **self.defaults})
        object.__setattr__(self, "_read", lru_cache(READINGS)(self._reading))

    def decide(
        self, contract: Contract, arguments: JsonObject, principal: Principal, beyond: Collection[str] = ()
    ) -> Decision:
        """The verdict on one call with validated arguments; `beyond` are the rules whose limit it would exceed."""
        reading = self._of(contract, principal)
        if reading.certain is not None:
            return reading.certain
        matching = [
            one.rule
            for one in reading.covering
            if (one.limit is None or one.rule.id in beyond or not one.limit.is_sure(arguments)) and one.holds(arguments)
        ]
        return self.resolve(contract, matching)

    def bounds(
        self, contract: Contract, arguments: JsonObject, principal: Principal, unknown: Collection[Sequence[str]]
    ) -> tuple[Decision, Decision]:
        """The mildest and the strictest verdict that a call can get whose values at the places `unknown` will be known.

        `arguments` hold anything at those places, which are parsed JSON Pointers; everything else is as it will be.
        What was used of a rule's limit is not known either.
        """
        reading = self._of(contract, principal)
        if reading.certain is not None:
            return reading.certain, reading.certain
        asked = [(one.rule, one.would_hold(arguments, unknown)) for one in reading.covering]
        mildest = [rule for rule, held in asked if held or (held is None and rule.verdict is Verdict.ALLOW)]
        strictest = [rule for rule, held in asked if held or (held is None and rule.verdict is not Verdict.ALLOW)]
        return self.resolve(contract, mildest), self.resolve(contract, strictest)

    def counting(self, contract: Contract, arguments: JsonObject, principal: Principal) -> list[ReadyLimit]:
        """The limits that count this call."""
        if not self.limited:
            return []
        covering = self._of(contract, principal).covering
        return [one.limit for one in covering if one.limit is not None and one.holds(arguments)]

    def standing(self, contract: Contract, principal: Principal) -> Standing:
        """What is known without arguments: `depends` where a condition decides."""
        reading = self._of(contract, principal)
        if reading.mildest.verdict is Verdict.DENY:
            return Standing.DENIED
        strictest = self._strictest(contract, reading.covering)
        if (reading.mildest.verdict, reading.mildest.assurance) != (strictest.verdict, strictest.assurance):
            return Standing.DEPENDS
        return Standing(reading.mildest.assurance)

    def hides(self, contract: Contract, principal: Principal) -> bool:
        """True if every call of this tool by this principal is denied, whatever the arguments."""
        return self._of(contract, principal).mildest.verdict is Verdict.DENY

    def audience(self, principal: Principal) -> Hashable:
        """What of a principal can make a difference here: two with the same audience and scopes see the same."""
        return self._whose(principal)

    def resolve(self, contract: Contract, matching: Sequence[Rule]) -> Decision:
        """The verdict that follows from these matching rules."""
        effect = contract.gate.effect
        strictest = max(self._voices(contract, matching), key=lambda voice: voice.rank)
        if strictest.verdict is not Verdict.APPROVE:
            return Decision(strictest.verdict, Assurance.NONE, strictest.rule_id, strictest.reason)
        approving = [rule for rule in matching if rule.verdict is Verdict.APPROVE]
        restricting = [rule for rule in approving if rule.approvers]
        approvers = _common_approvers(restricting)
        if restricting and not approvers:
            return _nobody(restricting)
        deciding = [rule for rule in approving if rule.assurance_for(effect) is strictest.assurance]
        over_mcp = bool(deciding) and all(rule.over_mcp for rule in deciding)
        return Decision(Verdict.APPROVE, strictest.assurance, strictest.rule_id, strictest.reason, approvers, over_mcp)

    def _of(self, contract: Contract, principal: Principal) -> _Reading:
        return self._read(contract, *self._whose(principal))

    def _whose(self, principal: Principal) -> tuple[str | None, str | None]:
        return principal.tenant if self._by_tenant else None, principal.subject if self._by_subject else None

    @cached_property
    def _by_tenant(self) -> bool:
        return any(rule.tenant is not None for rule in self.rules)

    @cached_property
    def _by_subject(self) -> bool:
        return any(rule.subject is not None for rule in self.rules)

    def _reading(self, contract: Contract, tenant: str | None, subject: str | None) -> _Reading:
        covering = tuple(one for one in self.ready if one.covers(contract, tenant, subject))
        mildest = self._mildest(contract, covering)
        certain = all(one.is_certain for one in covering)
        return _Reading(covering, mildest, mildest if certain else None)

    def _mildest(self, contract: Contract, covering: Sequence[ReadyRule]) -> Decision:
        """The best that any arguments could get."""
        sure = [one.rule for one in covering if one.is_certain or one.rule.verdict is Verdict.ALLOW]
        return self.resolve(contract, sure)

    def _strictest(self, contract: Contract, covering: Sequence[ReadyRule]) -> Decision:
        """The worst that any arguments could get."""
        sure = [one.rule for one in covering if one.is_certain or one.rule.verdict is not Verdict.ALLOW]
        return self.resolve(contract, sure)

    def _voices(self, contract: Contract, matching: Sequence[Rule]) -> Iterable[_Voice]:
        """Everything that counts, in the order in which equals are named."""
        effect = contract.gate.effect
        for rule in matching:
            assurance = rule.assurance_for(effect) if rule.verdict is Verdict.APPROVE else Assurance.NONE
            yield _Voice(
                rule.verdict, assurance, rule.id, rule.reason or _said(f"Rule {rule.id!r}", rule.verdict, assurance)
            )
        asked = contract.gate.approval
        if asked is not Assurance.NONE:
            asked = at_least_operator(asked) if effect is Effect.DESTRUCTIVE else asked
            voice = f"The contract of {contract.name}"
            yield _Voice(Verdict.APPROVE, asked, f"contract:{contract.name}", _said(voice, Verdict.APPROVE, asked))
        if not any(rule.verdict is Verdict.ALLOW and rule.names(contract) for rule in matching):
            verdict = self.defaults[effect]
            assurance = DEFAULT_ASSURANCE[effect] if verdict is Verdict.APPROVE else Assurance.NONE
            voice = f"The default for effect {effect.value!r}"
            yield _Voice(verdict, assurance, f"default:{effect}", _said(voice, verdict, assurance))


@dataclass(frozen=True, slots=True)
class _Voice:
    verdict: Verdict
    assurance: Assurance
    rule_id: str
    reason: str

    @property
    def rank(self) -> tuple[int, int]:
        return self.verdict.strictness, self.assurance.strength


def _said(voice: str, verdict: Verdict, assurance: Assurance) -> str:
    match verdict:
        case Verdict.ALLOW:
            return f"{voice} allows it."
        case Verdict.APPROVE:
            return f"{voice} asks for a decision by {_DECIDER[assurance]}."
        case Verdict.DENY:
            return f"{voice} denies it."


def _common_approvers(rules: Sequence[Rule]) -> tuple[str, ...]:
    if not rules:
        return ()
    first, *others = rules
    return tuple(
        approver for approver in dict.fromkeys(first.approvers) if all(approver in rule.approvers for rule in others)
    )


def _nobody(rules: Sequence[Rule]) -> Decision:
    """An approval that nobody could give would wait for ever, so it is refused and says why."""
    ids = ", ".join(repr(rule.id) for rule in rules)
    reason = f"The rules {ids} all ask for an approval and name no approver in common; nobody could decide."
    return Decision(Verdict.DENY, Assurance.NONE, rules[0].id, reason)
