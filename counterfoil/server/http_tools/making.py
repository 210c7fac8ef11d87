"""From the tables of a described tool to plain values: its contract with those of its probe and undoing, and requests.

It derives what a decorator would derive, by the same rules, and checks nothing across tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...canonical import JsonObject
from ...registry.arguments import forbid_extra
from ...registry.contract import PROBE_ENDING, UNDO_ENDING, Contract
from ...registry.predicates import Op
from ...registry.vocabulary import Effect
from ...tools.fields import contract_of
from ...tools.http.spec import HttpProbe, HttpTool, Pages, Request, Sign
from ...tools.schema import sensitive_pointers
from ..config.kinds import read_rate
from ..config.tool_kinds import short_schema
from ..config.tool_tables import AnswerTable, SignTable, ToolCompensationTable, ToolProbeTable, ToolTable

_ELSEWHERE: Final = frozenset({"retry", "rate", "input", "input_schema", "output", "output_schema", "http", "probe",
                               "compensation", "preview"})  # fmt: skip
_UNDO_FIELDS: Final = ("idempotency", "key_retention_s", "timeout_s")


@dataclass(frozen=True, slots=True)
class Made:
    """One contract, and what its adapter carries out; None where a person does."""

    contract: Contract
    spec: HttpTool | HttpProbe | None


def made_of(name: str, table: ToolTable) -> list[Made]:
    """The tool itself, then its probe and its undoing where it has them.

    Raises:
        ToolDefinitionError: fields that do not go together.
        SchemaError: a schema that cannot be used.
    """
    main = _main(name, table)
    made = [Made(main, tool_of(table))]
    if table.probe is not None:
        made.append(Made(_probe(table.probe, main), probe_of(table.probe)))
    undo = table.compensation
    if undo is not None and (spec := undo_of(undo)) is not None:
        made.append(Made(_undo(undo, main), spec))
    return made


def input_schema(table: ToolTable) -> JsonObject:
    """The tool's arguments, closed.

    Raises:
        SchemaError: `input_schema` is no schema, or too large.
    """
    if table.input_schema is not None:
        return forbid_extra(table.input_schema)
    return short_schema(table.input or {}, closed=True)


def output_schema(table: ToolTable) -> JsonObject | None:
    """The tool's output. The short form is open: what an API adds to its answers is no error."""
    if table.output_schema is not None:
        return table.output_schema
    return None if table.output is None else short_schema(table.output, closed=False)


def _sign_of(table: SignTable) -> Sign:
    """One sign, with the tests that the table states."""
    stated = table.model_dump(by_alias=True, exclude_unset=True)
    tests: JsonObject = {op.value: stated[op.value] for op in Op if op.value in stated}
    return Sign(table.path, tests, frozenset(table.status))


def probe_of(table: ToolProbeTable) -> HttpProbe:
    """The request and the signs of a probe."""
    return HttpProbe(
        request=_request_of(table, table.method, table.url),
        happened=_sign_of(table.happened),
        pending=_sign_of(table.pending) if table.pending else None,
        absent=_sign_of(table.absent) if table.absent else None,
        output=table.output,
        evidence=table.evidence,
    )


def undo_of(table: ToolCompensationTable) -> HttpTool | None:
    """The request of an undoing that has one of its own."""
    return None if table.url is None else _answer(table, table.method or "POST", table.url)


def _request_of(table: AnswerTable | ToolProbeTable, method: str, url: str) -> Request:
    """The request that a table describes."""
    return Request(method, url, table.headers, table.query, table.json_, table.form)


def tool_of(table: ToolTable) -> HttpTool | None:
    """The tool's request and how its answer is read; None where a person performs it."""
    if (http := table.http) is None:
        return None
    pages = http.pages
    paged = Pages(**pages.model_dump()) if pages else None
    return replace(_answer(http, http.method, http.url), pages=paged)


def _answer(table: AnswerTable, method: str, url: str) -> HttpTool:
    return HttpTool(
        request=_request_of(table, method, url),
        no_result_status=frozenset(table.no_result_status),
        refused_status=frozenset(table.refused_status),
        unknown_status=frozenset(table.unknown_status),
        key_header=table.idempotency_header,
        precondition_header=table.precondition_header,
        output=table.output,
        evidence=table.evidence,
    )


def _main(name: str, table: ToolTable) -> Contract:
    stated: dict[str, Any] = {
        **{field: value for field, value in table if field not in _ELSEWHERE and value is not None},
        "name": name,
        "rate": read_rate(table.rate) if table.rate else None,
        "retry": table.retry.model_dump(exclude_none=True) if table.retry else None,
        "probe": name + PROBE_ENDING if table.probe else None,
        "compensation": _undone_by(name, table.compensation),
        "preview": table.preview.tool if table.preview else None,
    }
    schema = input_schema(table)
    contract = contract_of(name, stated, schema, output_schema(table), tuple(sensitive_pointers(schema)))
    template = table.compensation.arguments if table.compensation else None
    shown_with = table.preview.arguments if table.preview else None
    return replace(
        contract,
        gate=replace(contract.gate, preview_arguments=shown_with),
        recovery=replace(contract.recovery, compensation_arguments=template),
    )


def _undone_by(name: str, table: ToolCompensationTable | None) -> str | None:
    if table is None:
        return None
    return table.tool or name + UNDO_ENDING


def _probe(table: ToolProbeTable, main: Contract) -> Contract:
    stated = {"effect": Effect.READ, "title": f"Probe of {main.name}", "timeout_s": table.timeout_s}
    return _beside(PROBE_ENDING, main, stated)


def _undo(table: ToolCompensationTable, main: Contract) -> Contract:
    """It has the tool's effect, scopes and resources, and says itself whether it may be sent again."""
    gate = main.gate
    stated = {
        "effect": gate.effect,
        "scopes": gate.scopes,
        "resources": gate.resources,
        "title": f"Undo of {main.name}",
    }
    return _beside(UNDO_ENDING, main, stated | {field: getattr(table, field) for field in _UNDO_FIELDS})


def _beside(ending: str, main: Contract, stated: Mapping[str, Any]) -> Contract:
    naming = {"name": main.name + ending, "version": main.version, "visibility": "hidden", "asked_about": main.name,
              "open_world": main.gate.open_world}  # fmt: skip
    return contract_of(main.name + ending, {**stated, **naming}, main.schemas.input, None, main.gate.sensitive)
