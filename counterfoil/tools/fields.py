"""The contract fields as keywords of a decorator, checked one by one, and the contract that they make.

A field that is not stated, or stated as None, keeps the contract's own default.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, Literal, TypedDict, TypeVar, cast

from ..canonical import JsonObject
from ..registry.contract import (
    Contract,
    ContractError,
    Gate,
    Limits,
    Rate,
    Recovery,
    ResourceFunction,
    Retry,
    Schemas,
    Text,
)
from ..registry.vocabulary import Assurance, Effect, Idempotency, Visibility
from .errors import ToolDefinitionError

E = TypeVar("E", bound=StrEnum)
Reader = Callable[[str, Any], Any]

READ_ATTEMPTS: Final = 3
_PER_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}

EffectWord = Literal["read", "write", "destructive"]
IdempotencyWord = Literal["natural", "keyed", "none"]
AssuranceWord = Literal["none", "client", "operator", "second_person"]
VisibilityWord = Literal["base", "deferred", "hidden"]


class RetryFields(TypedDict, total=False):
    """A `Retry` in its short form; times in seconds."""

    attempts: int
    backoff_s: float
    least_s: float


class BesideFields(TypedDict, total=False):
    """What a probe or a compensation may state of its contract."""

    title: str
    description: str
    tags: list[str]
    effect: EffectWord
    open_world: bool
    idempotency: IdempotencyWord
    key_retention_s: float
    scopes: list[str]
    settle_s: float
    approval: AssuranceWord
    timeout_s: float
    external_wait_s: float
    freshness_s: float
    retry: RetryFields | Retry
    rate: str | Rate
    concurrency: int
    pool: str
    resources: list[str] | ResourceFunction
    cost: float
    sensitive: list[str]
    evidence: Mapping[str, str]
    preview: str


class Fields(BesideFields, total=False):
    """What a tool may state of its contract."""

    name: str
    version: str
    code: bool
    manual: bool
    visibility: VisibilityWord


def _bad(field: str, needed: str, came: object) -> ToolDefinitionError:
    return ToolDefinitionError(f"{field} is {needed}, not {came!r}")


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _bad(field, "a text", value)
    return value


def _texts(field: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401 (checked here)
    """A tuple of texts; one bare text is refused, since it would be read letter by letter."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise _bad(field, "a list of texts", value)
    listed = cast("Iterable[object]", value)
    return tuple(_text(f"each of {field}", item) for item in listed)


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad(field, "True or False", value)
    return value


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise _bad(field, "a number of at least 0", value)
    return value


def _seconds(field: str, value: object) -> float:
    if _number(field, value) == 0:
        raise _bad(field, "a number of seconds above 0", value)
    return float(cast("float", value))


