"""`plan` and `run`: a whole chain handed over as data, checked before anything runs, then driven by the server.

The schemas here are shallow on purpose. What is wrong inside a plan is told by the plan checker, all at once; a schema
would refuse the document as a whole before anybody had looked at it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from ...canonical import JsonObject
from ...registry.problem import Problem
from ...registry.request import KEY_MAX, RunRequest
from ...registry.vocabulary import ErrorCode
from . import schemas
from .answer import Answer, Asked
from .desk import Desk, shown, shown_or_asked
from .spec import Annotations, BaseTool, checked

PARALLEL_MAX: Final = 1000
DEADLINE_MAX_S: Final = 10**9
"""Both are more than any server's own limit, which the plan checker knows."""
WHICH: Final = ("plan_id", "plan", "name", "run_id")

_OBJECT: Final[JsonObject] = {"type": "object"}
_STEP: Final = (
    "{id, tool, args; depends_on, for_each, when, needs: settled, save_as, on_failure: continue, retry, timeout_s, "
    "version, if_version, compensate}"
)
_EXAMPLE: Final[JsonObject] = {"id": "a", "tool": "orders_get", "args": {}}
_PLAN_INPUT: Final = schemas.arguments(
    ["goal", "steps"],
    goal=schemas.STRING,
    steps={"type": "array", "items": {"type": "object", "examples": [_EXAMPLE]}, "description": _STEP},
    input=_OBJECT,
    on_failure=schemas.choice("stop", "compensate"),
    compensation=schemas.choice("best_effort", "strict"),
    max_parallel={"type": "integer", "minimum": 1, "maximum": PARALLEL_MAX},
    deadline_s={"type": "number", "minimum": 0, "maximum": DEADLINE_MAX_S},
    budget=_OBJECT,
    allow=_OBJECT,
)
_RUN_INPUT: Final = schemas.arguments(
    plan_id=schemas.STRING,
    plan={"type": "object", "description": "As plan takes it"},
    name=schemas.STRING,
    run_id=schemas.STRING,
    input=_OBJECT,
    request_key=schemas.short(KEY_MAX),
    wait_s=schemas.WAIT,
    fork_of=schemas.STRING,
    from_step=schemas.STRING,
)
_PLAN_DESCRIPTION = (
    "Check a chain of several steps; nothing runs. In args '${order.total}' is that output of the step order, typed, "
    "and makes the dependency; also ${input.x}, ${a.b ?? 0}, and ${item} under for_each: '${order.lines}'. "
    "errors has every mistake. See effect and approval of the steps, then run with plan_id."
)
_RUN_DESCRIPTION = (
    "Run a plan, a stored one by name, take up run_id, or go on from a finished run with fork_of. The server drives "
    "it, also when you stop waiting; follow with status. Asked again: the same run, unless request_key differs. "
    "awaiting_approval: tell the user pending.how. awaiting_reconciliation: reconcile with run_id. queued: see reason."
)


def plan(desk: Desk) -> BaseTool:
    """A chain, checked and kept."""
    return BaseTool(
        "plan",
        "Plan a chain",
        _PLAN_DESCRIPTION,
        _PLAN_INPUT,
        schemas.answer(plan_id="string|null", steps="array|null", waves="array|null", errors="array|null"),
        Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
        checked(_PLAN_INPUT, partial(_plan, desk)),
    )


def run(desk: Desk) -> BaseTool:
    """A chain, driven."""
    return BaseTool(
        "run",
        "Run a plan",
        _RUN_DESCRIPTION,
        _RUN_INPUT,
        schemas.answer(
            run_id="string|null",
            status="string|null",
            steps="array|null",
            outputs="object|null",
            pending="array|null",
            unresolved="array|null",
            next="object|null",
        ),
        Annotations(read_only=False, destructive=True, idempotent=True, open_world=True),
        checked(_RUN_INPUT, partial(_run, desk)),
    )


async def _plan(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    return shown(await desk.plan(asked.principal, arguments))


async def _run(desk: Desk, arguments: JsonObject, asked: Asked) -> Answer:
    refused = _which(arguments)
    if refused is not None:
        return refused
    stated = cast("dict[str, Any]", dict(arguments))
    wait_s = stated.pop("wait_s", None)
    request = RunRequest(
        asked.principal,
        wait_s=asked.default_wait_s if wait_s is None else wait_s,
        wait_given=wait_s is not None,
        progress=asked.progress,
        **stated,
    )
    if asked.said is not None:
        await desk.answer(asked.principal, asked.said)
    return await shown_or_asked(desk, await desk.run(request), asked)


def _which(arguments: JsonObject) -> Answer | None:
    """The refusal of a request that names no run and no plan, or several; a fork has the plan of its run."""
    came = [name for name in WHICH if name in arguments]
    forks = "fork_of" in arguments
    if len(came) != 1 and not (forks and not came):
        return _refused("", f"exactly one of {', '.join(WHICH)}", " and ".join(came) or "none of them")
    if came == ["run_id"] and (extra := sorted({"input", "fork_of"} & arguments.keys())):
        return _refused(f"/{extra[0]}", f"run_id without {extra[0]}, which makes a new run", f"both: {extra[0]} too")
    if "from_step" in arguments and not forks:
        return _refused("/from_step", "from_step with fork_of", "from_step alone")
    return None


def _refused(path: str, expected: str, got: str) -> Answer:
    message = f"give {expected}; got {got}"
    problem = Problem(path, expected, got, message)
    return Answer.refused(ErrorCode.INVALID_ARGUMENTS, message, {"problems": [problem.as_json()]})
