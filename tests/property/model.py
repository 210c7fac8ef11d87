"""A small model of what the ledger must say, written from the design and not from the code.

It holds the calls as they must stand, who holds which resource, which key belongs to whom, and what is known of each
attempt. It predicts the answer to a request and to a dispatch; the state machine compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from .world import Handler, Tool

WINDOW: Final = 300_000_000
SENT_AND_OPEN: Final = {"dispatched", "awaiting_reconciliation"}
ENDED: Final = {"settled", "refused"}
HAPPENED: Final = {"success", "no_result", "partial"}


@dataclass(slots=True)
class Crossing:
    """One attempt. `known`: whether it had its effect, as its own settlement or whoever established it says."""

    owner: str
    handler: Handler
    at: int = 0
    known: bool | None = None
    late: tuple[str, str, bool | None] | None = None  # outcome, sent, happened

    @property
    def happened(self) -> bool | None:
        """What is known of its effect, late evidence first."""
        return self.late[2] if self.late is not None and self.late[2] is not None else self.known


@dataclass(slots=True)
class Standing:
    """A call as it must stand."""

    call_id: str
    action_id: str
    tool: Tool
    subject: str
    order: str
    key: str | None
    state: str
    outcome: str | None = None
    sent: str = "no"
    owner: str | None = None
    by_decision: bool = False
    approval: str | None = None
    open: bool = False
    opener: str | None = None
    delivered: bool = False
    cancelled: bool = False
    settled_at: int | None = None
    settled_by: str | None = None
    effect: bool | None = None  # what a settled row says of its effect
    holds: bool = False
    reopened: bool = False
    charged: bool = False
    retries_by_word: int = 0
    crossings: list[Crossing] = field(default_factory=list[Crossing])

    @property
    def resources(self) -> list[str]:
        return self.tool.keys(self.order)

    @property
    def unresolved(self) -> bool:
        return self.state == "awaiting_reconciliation" or (
            self.state in {"queued", "awaiting_approval"} and self.sent == "unknown"
        )

    @property
    def contradicted(self) -> bool:
        """Late evidence says of the call's effect what its ended row denies."""
        if self.state not in ENDED or self.tool.is_read or self.effect is None:
            return False
        lates = [crossing.late[2] for crossing in self.crossings if crossing.late is not None]
        if self.effect is False:
            return True in lates
        return False in lates and all(crossing.happened is False for crossing in self.crossings)

    def others_known_absent(self, but: Crossing) -> bool:
        return all(crossing.happened is False for crossing in self.crossings if crossing is not but)

    def late_answer(self) -> Crossing | None:
        """The attempt whose late report answers for the call; a late `no effect` answers only if no doubt is left."""
        told = [one for one in reversed(self.crossings) if one.late is not None and one.late[0] != "ambiguous"]
        for one in told:
            if one.late is not None and one.late[2] is True:
                return one
        return next((one for one in told if self.others_known_absent(one)), None)


@dataclass(slots=True)
class Proposal:
    """An approval as it must stand."""

    approval_id: str
    call_id: str
    requested_at: int
    expires_at: int
    within: int
    state: str = "pending"
    execute_until: int | None = None


@dataclass(slots=True)
class Binding:
    """What a key belongs to."""

    call_id: str
    order: str
    expires_at: int | None = None


class Ask(NamedTuple):
    """A request."""

    tool: Tool
    subject: str
    order: str
    key: str | None


class Stop(NamedTuple):
    """An expected answer that is no dispatch: its kind and the calls that it may name."""

    kind: str
    calls: frozenset[str]


