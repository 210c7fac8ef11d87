"""The outside world of the property tests: tools, what their handlers do there, and a count of every effect.

It never lies and never reads the ledger. A handler that has acted says so or says nothing; a far side that honours
keys has one effect for each action id, however often it is asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from counterfoil.ledger.settling import Settlement


@dataclass(frozen=True, slots=True)
class Tool:
    """What a contract says, as far as the ledger's facts depend on it."""

    name: str
    effect: str
    resources: tuple[str, ...] = ()
    keyed: bool = False
    approval: bool = False

    @property
    def is_read(self) -> bool:
        return self.effect == "read"

    def keys(self, order: str) -> list[str]:
        """The canonical resource keys of a call about this order."""
        return [template.format(order=order) for template in self.resources]


TOOLS: Final = (
    Tool("note", "write"),
    Tool("letter", "write", approval=True),
    Tool("charge", "write", keyed=True),
    Tool("refund", "destructive", ("order:{order}",), approval=True),
    Tool("move", "write", ("order:{order}", "shared:account")),
    Tool("pay", "destructive", ("account", "order:{order}"), keyed=True, approval=True),
    Tool("audit", "read", ("shared:order:{order}",)),
    Tool("peek", "read", approval=True),
)


class Answer(NamedTuple):
    """What a handler reports. `happened`: None says that nobody knows."""

    outcome: str
    sent: str
    happened: bool | None
    code: str | None = None

    def settlement(self, at: int, by: str = "execution") -> Settlement:
        effect = None if self.code != "tool_failed" else "none" if self.happened is False else "unknown"
        return Settlement(
            outcome=self.outcome, sent=self.sent, at=at, by=by, code=self.code,
            retryable=self.outcome == "retryable_failure", details={"effect": effect} if effect else None,
        )  # fmt: skip


DONE: Final = (
    Answer("success", "yes", happened=True),
    Answer("no_result", "yes", happened=True),
    Answer("partial", "yes", happened=True),
)
NOT_DONE: Final = (
    Answer("retryable_failure", "no", happened=False, code="unavailable"),
    Answer("retryable_failure", "yes", happened=False, code="tool_failed"),
    Answer("permanent_failure", "yes", happened=False, code="tool_failed"),
)
NOBODY_KNOWS: Final = (
    Answer("ambiguous", "unknown", happened=None, code="ambiguous"),
    Answer("permanent_failure", "unknown", happened=None, code="tool_failed"),
    Answer("retryable_failure", "unknown", happened=None, code="tool_failed"),
)
READ_BROKE_OFF: Final = Answer("retryable_failure", "unknown", happened=False, code="tool_failed")


@dataclass(slots=True)
class Handler:
    """The code of one attempt, in some process. `acted`: its effect is out there."""

    running: bool
    acted: bool = False


@dataclass(slots=True)
class FarSide:
    """Where effects are. `effects` counts them by action id."""

    effects: Counter[str] = field(default_factory=Counter[str])

    def act(self, tool: Tool, action_id: str) -> None:
        if tool.is_read or (tool.keyed and self.effects[action_id]):
            return
        self.effects[action_id] += 1


def answers(tool: Tool, handler: Handler) -> tuple[Answer, ...]:
    """What this handler can truthfully report."""
    if tool.is_read:
        return (DONE[0], NOT_DONE[0], NOT_DONE[2], READ_BROKE_OFF)
    return (*(DONE if handler.acted else NOT_DONE), *NOBODY_KNOWS)