def _count(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _bad(field, "a whole number of at least 1", value)
    return value


def _word(kind: type[E]) -> Reader:
    def read(field: str, value: object) -> E:
        try:
            return kind(cast("str", value))
        except ValueError:
            raise _bad(field, f"one of {', '.join(kind)}", value) from None

    return read


def _pointers(field: str, value: Any) -> dict[str, str]:  # noqa: ANN401 (checked here)
    members = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {value: None}
    for name, path in members.items():
        if not (isinstance(name, str) and isinstance(path, str) and path[:1] in {"", "/"}):
            raise _bad(field, "names with JSON Pointers, as in {'external_version': '/etag'}", {name: path})
    return cast("dict[str, str]", dict(members))


def _sensitive(field: str, value: object) -> tuple[str, ...]:
    pointers = _texts(field, value)
    for pointer in pointers:
        if not pointer.startswith("/"):
            raise _bad(field, f"JSON Pointers, as in '/{pointer}'", pointer)
    return pointers


def rate_of(text: str) -> Rate:
    """`20/s`, `100/m` or `1000/h`.

    Raises:
        ToolDefinitionError: anything else.
    """
    count, slash, unit = text.partition("/")
    if not (slash and count.isascii() and count.isdigit() and int(count) and unit in _PER_S):
        raise _bad("rate", "a count for each second, minute or hour, as in '20/s', '100/m' or '1000/h'", text)
    return Rate(int(count), _PER_S[unit])


def _rate(_field: str, value: object) -> Rate:
    if isinstance(value, Rate):
        return value
    return rate_of(_text("rate", value))


def _retry(field: str, value: object) -> Retry | dict[str, Any]:
    if isinstance(value, Retry):
        return value
    if not isinstance(value, Mapping):
        raise _bad(field, "a Retry or {'attempts': 3, 'backoff_s': 0.5, 'least_s': 1}", value)
    return _read(cast("Mapping[str, Any]", value), _RETRY, f"{field}.")


def _resources(field: str, value: object) -> tuple[str, ...] | ResourceFunction:
    return _narrowed(value) if callable(value) else _texts(field, value)


def _narrowed(function: Callable[..., Any]) -> ResourceFunction:
    """The function given only those arguments that it names."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function
    names = {parameter.name for parameter in parameters}

    def resources(**arguments: object) -> list[str]:
        return cast("list[str]", function(**{name: value for name, value in arguments.items() if name in names}))

    resources.__signature__ = inspect.signature(function)  # type: ignore[attr-defined] # read by check_resources
    return resources


_TEXT: Final[dict[str, Reader]] = {"title": _text, "description": _text, "tags": _texts}
_GATE: Final[dict[str, Reader]] = {
    "effect": _word(Effect),
    "open_world": _flag,
    "scopes": _texts,
    "approval": _word(Assurance),
    "resources": _resources,
    "sensitive": _sensitive,
    "preview": _text,
    "visibility": _word(Visibility),
    "code": _flag,
    "manual": _flag,
}
_RETRY: Final[dict[str, Reader]] = {"attempts": _count, "backoff_s": _number, "least_s": _number}
_LIMITS: Final[dict[str, Reader]] = {
    "timeout_s": _seconds,
    "external_wait_s": _seconds,
    "freshness_s": _number,
    "retry": _retry,
    "rate": _rate,
    "concurrency": _count,
    "pool": _text,
    "cost": _number,
}
_RECOVERY: Final[dict[str, Reader]] = {
    "idempotency": _word(Idempotency),
    "key_retention_s": _seconds,
    "probe": _text,
    "settle_s": _number,
    "compensation": _text,
    "evidence": _pointers,
}
_NAMING: Final[dict[str, Reader]] = {"name": _text, "version": _text, "asked_about": _text}


def _read(stated: Mapping[str, Any], readers: Mapping[str, Reader], prefix: str = "") -> dict[str, Any]:
    for key in stated:
        if key not in readers:
            near = get_close_matches(key, readers, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may be one of {', '.join(sorted(readers))}"
            raise ToolDefinitionError(f"{prefix}{key} is no contract field; {hint}")
    return {key: readers[key](f"{prefix}{key}", value) for key, value in stated.items() if value is not None}


def check_known(owner: str, stated: Mapping[str, Any], kind: type) -> None:
    """Refuse keywords that this decorator does not take.

    Raises:
        ToolDefinitionError: the nearest keyword that it does take is named.
    """
    try:
        _read(stated, dict.fromkeys(kind.__annotations__, lambda _field, value: value))
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"{owner}: {error}") from None


def contract_of(owner: str, stated: Mapping[str, Any], input_schema: JsonObject, output_schema: JsonObject | None,
                secret: tuple[str, ...] = ()) -> Contract:  # fmt: skip
    """The contract that these fields make; `owner` opens each message, `secret` adds to `sensitive`.

    Raises:
        ToolDefinitionError: a field or a combination that cannot be right.
    """
    try:
        parts = [{k: v for k, v in stated.items() if k in readers} for readers in (_TEXT, _GATE, _LIMITS, _RECOVERY)]
        text, gate, limits, recovery = map(_read, parts, (_TEXT, _GATE, _LIMITS, _RECOVERY))
        naming = _read({key: value for key, value in stated.items() if key in _NAMING}, _NAMING)
        gate["sensitive"] = tuple(sorted({*gate.get("sensitive", ()), *secret}))
        limits["retry"] = _retry_for(gate["effect"], limits.get("retry"))
        _check_resources(gate.get("resources"), input_schema)
        return Contract(
            text=Text(text.pop("title", naming["name"]), text.pop("description", ""), **text),
            schemas=Schemas(input_schema, output_schema),
            gate=Gate(**gate),
            limits=Limits(**limits),
            recovery=Recovery(**recovery),
            **naming,
        )
    except (ToolDefinitionError, ContractError) as error:
        raise ToolDefinitionError(f"{owner}: {error}") from error


def _retry_for(effect: Effect, stated: Retry | dict[str, Any] | None) -> Retry:
    """Reads are tried three times unless stated (design section 4)."""
    if isinstance(stated, Retry):
        return stated
    usual = {"attempts": READ_ATTEMPTS} if effect is Effect.READ else {}
    return Retry(**{**usual, **(stated or {})})


def _check_resources(resources: object, input_schema: JsonObject) -> None:
    if not callable(resources):
        return
    known = cast("dict[str, Any]", input_schema.get("properties", {}))
    for parameter in inspect.signature(resources).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name not in known:
            raise ToolDefinitionError(f"resources: the function takes {parameter.name!r}, which is no argument; known "
                                      f"are {sorted(known)}")  # fmt: skip
