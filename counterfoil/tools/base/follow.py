"""`status`, `cancel`, `confirm` and `reconcile`: what can be done about work that exists already."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from ...canonical import JsonObject
from ...registry.problem import Problem
from ...registry.vocabulary import ErrorCode
from . import schemas
from .answer import Answer, Asked
from .desk import Desk, shown
from .spec import Annotations, BaseTool, checked

_ID: Final = schemas.STRING

_STATUS_INPUT: Final = schemas.arguments(
    call_id=_ID,
    run_id=_ID,
    after_seq=schemas.WHOLE,
    offset={**schemas.WHOLE, "description": "Into a truncated output"},
    wait_s={**schemas.WAIT, "default": 0},
)
_CANCEL_INPUT: Final = schemas.arguments(call_id=_ID, run_id=_ID, reason=schemas.short(1000))
_CONFIRM_INPUT: Final = schemas.arguments(
    approval_id=_ID,
    run_id=_ID,
    decision=schemas.choice("approve", "reject"),
    digest=_ID,
    note=schemas.short(2000),
    wait_s=schemas.WAIT,
)
_RECONCILE_INPUT: Final = schemas.arguments(
    call_id=_ID,
    run_id=_ID,
    resolution=schemas.choice("happened", "not_happened", "still_unknown"),
    evidence=schemas.short(4000),
    output={},
    external_reference=schemas.short(1000),
    then=schemas.choice("retry", "fail"),
    expected_version=schemas.WHOLE,
)

_STATUS_DESCRIPTION = (
    "Where a call or run stands, with its events; ask this when an answer is missing. Without an id: your recent runs, "
    "pending approvals, unresolved calls."
)
_CANCEL_DESCRIPTION = (
    "Stop a call or run. What was sent is followed to its end, never undone; the answer lists what stands."
)
_CONFIRM_DESCRIPTION = (
    "Show a pending approval and where a person decides it, and wait. decision has the person at this client asked; "
    "arguments alone decide nothing, nobody approves their own call."
)
_RECONCILE_DESCRIPTION = (
    "Find out what happened to an ambiguous call (or all of a run) by asking the other side, instead of sending again. "
    "resolution with evidence has the person at this client asked for their word, needs scope reconcile, and is never "
    "about their own call."
)


def status(desk: Desk) -> BaseTool:
    """Views and events."""
    output = schemas.answer(events="array", runs="array", pending="array", unresolved="array")
    return BaseTool(
        "status",
        "Status",
        _STATUS_DESCRIPTION,
        _STATUS_INPUT,
        output,
        Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
        checked(_STATUS_INPUT, partial(_status, desk)),
    )


def cancel(desk: Desk) -> BaseTool:
    """A request to stop."""
    return BaseTool(
        "cancel",
        "Cancel",
        _CANCEL_DESCRIPTION,
        _CANCEL_INPUT,
        schemas.FOLLOWED,
        Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
        checked(_CANCEL_INPUT, partial(_cancel, desk)),
    )


def confirm(desk: Desk) -> BaseTool:
    """Waiting for, and asking for, a person's decision."""
    return BaseTool(
        "confirm",
        "Confirm",
        _CONFIRM_DESCRIPTION,
        _CONFIRM_INPUT,
        schemas.answer(approval_id="string", state="string", how="string|null", next="object|null"),
        Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
        checked(_CONFIRM_INPUT, partial(_confirm, desk)),
    )


def reconcile(desk: Desk) -> BaseTool:
    """Establishing what happened."""
    return BaseTool(
        "reconcile",
        "Reconcile",
        _RECONCILE_DESCRIPTION,
        _RECONCILE_INPUT,
        schemas.FOLLOWED,
        Annotations(read_only=False, destructive=False, idempotent=True, open_world=True),
        checked(_RECONCILE_INPUT, partial(_reconcile, desk)),
    )


async def _status(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    stated = _stated(arguments, "call_id", "run_id", "after_seq", "offset")
    if stated["call_id"] is not None and stated["run_id"] is not None:
        return _one_id(stated, "call_id or run_id, not both")
    if stated["offset"] is not None and stated["call_id"] is None:
        return _one_id(stated, "call_id with offset, since only a call's output has pages")
    return shown(await desk.status(asked.principal, wait_s=cast("float", arguments["wait_s"]), **stated))


async def _cancel(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    stated = _stated(arguments, "call_id", "run_id", "reason")
    if (stated["call_id"] is None) == (stated["run_id"] is None):
        return _one_id(stated, "exactly one of call_id and run_id")
    return shown(await desk.cancel(asked.principal, **stated))


async def _confirm(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    stated = _stated(arguments, "approval_id", "run_id", "decision", "digest", "note")
    if asked.said is not None:
        return shown(await desk.answer(asked.principal, asked.said, cast("str | None", stated["note"])))
    wait_s = cast("float | None", arguments.get("wait_s"))
    view = await desk.confirm(
        asked.principal,
        wait_s=asked.default_wait_s if wait_s is None else wait_s,
        wait_given=wait_s is not None,
        asks=asked.can_ask,
        **stated,
    )
    return shown(view)


async def _reconcile(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    stated = _stated(
        arguments,
        "call_id",
        "run_id",
        "resolution",
        "evidence",
        "output",
        "external_reference",
        "then",
        "expected_version",
    )
    if (stated["call_id"] is None) == (stated["run_id"] is None):
        return _one_id(stated, "exactly one of call_id and run_id")
    view = await desk.reconcile(
        asked.principal, wait_s=asked.default_wait_s, said=asked.said, asks=asked.can_ask, **stated
    )
    return shown(view)


def _stated(arguments: JsonObject, *names: str) -> dict[str, Any]:
    return {name: arguments.get(name) for name in names}


def _one_id(stated: dict[str, Any], expected: str) -> Answer:
    came = [name for name in ("call_id", "run_id") if stated[name] is not None]
    got = " and ".join(came) or "neither"
    message = f"give {expected}, not {got}; status without an id lists what you have"
    return Answer.refused(
        ErrorCode.INVALID_ARGUMENTS,
        message,
        {"problems": [Problem("", expected, got, message).as_json()]},
    )