@dataclass(slots=True)
class Model:
    """Everything that the ledger must say."""

    now: int
    limit: int
    used: int = 0
    calls: dict[str, Standing] = field(default_factory=dict[str, Standing])
    proposals: dict[str, Proposal] = field(default_factory=dict[str, Proposal])
    keys: dict[tuple[str, str, str], Binding] = field(default_factory=dict[tuple[str, str, str], Binding])
    owners: dict[str, bool] = field(default_factory=dict[str, bool])

    def stops(self, ask: Ask, *, charge: bool) -> list[Stop]:
        """What may stand in the way of a new request; several where the design does not say which comes first."""
        found = self._duplicates(ask) or self.neighbours(ask.tool, ask.subject, ask.tool.keys(ask.order), mine=None)
        if not found and charge and self.used + 1 > self.limit:
            found = [Stop("over_budget", frozenset())]
        return found

    def neighbours(self, tool: Tool, subject: str, keys: list[str], *, mine: str | None) -> list[Stop]:
        """Unresolved calls and holders of resources."""
        if not keys:
            return [] if tool.is_read else self._siblings(tool, subject, mine)
        held = [
            one for one in self.calls.values() if one.holds and one.call_id != mine and conflict(keys, one.resources)
        ]
        unknown = frozenset(one.call_id for one in held if one.unresolved)
        if unknown:
            return [Stop("unresolved", unknown)]
        return [Stop("busy", frozenset(one.call_id for one in held))] if held else []

    def _siblings(self, tool: Tool, subject: str, mine: str | None) -> list[Stop]:
        found = frozenset(
            one.call_id
            for one in self.calls.values()
            if one.tool is tool and one.subject == subject and one.unresolved and one.call_id != mine
        )
        return [Stop("unresolved", found)] if found else []

    def _duplicates(self, ask: Ask) -> list[Stop]:
        if ask.key is not None and (bound := self.keys.get((ask.subject, ask.tool.name, ask.key))) is not None:
            return [Stop(self._by_key(bound, ask), frozenset({bound.call_id}))]
        if ask.tool.is_read:
            return []
        same = [
            one
            for one in self.calls.values()
            if (one.tool, one.subject, one.order) == (ask.tool, ask.subject, ask.order)
        ]
        waiting = {
            one.call_id
            for one in same
            if one.state == "awaiting_approval" and (one.key is None or ask.key is None or one.key == ask.key)
        }
        queued = {one.call_id for one in same if one.state == "queued" and one.key is not None and one.key == ask.key}
        found = [Stop("join", frozenset(waiting))] if waiting else []
        found += [Stop("in_progress", frozenset(queued))] if queued else []
        if found or ask.key is not None:
            return found
        lost = {one.call_id for one in same if self._undelivered(one)}
        return [Stop("join", frozenset(lost))] if lost else []

    def _undelivered(self, one: Standing) -> bool:
        fresh = one.settled_at is None or one.settled_at > self.now - WINDOW
        return not one.delivered and not one.open and fresh

    def _by_key(self, bound: Binding, ask: Ask) -> str:
        call = self.calls[bound.call_id]
        if (bound.expires_at is not None and bound.expires_at <= self.now) or bound.order != ask.order:
            return "conflict"
        if call.state == "awaiting_approval":
            return "join"
        if call.state == "settled" and call.outcome == "retryable_failure" and call.sent == "no":
            return "again"
        return "replay" if call.state in ENDED or call.state == "awaiting_reconciliation" else "in_progress"

    def bind(self, call: Standing) -> None:
        if call.key is not None:
            self.keys.setdefault((call.subject, call.tool.name, call.key), Binding(call.call_id, call.order))

    def retain(self, call: Standing, until: int | None) -> None:
        """The retention of a call's keys begins, or ends because the call is open again."""
        for bound in self.keys.values():
            if bound.call_id == call.call_id:
                bound.expires_at = until


def conflict(mine: list[str], theirs: list[str]) -> bool:
    """Whether two sets of resource keys exclude each other."""
    names = {key.removeprefix("shared:"): key.startswith("shared:") for key in mine}
    return any(
        key.removeprefix("shared:") in names and not (key.startswith("shared:") and names[key.removeprefix("shared:")])
        for key in theirs
    )
