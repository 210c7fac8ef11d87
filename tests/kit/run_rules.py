"""What holds for every view of a run and every answer of `plan`, whatever was asked.

Written down from the public description of the answers, as `rules` is, and importing nothing of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

FINAL: Final = frozenset({"succeeded", "failed", "cancelled", "budget_exhausted"})
WAITS: Final = frozenset({"awaiting_approval", "awaiting_reconciliation", "awaiting_external"})
STATUSES: Final = FINAL | WAITS | {"queued", "running"}
REASONS: Final = frozenset({"held", "stopped", "authority_expired", "budget", "unavailable"})
"""Why a run that may not move is queued."""
ENDED: Final = frozenset({"succeeded", "failed", "rejected", "skipped", "not_run", "cancelled"})
STEP_STATES: Final = ENDED | WAITS | {"waiting", "ready", "running"}
FATES: Final = WAITS | {"waiting", "running", "undone", "not_undone", "kept"}
"""What can have become of an effect of a run that is undone."""
COMPENSATIONS: Final = frozenset({"none", "running", "complete", "incomplete"})
RUN: Final = frozenset(
    {
        *("run_id", "plan_id", "goal", "status", "reason", "steps", "outputs", "pending", "unresolved"),
        *("compensation", "compensations", "budget", "version", "seq", "started_at", "updated_at", "finished_at"),
        *("deadline", "cancel_requested_at", "parent_run_id", "trace_id", "next"),
    }
)
STEP: Final = frozenset({"id", "tool", "state", "outcome", "attempts", "reason", "error"})
PENDING: Final = frozenset({"approval_id", "step", "tool", "arguments", "digest", "expires_at", "how"})
UNRESOLVED: Final = frozenset({"call_id", "step", "tool", "how"})
PLANNED: Final = frozenset({"plan_id", "digest", "steps", "waves", "approvals", "budget", "warnings"})
PLANNED_STEP: Final = frozenset({"id", "tool", "version", "effect", "recovery", "wave", "approval", "cost"})
APPROVALS: Final = frozenset({"none", "client", "operator", "second_person", "depends", "denied"})
PROBLEM_CODES: Final = frozenset(
    {
        *("cycle", "self_reference", "unknown_step", "duplicate_id", "bad_reference", "unknown_tool"),
        *("invalid_arguments", "insufficient_scope", "over_budget", "too_large", "not_compensable", "denied"),
    }
)


def check_run_view(view: Mapping[str, Any]) -> None:
    """A run view has every member, and none of them contradicts another."""
    assert view.keys() >= RUN, RUN - view.keys()
    assert view["status"] in STATUSES, view
    assert view["compensation"] in COMPENSATIONS, view
    assert (view["finished_at"] is not None) == (view["status"] in FINAL), view
    if view["status"] == "queued":
        assert view["reason"] is None or view["reason"] in REASONS, view
    for name in ("started_at", "updated_at", "finished_at", "deadline", "cancel_requested_at"):
        assert view[name] is None or _in_utc(view[name]), (name, view[name])
    if view.get("events") and not view["more"]:
        assert view["events"][-1]["seq"] >= view["seq"], "what a view shows, its events tell"
    states = {step["id"]: step["state"] for step in view["steps"]}
    assert len(states) == len(view["steps"]), view
    for step in view["steps"]:
        _check_step(step)
    _check_waits(view, states)
    if view["status"] in FINAL:
        open_steps = {name for name, state in states.items() if state not in ENDED | {"awaiting_reconciliation"}}
        assert not open_steps, (view["status"], states)
    if view["status"] == "succeeded":
        assert not set(states.values()) & {"cancelled", "rejected", "awaiting_reconciliation"}, states


def _check_waits(view: Mapping[str, Any], states: Mapping[str, str]) -> None:
    items = {f"{step['id']}[{one['n']}]": one["state"] for step in view["steps"] for one in step.get("items") or ()}
    for one in view["pending"]:
        assert one.keys() >= PENDING, one
        if not one.get("undo"):
            assert {**states, **items}[one["step"]] == "awaiting_approval", (one, states)
    for one in view["unresolved"]:
        assert one.keys() >= UNRESOLVED, one
    pending, unresolved = ({_step_of(one) for one in view[name]} for name in ("pending", "unresolved"))
    for name, state in states.items():
        assert state != "awaiting_approval" or name in pending, (name, view)
        assert state != "awaiting_reconciliation" or name in unresolved, (name, view)
    if view["status"] == "awaiting_approval":
        assert view["pending"], view
        assert not view["unresolved"], view
    if view["status"] == "awaiting_reconciliation" and view["reason"] != "strict":
        assert view["unresolved"], view
    _check_undoing(view, states)


def _check_undoing(view: Mapping[str, Any], states: Mapping[str, str]) -> None:
    fates = [one["state"] for one in view["compensations"]]
    assert set(fates) <= FATES, fates
    if view["compensation"] == "none":
        assert not fates, view
    if view["compensation"] == "complete":
        assert set(fates) <= {"undone", "kept"}, view
        assert "awaiting_reconciliation" not in states.values(), view
    if view["compensation"] == "incomplete":
        assert set(fates) - {"undone", "kept"} or view["unresolved"], view


def _step_of(one: Mapping[str, Any]) -> str:
    """The step of a call, which may be named as the item that it is: `step[n]`."""
    return str(one["step"]).partition("[")[0]


def _check_step(step: Mapping[str, Any]) -> None:
    assert step.keys() >= STEP, (STEP - step.keys(), step)
    assert ("call_id" in step) != ("items" in step), step
    assert step["state"] in STEP_STATES, step
    if step["state"] in {"waiting", "ready", "running", "awaiting_approval", "awaiting_external", "skipped", "not_run"}:
        assert step["error"] is None, step
        assert step["outcome"] is None, step
    if step["state"] in {"not_run", "skipped"}:
        assert step["reason"], step
    if step["state"] == "succeeded" and "call_id" in step:
        assert step["outcome"] in {"success", "no_result"}, step
    if step["outcome"] == "partial":
        assert (step["state"], step["error"]) == ("failed", None), step
    elif step["state"] in {"failed", "rejected"}:
        assert step["error"] is not None, step
        assert step["error"]["message"], step


def check_plan_view(view: Mapping[str, Any]) -> None:
    """An answer of `plan` is a whole plan, or says everything that is wrong with it."""
    if view.get("error") is not None:
        if view["error"]["code"] == "plan_invalid":
            assert view["errors"], view
            for problem in view["errors"]:
                assert problem.keys() == {"step", "field", "code", "message"}, problem
                assert problem["code"] in PROBLEM_CODES, problem
                assert problem["message"], problem
        assert view.get("plan_id") is None, view
        return
    assert view.keys() >= PLANNED, PLANNED - view.keys()
    names = [step["id"] for step in view["steps"]]
    assert sorted(name for wave in view["waves"] for name in wave) == sorted(names), view
    for step in view["steps"]:
        assert step.keys() >= PLANNED_STEP, step
        assert step["approval"] in APPROVALS, step
        assert step["recovery"] in {"probe", "keyed", "natural", "person"}, step


def _in_utc(text: str) -> bool:
    return text.endswith("Z") and datetime.fromisoformat(text).utcoffset() is not None
