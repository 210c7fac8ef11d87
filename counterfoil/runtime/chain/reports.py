"""What a replay tells: each step as it was and as it would be. Pure values, and their form on the wire."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ...registry.vocabulary import Assurance, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...registry.policy import Decision
    from ...registry.vocabulary import JsonObject
    from ..plan.problems import PlanProblem

Same: TypeAlias = Literal["same", "changed", "unknown"]
UNKNOWN: Final = "unknown"
_ASSURANCES: Final = (Assurance.NONE, Assurance.CLIENT, Assurance.OPERATOR, Assurance.SECOND_PERSON)
_VERDICTS: Final = (Verdict.ALLOW, Verdict.APPROVE, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What policy said of a call, or says now."""

    verdict: str
    rule_id: str | None
    assurance: str

    @classmethod
    def of(cls, decision: Decision) -> Ruling:
        """A decision of now."""
        return cls(decision.verdict.value, decision.rule_id, decision.assurance.value)

    @property
    def rank(self) -> tuple[int, int]:
        """How strict it is."""
        return _VERDICTS.index(Verdict(self.verdict)), _ASSURANCES.index(Assurance(self.assurance))


def strictest(rulings: Iterable[Ruling | None]) -> Ruling | None:
    """The first of the strictest ones, which stands for all items of a step."""
    found = [ruling for ruling in rulings if ruling is not None]
    return max(found, key=lambda ruling: ruling.rank) if found else None


@dataclass(frozen=True, slots=True)
class Told:
    """A step once: its tool, what policy said, its wave, and how it stood; None where that says nothing of it."""

    tool: str
    version: str
    schema_digest: str
    wave: int
    state: str
    ruling: Ruling | None = None

    def wire(self) -> JsonObject:
        """As JSON has it."""
        ruling: JsonObject = {"verdict": None, "rule_id": None, "assurance": None}
        if self.ruling is not None:
            ruling = dict(asdict(self.ruling))
        return {
            "tool": self.tool,
            "version": self.version,
            "schema_digest": self.schema_digest[:8],
            "wave": self.wave,
            "state": self.state,
            **ruling,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One step: as it was, None if it is a new one, and as it would be, None if it is gone."""

    step: str
    then: Told | None
    now: Told | None
    arguments: Same | None

    @property
    def differs(self) -> bool:
        """True if anything about it is another thing now, or cannot be known."""
        return self.then != self.now or self.arguments in {"changed", UNKNOWN}

    def wire(self) -> JsonObject:
        """As JSON has it."""
        return {
            "step": self.step,
            "differs": self.differs,
            "arguments": self.arguments,
            "then": None if self.then is None else self.then.wire(),
            "now": None if self.now is None else self.now.wire(),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A run then and now.

    `now` is its status, `unknown` where not everything that would happen was recorded, and `plan_invalid` where its
    plan would be refused, because of these `problems`.
    """

    run_id: str
    then: str
    now: str
    lines: tuple[Line, ...]
    problems: tuple[PlanProblem, ...] = ()

    @property
    def same(self) -> bool:
        """True if nothing is different."""
        return self.then == self.now and not any(line.differs for line in self.lines)

    def wire(self) -> JsonObject:
        """As JSON has it."""
        return {
            "run_id": self.run_id,
            "same": self.same,
            "status": {"then": self.then, "now": self.now},
            "steps": [line.wire() for line in self.lines],
            "errors": [problem.wire() for problem in self.problems],
        }
