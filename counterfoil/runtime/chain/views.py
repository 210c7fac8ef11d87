"""What a caller sees of a run, in the form of design section 7. Pure: made from rows that were read elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from ...ledger.run_rows import WHOLE
from ...ledger.states import UNRESOLVED, CallState
from ...ledger.undoing import COMPENSATION, is_in_doubt
from ...registry.budgets import USABLE, Kind
from ...registry.vocabulary import ErrorCode, RecoveryClass
from ..by_hand import how_by_hand
from ..clock import rfc3339
from ..plan.spending import limits_of
from ..views import WAIT_S, ErrorView, Next, how_far, how_to_decide
from .compensations import compensation_of, compensations_of, retries_of
from .effects import UndoState, undo_state
from .folding import has_effect
from .states import RunStatus
from .timing import deadline_of, elapsed_of

if TYPE_CHECKING:
    from ...ledger.approval_rows import ApprovalRow
    from ...ledger.rows import CallRow
    from ...ledger.run_reading import Snapshot
    from ...ledger.run_rows import RunRow
    from ...registry.budgets import Budget
    from ...registry.contract import Contract
    from ...registry.vocabulary import JsonObject, JsonValue
    from ..plan.model import Plan
    from .shown import StepShown

ContractOf: TypeAlias = "Callable[[CallRow], Contract | None]"
"""The contract of this call, which says how an unknown outcome is settled; None where its tool is not here."""
STRICT: Final = "strict"
_PARKED: Final = {
    "stopped": "Its client cancelled the request: no further step with an effect starts until it is taken up.",
    "authority_expired": "The authority that it was started under has run out; taking it up renews it.",
    "held": "A hold stands; it goes on by itself once that is released.",
    "budget": "A budget is used up.",
    "unavailable": "What it needs next is not there now.",
    "strict": "An undo failed, and its plan is strict: nothing further is undone before that is.",
}


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan that was checked: kept and named, or refused with `errors`."""

    body: JsonObject
    error: ErrorView | None = None
    delivers: tuple[str, ...] = ()
    question: None = None
    pending: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """True if it was refused."""
        return self.error is not None

    @property
    def plan_id(self) -> str | None:
        """Its name; None for a refused one."""
        name = self.body.get("plan_id")
        return name if isinstance(name, str) else None

    def wire(self) -> JsonObject:
        """As the wire has it."""
        return dict(self.body) if self.error is None else {**self.body, "error": self.error.wire()}


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as its subject sees it. `error` is one of the request, never of the run: a failed run is no error."""

    body: JsonObject
    error: ErrorView | None = None
    delivers: tuple[str, ...] = ()
    question: None = None

    @property
    def is_error(self) -> bool:
        """True exactly when `error` is set and its code is not `in_progress`."""
        return self.error is not None and self.error.code is not ErrorCode.IN_PROGRESS

    @property
    def pending(self) -> tuple[str, ...]:
        """The undecided proposals that it shows, the oldest first."""
        shown = self.body.get("pending")
        found = shown if isinstance(shown, list) else []
        return tuple(str(one["approval_id"]) for one in found if isinstance(one, dict))

    @property
    def run_id(self) -> str | None:
        """Its name."""
        name = self.body.get("run_id")
        return name if isinstance(name, str) else None

    def wire(self) -> JsonObject:
        """As the wire has it."""
        return dict(self.body) if self.error is None else {**self.body, "error": self.error.wire()}


@dataclass(frozen=True, slots=True)
class Told:
    """What a view needs beside the run: the time, the budget of every run, and how unknown outcomes are settled."""

    now: int
    ceiling: Budget | None
    contract: ContractOf


def body_of(
    plan: Plan, found: Snapshot, steps: Sequence[StepShown], outputs: JsonObject | None, told: Told
) -> JsonObject:
    """The run view; without `outputs` where these were not read."""
    run = as_it_stands(found)._replace(compensation=compensation_of(plan, found))
    given: JsonObject = {} if outputs is None else {"outputs": outputs}
    return {
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "goal": run.goal,
        "status": run.status,
        "reason": run.reason,
        "steps": [step.wire() for step in steps],
        **given,
        "pending": [*pending_of(found)],
        "unresolved": [*unresolved_of(found, told.contract)],
        "compensation": run.compensation,
        "compensations": [*compensations_of(plan, found)],
        "budget": budget_of(plan, found, told),
        "version": run.version,
        "seq": run.seq,
        "started_at": rfc3339(run.started_at),
        "updated_at": rfc3339(run.updated_at),
        "finished_at": rfc3339(run.finished_at),
        "deadline": rfc3339(deadline_of(run, told.now)),
        "cancel_requested_at": rfc3339(run.cancel_requested_at),
        "parent_run_id": run.parent_run_id,
        "trace_id": run.trace_id,
        "next": _wire(
            next_of_run(run, found.pending, is_unresolved=bool(_unresolved(found)), retries=retries_of(plan, found))
        ),
    }


def as_it_stands(found: Snapshot) -> RunRow:
    """The run's row; one whose reason to wait has just gone is queued, until its driver takes it up."""
    run, other = found.run, found.elsewhere
    match run.status:
        case RunStatus.AWAITING_APPROVAL:
            waits = bool(found.pending)
        case RunStatus.AWAITING_RECONCILIATION if run.reason != STRICT:
            waits = bool(_unresolved(found)) or (other is not None and other.is_unresolved)
        case _:
            return run
    return run if waits else run._replace(status=RunStatus.QUEUED.value, reason=None)


