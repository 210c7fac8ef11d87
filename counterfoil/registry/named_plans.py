"""Stored plans: a chain under a name of its own, with a schema of its input, and what is told of it before it runs.

What a plan means, and whether it may run, is the runtime's to say at each run; here it is a document that was checked,
the tools that it names, and a text to be found by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from .arguments import ArgumentSchema
from .contract import Contract, Schemas, Text
from .policy import Policy, Standing
from .principal import Principal
from .vocabulary import Effect, JsonObject, RecoveryClass

_EFFECTS: Final = tuple(Effect)
_STANDINGS: Final = (
    *(Standing.NONE, Standing.DEPENDS, Standing.CLIENT, Standing.OPERATOR, Standing.SECOND_PERSON, Standing.DENIED),
)
_RECOVERIES: Final = (RecoveryClass.PROBE, RecoveryClass.KEYED, RecoveryClass.NATURAL, RecoveryClass.PERSON)
"""From the mildest to the strictest."""


class Use(NamedTuple):
    """A tool that a plan names; `version` where its author pinned one, `undone` where its own compensation may run."""

    tool: str
    version: str | None = None
    undone: bool = False


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A stored plan. `document` is what its author wrote, whose `input` holds defaults; `digest` names this very plan.

    `sensitive` are pointers into the input whose values no message shows.
    """

    name: str
    text: Text
    takes: ArgumentSchema
    document: JsonObject
    uses: tuple[Use, ...]
    digest: str
    sensitive: tuple[str, ...] = ()

    @property
    def schemas(self) -> Schemas:
        """Its input, as a tool states its own."""
        return Schemas(self.takes.schema)

    @property
    def steps(self) -> int:
        """How many it has."""
        steps = self.document["steps"]
        return len(steps) if isinstance(steps, list) else 0

    def effective(self, given: JsonObject) -> JsonObject:
        """The input of a run: what is given laid over the defaults, member by member.

        Raises:
            InvalidArgumentsError: it does not fit the schema.
        """
        defaults = self.document.get("input")
        laid = {**defaults, **given} if isinstance(defaults, dict) else given
        return self.takes.effective(laid, conceal=self.sensitive).value


@dataclass(frozen=True, slots=True)
class Offer:
    """A stored plan as one principal is told of it: the strictest of everything that its steps are and need."""

    name: str
    text: Text
    steps: int
    effect: Effect
    approval: str
    recovery: RecoveryClass
    scopes: tuple[str, ...]
    digest: str
    input_schema: JsonObject

    @property
    def title(self) -> str:
        """What it is, and how it is run: it is no tool that could be called."""
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return f'Stored plan of {steps}: start it with run {{"name": "{self.name}", "input": {{...}}}}'


def offer(plan: NamedPlan, contracts: Sequence[Contract], undos: Sequence[Contract], who: Asker) -> Offer:
    """What is told of a plan whose steps call these contracts, and whose effects those would undo."""
    approvals = [who.policy.standing(contract, who.principal) for contract in contracts]
    return Offer(
        name=plan.name,
        text=plan.text,
        steps=plan.steps,
        effect=max((contract.gate.effect for contract in contracts), key=_EFFECTS.index),
        approval=max(approvals, key=_STANDINGS.index).value,
        recovery=max((contract.recovery_class for contract in contracts), key=_RECOVERIES.index),
        scopes=tuple(sorted(scopes_of((*contracts, *undos)))),
        digest=plan.digest[:8],
        input_schema=plan.takes.schema,
    )


class Asker(NamedTuple):
    """Who asks, and under which rules."""

    principal: Principal
    policy: Policy


def scopes_of(contracts: Sequence[Contract]) -> set[str]:
    """All the scopes that these need together."""
    return {scope for contract in contracts for scope in contract.gate.scopes}


def uses_of(document: JsonObject) -> Iterator[Use]:
    """The tools that a checked document names, each once."""
    undoes = document.get("on_failure") == "compensate"
    found: dict[Use, None] = {}
    steps = document.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, dict):
            continue
        undo, version = step.get("compensate"), step.get("version")
        pinned = version if isinstance(version, str) else None
        found[Use(str(step["tool"]), pinned, undoes and undo in (None, "default"))] = None
        if isinstance(undo, dict):
            found[Use(str(undo["tool"]))] = None
    yield from found
