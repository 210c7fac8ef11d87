"""What a view means as an exit code. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .exits import Exit

_WAITING: Final = frozenset(
    {"awaiting_approval", "queued", "dispatched", "awaiting_external", "awaiting_reconciliation"}
)
_DONE: Final = frozenset({"success", "no_result"})


def exit_of_call(view: Mapping[str, Any]) -> Exit:
    """Of a call: done, refused or failed, or waiting or unknown."""
    if view.get("dry_run"):
        return Exit.NO if view.get("verdict") == "deny" or view.get("missing_scopes") else Exit.DONE
    error = view.get("error") or {}
    if error.get("code") == "in_progress" or view.get("state") in _WAITING:
        return Exit.WAITING
    return Exit.DONE if view.get("outcome") in _DONE and not error else Exit.NO


def exit_of_reconcile(view: Mapping[str, Any], *, refused: bool) -> Exit:
    """Of a reconcile: done once the call is settled, whatever came of it."""
    if refused:
        return Exit.NO
    return Exit.WAITING if view.get("state") in _WAITING else Exit.DONE
