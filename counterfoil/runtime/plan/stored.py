"""A plan's normal document: what the ledger keeps and digests, pins included; and the plan again from it.

Only what a step states is written, in one way, so that the same plan has the same bytes however it was written down.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from ...canonical import canonical, sha256_hex
from ...registry.vocabulary import JsonObject, JsonValue
from .model import Needs, OnPlanFailure, OnStepFailure, Plan, RetryLimit, Step, Undo


def to_stored(plan: Plan) -> JsonObject:
    """The normal document, with version and schema digest of each step and the graph's edges."""
    document: JsonObject = {
        "goal": plan.goal,
        "steps": [_stored_step(step) for step in plan.steps],
        "edges": [list(before) for before in plan.edges],
        "input": plan.input,
        "on_failure": plan.on_failure.value,
        "compensation": plan.compensation,
        "max_parallel": plan.max_parallel,
        "deadline_s": plan.deadline_s,
        "budget": plan.budget,
        "allow": plan.allow,
    }
    return _stated(document)


def to_document(plan: Plan) -> JsonObject:
    """The plan as its author could have written it, each step at its pinned version: for checking it again."""
    document = to_stored(plan)
    del document["edges"]
    for step in cast("list[JsonObject]", document["steps"]):
        del step["schema_digest"]
    return document


def from_stored(document: JsonObject) -> Plan:
    """The plan of a normal document; nothing is checked, since only `to_stored` writes them."""
    found = cast("dict[str, Any]", document)
    return Plan(
        goal=found["goal"],
        steps=tuple(_step(step, index) for index, step in enumerate(found["steps"])),
        edges=tuple(map(tuple, found["edges"])),
        input=found["input"],
        on_failure=OnPlanFailure(found["on_failure"]),
        compensation=found["compensation"],
        max_parallel=found.get("max_parallel"),
        deadline_s=found.get("deadline_s"),
        budget=found["budget"],
        allow=found.get("allow"),
    )


def digest_of(stored: JsonObject) -> str:
    """64 hex characters over the canonical normal document."""
    return sha256_hex(canonical(stored))


def _stored_step(step: Step) -> JsonValue:
    compensate = step.compensate
    document: JsonObject = {
        "id": step.id,
        "tool": step.tool,
        "version": step.version,
        "schema_digest": step.schema_digest,
        "args": step.args,
        "depends_on": list(step.depends_on) or None,
        "needs": None if step.needs is Needs.SUCCESS else step.needs.value,
        "save_as": step.save_as,
        "for_each": step.for_each,
        "when": step.when,
        "if_version": step.if_version,
        "timeout_s": step.timeout_s,
        "retry": None if step.retry is None else _stated(asdict(step.retry)),
        "on_failure": None if step.on_failure is OnStepFailure.FAIL else step.on_failure.value,
        "compensate": {"tool": compensate.tool, "args": compensate.args}
        if isinstance(compensate, Undo)
        else compensate,
    }
    return _stated(document)


def _step(found: dict[str, Any], index: int) -> Step:
    compensate: Any = found.get("compensate")
    retry: Any = found.get("retry")
    return Step(
        id=found["id"],
        index=index,
        tool=found["tool"],
        version=found["version"],
        schema_digest=found["schema_digest"],
        args=found["args"],
        depends_on=tuple(found.get("depends_on", ())),
        needs=Needs(found.get("needs", Needs.SUCCESS)),
        save_as=found.get("save_as"),
        for_each=found.get("for_each"),
        when=found.get("when"),
        if_version=found.get("if_version"),
        timeout_s=found.get("timeout_s"),
        retry=None if retry is None else RetryLimit(**retry),
        on_failure=OnStepFailure(found.get("on_failure", OnStepFailure.FAIL)),
        compensate=compensate
        if compensate in (None, "default", "none")
        else Undo(compensate["tool"], compensate["args"]),
    )


def _stated(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if value is not None}