def brief(run: RunRow) -> JsonObject:
    """One line about a run."""
    return {
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "goal": run.goal,
        "status": run.status,
        "reason": run.reason,
        "started_at": rfc3339(run.started_at),
        "updated_at": rfc3339(run.updated_at),
        "finished_at": rfc3339(run.finished_at),
    }


def pending_of(found: Snapshot) -> Iterable[JsonObject]:
    """`pending`: what a person must decide, and where."""
    undos = {row.call_id for row in found.undos}
    calls = {row.call_id: row for row in [*found.calls, *found.undos]}
    for approval in found.pending:
        row = calls[approval.call_id]
        items = sorted(
            (call for call in found.calls if call.approval_id == approval.approval_id), key=lambda call: call.item or 0
        )
        several = len(items) > 1
        yield {
            "approval_id": approval.approval_id,
            "step": row.step if several else name_of(row),
            **({"undo": True} if row.call_id in undos else {}),
            "tool": approval.tool,
            "arguments": [json.loads(call.args_shown) for call in items] if several else json.loads(row.args_shown),
            "digest": approval.digest,
            "expires_at": rfc3339(approval.expires_at),
            "how": how_to_decide(approval),
        }


def unresolved_of(found: Snapshot, contract_of: ContractOf) -> Iterable[JsonObject]:
    """`unresolved`: what was sent and nobody knows the end of, and how each is settled."""
    for row in _unresolved(found):
        step = name_of(row) if row.run_id == found.run.run_id else None
        how = _how(row, contract_of(row))
        if row.route == COMPENSATION:
            how = f"It undoes an effect of this step. {how}"
        if step is None:
            how = f"It is no call of this run, which waits for it. {how}"
        yield {"call_id": row.call_id, "step": step, "tool": row.tool, "how": how}


def _unresolved(found: Snapshot) -> list[CallRow]:
    """The calls that nobody knows of: its own, and the one that it waits for, if that is its subject's too."""
    own = [row for row in [*found.calls, *found.undos] if row.state in UNRESOLVED]
    other, run = found.elsewhere, found.run
    if other is not None and other.is_unresolved and (other.tenant, other.subject) == (run.tenant, run.subject):
        return [*own, other]
    return own


def _how(row: CallRow, contract: Contract | None) -> str:
    if contract is not None and contract.gate.manual:
        return how_by_hand(row, contract)
    return how_to_settle(row, None if contract is None else contract.recovery_class)


def how_to_settle(row: CallRow, recovery: RecoveryClass | None) -> str:
    """What settles an unknown outcome, in a sentence."""
    by_hand = f"`counterfoil reconcile {row.call_id} --resolution ... --evidence ...`"
    if row.state == CallState.AWAITING_EXTERNAL:
        return how_far(row)
    match recovery:
        case RecoveryClass.PROBE:
            return f"reconcile asks the far side; where that cannot tell, a person says it with {by_hand}."
        case RecoveryClass.KEYED:
            return "reconcile sends it again under the same key, which the far side honours."
        case RecoveryClass.NATURAL:
            return f"reconcile repeats it while that is safe; else a person says what happened with {by_hand}."
        case RecoveryClass.PERSON:
            return f"Only a person can tell: {by_hand}, in a terminal. Do not repeat it in other words."
        case None:
            return f"A server that has this tool settles it by reconcile, or a person with {by_hand}."


def effects_of(found: Snapshot) -> list[JsonValue]:
    """The effects that stand, in the order in which they came to be; not `known` where one may stand."""
    shown: list[JsonValue] = []
    undone = {undo.parent_call_id for undo in found.undos if undo_state(undo) is UndoState.UNDONE}
    for row in found.calls:
        if row.call_id in undone:
            continue
        unsure = _may_have_effect(row)
        if has_effect(row) or unsure:
            shown.append(
                {
                    "step": row.step,
                    "item": item_of(row),
                    "call_id": row.call_id,
                    "tool": row.tool,
                    "outcome": row.outcome,
                    "known": not unsure,
                }
            )
    return shown


