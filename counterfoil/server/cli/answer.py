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


def part(view: View, name: str) -> View:
    """A member that is an object; an absent one is empty."""
    found: View | None = view.get(name)
    return found or {}


def parts(view: View, name: str) -> Sequence[View]:
    """A member that is a list of objects; an absent one is empty."""
    found: Sequence[View] | None = view.get(name)
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
