"""From a JSON document to drafts: every field of the plan and of its steps, read strictly, all mistakes told at once.

What stands alone is checked here; what needs other steps, tools or rules is checked elsewhere. A draft holds what could
be read, so that one mistake hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Literal

from ...registry.budgets import MILLIONTHS, MOST, Kind
from ...registry.vocabulary import Effect, JsonObject, JsonValue
from .drafts import Draft, DraftPlan
from .fields import Fields, Spot
from .model import Needs, OnPlanFailure, OnStepFailure, RetryLimit, Undo
from .problems import Code, Problems
from .references import ID, RESERVED, ReferenceSyntaxError, parse, whole
from .uses import find_uses

PLAN_FIELDS: Final = (
    "goal", "steps", "input", "on_failure", "compensation", "max_parallel", "deadline_s", "budget", "allow",
)  # fmt: skip
STEP_FIELDS: Final = (
    "id", "tool", "version", "args", "depends_on", "needs", "save_as", "for_each", "when", "if_version", "timeout_s",
    "retry", "on_failure", "compensate",
)  # fmt: skip
OPERATORS: Final = ("eq", "ne", "gt", "ge", "lt", "le", "in", "exists")
BUDGETED: Final = tuple(kind for kind in Kind if kind is not Kind.SUM)
LONGEST_TIME_S: Final = 315_360_000
"""Ten years; longer ones are mistakes."""
MOST_ATTEMPTS: Final = 1_000
MOST_PATTERNS: Final = 200
LONGEST_PATTERN: Final = 64
_MOVED: Final = {
    "arguments": "write 'args'",
    "name": "a step names its tool in 'tool'",
    "output": "outputs are not declared; refer to them as ${id.field}",
    "schema_digest": "a plan pins its tools by itself",
    "idempotency_key": "steps of one run are distinct calls and need no key",
    "wait_s": "it belongs to 'run'",
}


class _Style(StrEnum):
    BEST_EFFORT = "best_effort"
    STRICT = "strict"


def read_plan(document: JsonObject, problems: Problems, most_steps: int) -> DraftPlan:
    """Read a bounded document; what is wrong goes to `problems`."""
    fields = Fields(Spot(problems), document)
    fields.only(PLAN_FIELDS, {"name": "a plan is called by its 'goal'", "request_key": "it belongs to 'run'"})
    plan = DraftPlan(fields.spot)
    if fields.need("goal", "a sentence that says what the plan is for"):
        plan.goal = fields.text("goal", 2_000) or ""
    plan.input = fields.object("input") or {}
    plan.on_failure = fields.word("on_failure", OnPlanFailure) or OnPlanFailure.STOP
    plan.compensation = (fields.word("compensation", _Style) or _Style.BEST_EFFORT).value
    plan.max_parallel = fields.count("max_parallel", 1, MOST_ATTEMPTS)
    plan.deadline_s = fields.number("deadline_s", LONGEST_TIME_S, above_zero=True)
    plan.budget = _budget(fields)
    plan.allow = _allow(fields)
    plan.steps = list(_steps(fields, most_steps))
    return plan


def _budget(fields: Fields) -> JsonObject:
    table = fields.object("budget") or {}
    inner = Fields(fields.spot, table, "budget")
    inner.only([kind.value for kind in BUDGETED])
    found: JsonObject = {}
    for kind in BUDGETED:
        most = MOST // MILLIONTHS if kind.unit > 1 else MOST
        amount = inner.number(kind, most) if kind.unit > 1 else inner.count(kind, 0, most)
        if amount is not None:
            found[kind.value] = amount
    return found


def _allow(fields: Fields) -> JsonObject | None:
    table = fields.object("allow")
    if table is None:
        return None
    inner = Fields(fields.spot, table, "allow")
    inner.only(("tools", "effects", "max_cost"))
    found: JsonObject = {}
    if table.get("tools") is not None:
        found["tools"] = list(_patterns(inner))
    if table.get("effects") is not None:
        effects = inner.names("effects", "'read', 'write' or 'destructive'")
        for effect in effects:
            if effect not in list(Effect):
                fields.spot.invalid("allow.effects", "'read', 'write' or 'destructive'", effect)
        found["effects"] = [effect for effect in effects if effect in list(Effect)]
    cost = inner.number("max_cost", MOST // MILLIONTHS)
    return found | ({} if cost is None else {"max_cost": cost})


def _patterns(fields: Fields) -> Iterator[str]:
    """They are compared with every tool of the plan, so there are not too many, and none is longer than a name."""
    patterns = fields.names("tools", "the name of a tool, or a pattern such as 'orders_*'")
    if len(patterns) > MOST_PATTERNS:
        told = f"allow.tools: at most {MOST_PATTERNS} names and patterns, these are {len(patterns):,}"
        fields.spot.add("allow.tools", Code.TOO_LARGE, told)
        return
    for pattern in patterns:
        if len(pattern) > LONGEST_PATTERN:
            told = (
                f"allow.tools: a name or a pattern has at most {LONGEST_PATTERN} characters, one has {len(pattern):,}"
            )
            fields.spot.add("allow.tools", Code.INVALID_ARGUMENTS, told)
        else:
            yield pattern


def _steps(fields: Fields, most: int) -> Iterator[Draft]:
    if not fields.need("steps", "a list of steps, each at least {id, tool, args}"):
        return
    steps = fields.list("steps")
    if steps is None:
        return
    if not steps:
        fields.spot.add("steps", Code.INVALID_ARGUMENTS, "steps: a plan has at least one step, this one has none")
    if len(steps) > most:
        told = f"steps: a plan has at most {most:,} steps, this one {len(steps):,}; make it several plans"
        fields.spot.add("steps", Code.TOO_LARGE, told)
        return
    for index, step in enumerate(steps):
        yield _step(step, index, fields.spot.problems)


def _step(table: JsonValue, index: int, problems: Problems) -> Draft:
    nameless = Spot(problems, None, index)
    if not isinstance(table, dict):
        nameless.invalid("", "an object such as {id, tool, args}", table, hidden=True)
        return Draft(index, nameless, None)
    step_id = _id(Fields(nameless, table), "id")
    if table.get("id") is None:
        Fields(nameless, table).need("id", "a short name of the step, for references and answers")
    fields = Fields(Spot(problems, step_id, index), table)
    fields.only(STEP_FIELDS, _MOVED)
    draft = Draft(index, fields.spot, step_id)
    if fields.need("tool", "the name of a tool"):
        draft.tool = fields.text("tool", 200, "the name of a tool")
    draft.version = fields.text("version", 200)
    draft.args = fields.object("args") or {}
    draft.depends_on = fields.names("depends_on", "the id of a step")
    draft.needs = fields.word("needs", Needs) or Needs.SUCCESS
    draft.save_as = _id(fields, "save_as")
    draft.for_each = _for_each(fields)
    draft.when = _when(fields)
    draft.if_version = fields.text("if_version", 1_000)
    draft.timeout_s = fields.number("timeout_s", LONGEST_TIME_S, above_zero=True)
    draft.retry = _retry(fields)
    draft.on_failure = fields.word("on_failure", OnStepFailure) or OnStepFailure.FAIL
    draft.compensate = _compensate(fields)
    find_uses(draft)
    return draft


def _id(fields: Fields, name: str) -> str | None:
    value = fields.table.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not ID.fullmatch(value):
        fields.invalid(name, "1 to 64 characters of A-Z, a-z, 0-9, _ and -")
        return None
    if value in RESERVED:
        told = f"{name}: ${{{value}}} means something else already; take another name than input, run and item"
        fields.spot.add(name, Code.DUPLICATE_ID, told)
        return None
    return value


def _for_each(fields: Fields) -> JsonValue:
    value = fields.table.get("for_each")
    if value is None or isinstance(value, list) or _is_whole(value):
        return value
    fields.invalid("for_each", "a list, or one whole reference such as '${order.contacts}'")
    return None


def _when(fields: Fields) -> JsonValue:
    value = fields.table.get("when")
    if value is None or _is_whole(value):
        return value
    if not isinstance(value, dict):
        fields.invalid("when", 'a reference such as \'${order.late}\', or {"ref": "${order.total}", "gt": 100}')
        return None
    inner = Fields(fields.spot, value, "when")
    inner.only(("ref", *OPERATORS))
    if not inner.need("ref", "a reference such as '${order.total}'"):
        return None
    if not _is_whole(value["ref"]):
        inner.invalid("ref", "one whole reference such as '${order.total}'")
        return None
    operators = [name for name in OPERATORS if name in value]
    if not operators:
        told = f"when: it compares with nothing; add one of {', '.join(OPERATORS)}"
        fields.spot.add("when", Code.INVALID_ARGUMENTS, told)
    fitting = [name for name in operators if _operand(inner, name)]
    return value if operators and fitting == operators else None


def _operand(fields: Fields, name: str) -> bool:
    operand = fields.table[name]
    if _is_whole(operand) and name != "exists":
        return True
    if name in ("eq", "ne"):
        return True
    if name == "exists":
        wanted, fits = "true or false", isinstance(operand, bool)
    elif name == "in":
        wanted, fits = "a list of values", isinstance(operand, list)
    else:
        wanted, fits = "a number", isinstance(operand, int | float) and not isinstance(operand, bool)
    if not fits:
        fields.invalid(name, wanted)
    return fits


def _retry(fields: Fields) -> RetryLimit | None:
    table = fields.object("retry")
    if table is None:
        return None
    inner = Fields(fields.spot, table, "retry")
    inner.only(("attempts", "backoff_s", "least_s"))
    return RetryLimit(
        inner.count("attempts", 1, MOST_ATTEMPTS),
        inner.number("backoff_s", LONGEST_TIME_S),
        inner.number("least_s", LONGEST_TIME_S),
    )


def _compensate(fields: Fields) -> Literal["default", "none"] | Undo | None:
    value = fields.table.get("compensate")
    match value:
        case None | "default" | "none":
            return value
        case dict():
            return _undo(fields, value)
        case _:
            fields.invalid("compensate", "'default', 'none' or {tool, args}")
            return None


def _undo(fields: Fields, table: JsonObject) -> Undo | None:
    inner = Fields(fields.spot, table, "compensate")
    inner.only(("tool", "args"), {"arguments": "write 'args'"})
    tool = inner.text("tool", 200, "the name of a tool") if inner.need("tool", "the name of a tool") else None
    args = inner.object("args") or {}
    return None if tool is None else Undo(tool, args)


def _is_whole(value: JsonValue) -> bool:
    """True for one whole reference, and for a text that should be one and is told of elsewhere."""
    if not isinstance(value, str) or "${" not in value:
        return False
    try:
        return whole(parse(value)) is not None
    except ReferenceSyntaxError:
        return True
