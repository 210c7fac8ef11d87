"""Everything that can be wrong with one described tool by itself, all at once and each at its own key.

Other tools are looked at elsewhere. A URL or a header is never repeated in a message: it may hold a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ...canonical import JsonObject
from ...registry.contract import BASE_NAMES, MANUAL_ALONE, MANUAL_READ, NAME, RESERVED_ENDINGS
from ...registry.filling import Scope
from ...registry.nearest import nearest
from ...registry.predicates import parse_pointer
from ...registry.schema import SchemaError, compile_schema
from ...registry.schema_paths import has_path
from ...registry.template import fault_of, placeholders
from ...registry.vocabulary import Assurance, Effect, Idempotency
from ...tools.http.faults import faults_of, probe_faults
from ...tools.http.hosts import Hosts, UrlError
from ...tools.http.spec import HttpTool, Sign
from ..config import Configuration, Problem
from ..config.errors import KeyPath
from ..config.tool_tables import AnswerTable, ToolProbeTable, ToolTable
from .keys import names_action, sends_key
from .making import input_schema, output_schema, probe_of, tool_of, undo_of

_SIGNS: Final = ("happened", "pending", "absent")
_NO_TEMPLATE: Final = (
    "a sign compares with what stands here; put {call.action_id} into the request, so that only this call's record "
    "comes back"
)
_INLINE: Final = frozenset({"tool", "arguments"})


@dataclass(slots=True)
class Checked:
    """One tool and what was found wrong with it so far."""

    config: Configuration
    name: str
    table: ToolTable
    problems: list[Problem] = field(default_factory=list[Problem])

    def say(self, key: str, message: str, nearest: str | None = None) -> None:
        """Note a problem at a dotted key below the tool; the empty one is the tool itself."""
        self.say_at(tuple(key.split(".")) if key else (), message, nearest)

    def say_at(self, below: KeyPath, message: str, nearest: str | None = None) -> None:
        """Note a problem at a key path below the tool."""
        self.problems.append(self.config.problem(("tools", self.name, *below), message, nearest))


def check_tool(config: Configuration, name: str, table: ToolTable, hosts: Hosts) -> list[Problem]:
    """Every problem of one tool that its own tables, the pools and the allowed hosts show."""
    checked = Checked(config, name, table)
    _check_name(checked)
    schema = _check_schemas(checked)
    if table.pool is not None and table.pool not in config.pools:
        checked.say("pool", f"there is no [pools.{table.pool}]", nearest(table.pool, config.pools))
    if table.effect is Effect.DESTRUCTIVE and table.approval is Assurance.CLIENT:
        checked.say("approval", "'client' is for reversible writes; a destructive tool takes 'operator' or "
                                "'second_person'")  # fmt: skip
    _check_hands(checked)
    if schema is not None:
        _check_arguments(checked, schema)
        _check_requests(checked, schema, hosts)
        _check_pages(checked, schema)
    _check_keys(checked)
    if table.probe is not None:
        _check_signs(checked, table.probe)
    if table.compensation is not None:
        _check_compensation(checked)
    return checked.problems


def usable_hosts(config: Configuration) -> tuple[list[str], list[Problem]]:
    """The hosts that tools may reach, and what is wrong with the other entries."""
    usable: list[str] = []
    problems: list[Problem] = []
    for index, entry in enumerate(config.http.allow_hosts):
        try:
            Hosts([entry])
        except UrlError as error:
            problems.append(config.problem(("http", "allow_hosts", index), str(error)))
        else:
            usable.append(entry)
    return usable, problems


def _check_name(checked: Checked) -> None:
    if not NAME.fullmatch(checked.name):
        checked.say("", "expected a name of 1 to 64 characters of a-z, 0-9 and _")
    elif checked.name in BASE_NAMES:
        checked.say("", "this is the name of a base tool; choose another")
    elif checked.name.endswith(RESERVED_ENDINGS):
        checked.say("", f"the endings {' and '.join(RESERVED_ENDINGS)} belong to probes and compensations")


def _check_hands(checked: Checked) -> None:
    """A request or a person, and nothing beside a person that only a program could do."""
    table = checked.table
    if not table.manual:
        if table.http is None:
            checked.say("", "expected http, the request that it makes, or manual = true if a person performs it")
        return
    if table.effect is Effect.READ:
        checked.say("effect", MANUAL_READ)
    stated = {
        "http": table.http is not None,
        "probe": table.probe is not None,
        "settle_s": table.settle_s is not None,
        "idempotency": table.idempotency not in {None, Idempotency.NONE},
        "retry": table.retry is not None and (table.retry.attempts or 1) > 1,
    }
    for key in (one for one, there in stated.items() if there):
        checked.say(key, MANUAL_ALONE)


def _check_schemas(checked: Checked) -> JsonObject | None:
    """The schema of the arguments; None if there is none to check anything by."""
    table = checked.table
    for short in ("input", "output"):
        if getattr(table, short) is not None and getattr(table, f"{short}_schema") is not None:
            checked.say(f"{short}_schema", f"expected {short} or {short}_schema, not both")
    try:
        if (output := output_schema(table)) is not None:
            compile_schema(output)
    except SchemaError as error:
        checked.say("output_schema", str(error))
    try:
        schema = input_schema(table)
        compile_schema(schema)
    except SchemaError as error:
        checked.say("input_schema", str(error))
        return None
    if schema.get("type") != "object":
        checked.say("input_schema", 'expected type = "object": arguments are an object')
        return None
    return schema


def _check_arguments(checked: Checked, schema: JsonObject) -> None:
    """What names arguments outside of requests: resources and sensitive places."""
    for index, template in enumerate(checked.table.resources or ()):
        if fault := fault_of(template):
            checked.say_at(("resources", index), fault)
            continue
        for path in placeholders(template):
            _check_argument(checked, ("resources", index), path.split("."), schema)
    for index, place in enumerate(checked.table.sensitive or ()):
        _check_argument(checked, ("sensitive", index), parse_pointer(place.replace("/*", "/0")), schema)


def _check_argument(checked: Checked, at: KeyPath, path: Iterable[str], schema: JsonObject) -> None:
    steps = list(path)
    if has_path(schema, steps):
        return
    known = argument_names(schema)
    near = nearest(steps[0], known) if steps[0] not in known else None
    has = "" if near else f"; it has {', '.join(known) or 'none'}"
    checked.say_at(at, f"{'.'.join(steps)!r} is no argument of this tool{has}", near)


def argument_names(schema: JsonObject) -> list[str]:
    """The arguments that a schema states, sorted."""
    properties = schema.get("properties")
    return sorted(properties) if isinstance(properties, dict) else []


def required_names(schema: JsonObject) -> list[str]:
    """The arguments that every call must have."""
    required = schema.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def _check_requests(checked: Checked, schema: JsonObject, hosts: Hosts) -> None:
    """What the adapters' own check finds in each request, at this file's keys."""
    table, undo = checked.table, checked.table.compensation
    scope, is_read = Scope(schema), table.effect is Effect.READ
    keyed = table.idempotency is Idempotency.KEYED
    spec = tool_of(table)
    found = [("http", one) for one in faults_of(spec, scope, hosts, is_read=is_read, keyed=keyed)] if spec else []
    if table.probe is not None:
        found += [("probe", one) for one in probe_faults(probe_of(table.probe), scope, hosts)]
    if undo is not None and (spec := undo_of(undo)) is not None:
        keyed, undoing = undo.idempotency is Idempotency.KEYED, Scope(schema, compensation=True)
        found += [("compensation", one) for one in faults_of(spec, undoing, hosts, is_read=False, keyed=keyed)]
    for below, one in found:
        checked.say_at((below, *one.path), one.message)


def _check_keys(checked: Checked) -> None:
    """A keyed tool sends its key: everything about sending again rests on it."""
    table, undo = checked.table, checked.table.compensation
    if (made := tool_of(table)) is not None:
        _check_key(checked, "idempotency", made, table.idempotency)
    if table.key_retention_s is not None and table.idempotency is not Idempotency.KEYED:
        checked.say("key_retention_s", 'only a keyed tool keeps a key; say idempotency = "keyed", or leave it out')
    if undo is not None and (spec := undo_of(undo)) is not None:
        _check_key(checked, "compensation.idempotency", spec, undo.idempotency)


def _check_key(checked: Checked, key: str, spec: HttpTool, idempotency: Idempotency | None) -> None:
    if idempotency is Idempotency.KEYED and not sends_key(spec):
        checked.say(key, "a keyed tool sends its key, and this one sends it nowhere; state idempotency_header, or "
                         "{call.action_id} in the request")  # fmt: skip


def _check_pages(checked: Checked, schema: JsonObject) -> None:
    http = checked.table.http
    pages = http.pages if http is not None else None
    if http is not None and pages is not None and http.output:
        checked.say("http.output", "with pages the output is {items, next}; leave it out")
    if pages is not None and pages.argument in required_names(schema):
        checked.say("http.pages.argument", "the first page has no cursor, so this argument must be optional")


def _check_signs(checked: Checked, probe: ToolProbeTable) -> None:
    spec = probe_of(probe)
    for name in _SIGNS:
        sign: Sign | None = getattr(spec, name)
        for test, operand in sign.tests.items() if sign else ():
            if names_action(operand):
                checked.say(f"probe.{name}.{test}", _NO_TEMPLATE)


def _check_compensation(checked: Checked) -> None:
    """Either another tool or a request of its own, and nothing of both."""
    undo = checked.table.compensation
    if undo is None:
        return
    if checked.table.effect is Effect.READ:
        checked.say("compensation", "a read has no effect to undo; leave it out")
    if undo.url is not None and undo.tool is not None:
        checked.say("compensation.tool", "expected a tool, or a request of its own (method, url), not both")
    elif undo.url is not None:
        _check_inline(checked)
    elif undo.tool is None:
        checked.say("compensation", "expected a tool (tool, arguments), or a request of its own (method, url)")
    else:
        for key in sorted(set(_stated(undo)) - _INLINE):
            checked.say(f"compensation.{key}", "it belongs to a request of its own; the tool that is named says it")


def _check_inline(checked: Checked) -> None:
    undo = checked.table.compensation
    if undo is None:
        return
    if undo.method is None:
        checked.say("compensation.url", "expected a method beside it")
    if undo.arguments is not None:
        checked.say("compensation.arguments", "a request of its own takes the call's arguments; leave them out")


def _stated(table: AnswerTable) -> Iterator[str]:
    yield from table.model_dump(by_alias=True, exclude_unset=True)