def _may_have_effect(row: CallRow) -> bool:
    if row.is_read:
        return False
    return row.state == CallState.DISPATCHED or row.is_unresolved or is_in_doubt(row)


def budget_of(plan: Plan, found: Snapshot, told: Told) -> JsonObject:
    """`budget`: what the run has used of everything that is counted, and `limits`, what it may use."""
    used = {**found.used, Kind.ELAPSED_S.value: elapsed_of(found.run, told.now)}
    limits = limits_of(plan.budget, plan.allow, told.ceiling)
    stated: JsonObject = {kind.value: kind.shown(limit) for kind, limit in limits.items()}
    return {**{kind.value: kind.shown(used[kind.value]) for kind in USABLE}, "limits": stated}


def next_of_run(
    run: RunRow, pending: Sequence[ApprovalRow], *, is_unresolved: bool, retries: bool = True
) -> Next | None:
    """The next possible action in each status; `retries` where reconcile would try an undo once more."""
    if run.finished_at is not None:
        incomplete = run.compensation == "incomplete" and not is_unresolved
        over = _undo_again(run, retries=retries) if incomplete else _after_the_end(run)
        return _reconcile(run) if is_unresolved else over
    match run.status:
        case RunStatus.AWAITING_APPROVAL if pending:
            more = f" {len(pending)} proposals wait; see pending." if len(pending) > 1 else ""
            how = how_to_decide(pending[0]) + more
            return Next("confirm", {"approval_id": pending[0].approval_id, "wait_s": WAIT_S}, how)
        case RunStatus.AWAITING_RECONCILIATION if run.reason == STRICT and not is_unresolved:
            return _undo_again(run, retries=retries)
        case RunStatus.AWAITING_RECONCILIATION:
            return _reconcile(run, len(pending))
        case RunStatus.QUEUED if run.reason is not None:
            return _parked(run)
        case _:
            text = "The server goes on with it by itself; look again. Do not start it anew."
            return Next("status", {"run_id": run.run_id, "wait_s": WAIT_S}, text)


def _after_the_end(run: RunRow) -> Next | None:
    if run.status in {RunStatus.SUCCEEDED, RunStatus.CANCELLED}:
        return None
    said = f" {run.message}" if run.message else ""
    effects = "What it did is undone or kept" if run.compensation == "complete" else "Any effect it had stands"
    text = f"It has ended.{said} {effects}. Another execution needs another request_key."
    return Next("status", {"run_id": run.run_id, "after_seq": 0}, text)


def _undo_again(run: RunRow, *, retries: bool) -> Next:
    text = "Not everything that it did is undone; compensations says what stands and why. "
    if not retries:
        why = "it was cancelled" if run.cancel_requested_at is not None else "nothing of it can be tried again"
        text += f"Nothing more is undone by itself: {why}. A person must undo outside what still stands."
        if run.finished_at is None:
            return Next("cancel", {"run_id": run.run_id}, f"{text} The run waits until it is cancelled.")
        return Next("status", {"run_id": run.run_id, "after_seq": 0}, text)
    text += (
        "Reconcile tries again what is known to have had no effect, once its cause is mended; the rest a person must "
        "undo outside."
    )
    return Next("reconcile", {"run_id": run.run_id}, text)


def _reconcile(run: RunRow, waiting: int = 0) -> Next:
    ends = run.finished_at is not None or run.cancel_requested_at is not None
    then = "nothing further starts" if ends else "then the run goes on"
    told = " A person's decision is awaited too; tell the user what `how` in pending says." if waiting else ""
    return Next(
        "reconcile",
        {"run_id": run.run_id},
        f"Nobody knows what became of a call. Reconcile settles what can be settled, {then}; `how` in "
        f"unresolved says what a person must do. Do not repeat it in other words.{told}",
    )


def _parked(run: RunRow) -> Next:
    said = filter(None, (_PARKED.get(run.reason or "", run.reason), run.message))
    why = " ".join(text if text.endswith(".") else f"{text}." for text in said)
    if run.due_at is not None:
        text = f"{why} It goes on by itself at {rfc3339(run.due_at)}, or when it is taken up."
        return Next("status", {"run_id": run.run_id, "wait_s": WAIT_S}, text)
    if run.reason == "held":
        return Next("status", {"run_id": run.run_id, "wait_s": WAIT_S}, why)
    return Next("run", {"run_id": run.run_id}, f"{why} Take it up with run.")


def name_of(row: CallRow) -> str | None:
    """The step of a call, with the number of its item if it has one: `tell[3]`; None for a direct call."""
    item = item_of(row)
    return row.step if item is None else f"{row.step}[{item}]"


def item_of(row: CallRow) -> int | None:
    """The number of the item whose call this is."""
    return None if row.item is None or row.item == WHOLE else row.item


def _wire(step: Next | None) -> JsonValue:
    return None if step is None else step.wire()
