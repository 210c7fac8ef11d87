"""The wire form of a view: its parts, and what it means as an exit code. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from .exits import Exit

View: TypeAlias = Mapping[str, Any]

_WAITING: Final = frozenset(
    {"awaiting_approval", "queued", "dispatched", "awaiting_external", "awaiting_reconciliation"}
)
_DONE: Final = frozenset({"success", "no_result"})
FINISHED: Final = frozenset({"succeeded", "failed", "cancelled", "budget_exhausted"})
_PARKED: Final = frozenset({"awaiting_approval", "awaiting_reconciliation", "awaiting_external"})


def part(view: View, name: str) -> View:
    """A member that is an object; an absent one is empty."""
    found: View | None = view.get(name)
    return found or {}


def parts(view: View, name: str) -> Sequence[View]:
    """A member that is a list of objects; an absent one is empty."""
    found: Sequence[View] | None = view.get(name)
    return found or []


def values(view: View, name: str) -> Sequence[Any]:
    """A member that is a list of anything; an absent one is empty."""
    found: Sequence[Any] | None = view.get(name)
    return found or []


def exit_of_call(view: View) -> Exit:
    """Of a call: done, refused or failed, or waiting or unknown."""
    if view.get("dry_run"):
        return Exit.NO if view.get("verdict") == "deny" or view.get("missing_scopes") else Exit.DONE
    error = part(view, "error")
    if error.get("code") == "in_progress" or view.get("state") in _WAITING:
        return Exit.WAITING
    return Exit.DONE if view.get("outcome") in _DONE and not error else Exit.NO


def exit_of_reconcile(view: View, *, refused: bool) -> Exit:
    """Of a reconcile: done once the call is settled, whatever came of it."""
    if refused:
        return Exit.NO
    return Exit.WAITING if view.get("state") in _WAITING else Exit.DONE


def exit_of_plan(view: View) -> Exit:
    """Of a plan: valid or not."""
    return Exit.NO if view.get("error") else Exit.DONE


def exit_of_run(view: View, *, refused: bool) -> Exit:
    """Of a run: done once it succeeded; it goes on or waits; or it ended otherwise, or was refused."""
    if refused:
        return Exit.NO
    if view.get("status") not in FINISHED:
        return Exit.WAITING
    return Exit.DONE if view.get("status") == "succeeded" else Exit.NO


def exit_of_run_reconcile(view: View, *, refused: bool) -> Exit:
    """Of a reconcile of a run: done once the run has ended and nothing of it is unknown, however it ended."""
    if refused:
        return Exit.NO
    return Exit.DONE if view.get("status") in FINISHED and not parts(view, "unresolved") else Exit.WAITING


def is_run(view: View) -> bool:
    """Whether this shows a run, and no call."""
    return "status" in view and "steps" in view


def is_still(view: View) -> bool:
    """Whether nothing about this run moves before somebody does something, or a stated time has come."""
    status = view.get("status")
    return status in FINISHED or status in _PARKED or (status == "queued" and view.get("reason") is not None)
