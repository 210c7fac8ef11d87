"""Reads a function: which parameters are arguments, which is the `Call`, what it returns.

Everything that cannot become a tool is refused here, while the function is decorated, by name and with the cure.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from ..canonical import JsonObject
from ..registry.adapter import Call
from ..registry.arguments import forbid_extra
from ..registry.outcome import Outcome, Probe
from ..registry.schema import SchemaError
from . import schema as schemas
from .errors import ChangedArgumentsError, ToolDefinitionError
from .own_checks import has_own_checks
from .unchanged import changes

Function = Callable[..., Any]

ABSENT: Final = inspect.Parameter.empty
OUTPUT: Final = "output"
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_UNREADABLE = (PydanticUserError, schemas.DefaultError, SchemaError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class Read:
    """A function's own parameters, in order, with their resolved annotations; `returns` is `ABSENT` if not stated."""

    name: str
    parameters: Mapping[str, inspect.Parameter]
    returns: Any
    call: str | None

    @property
    def own(self) -> list[str]:
        """The parameters that are not the `Call`."""
        return [name for name in self.parameters if name != self.call]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a tool: their schema, and the way from checked JSON to Python values."""

    model: type[BaseModel]
    fields: Mapping[str, str]
    input_schema: JsonObject
    sensitive: tuple[str, ...]
    checks: bool = True
    """False where the types take everything that fits the schema, as it is."""

    def parse(self, arguments: JsonObject) -> dict[str, Any]:
        """Python values by parameter name, defaults included.

        Raises:
            pydantic.ValidationError: they do not fit after all (a validator of the author's, as a rule).
            ChangedArgumentsError: such a validator changed a value.
        """
        filled = self.model.model_validate_json(json.dumps(arguments), strict=True)
        values = {name: getattr(filled, field) for name, field in self.fields.items()}
        if changed := list(changes(arguments, values)):
            raise ChangedArgumentsError(changed)
        return values


@dataclass(frozen=True, slots=True)
class Returns:
    """What a function gives back; both `None` where any value may come."""

    adapter: TypeAdapter[Any] | None = None
    output_schema: JsonObject | None = None


def read(function: Function, scope: Mapping[str, Any]) -> Read:
    """The function's parameters and return type; `scope` holds the names that are local where it was written.

    Raises:
        ToolDefinitionError: an annotation that cannot be resolved, or parameters that no caller could name.
    """
    name = _name(function)
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise ToolDefinitionError(f"tool {name}: decorate a function, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(f"tool {name}: a generator gives many values and a tool one; return a list")
    hints = _hints(function, name, scope)
    found: dict[str, inspect.Parameter] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _BY_NAME:
            bare = str(parameter.replace(annotation=ABSENT))
            raise ToolDefinitionError(
                f"tool {name}: parameter {bare!r} has no name that a caller could give; write each argument out as "
                "`name: type`"
            )
        found[parameter.name] = parameter.replace(annotation=hints.get(parameter.name, ABSENT))
    return Read(name, found, hints.get("return", ABSENT), _call_parameter(name, found))


def _name(function: Function) -> str:
    return repr(getattr(function, "__qualname__", type(function).__name__))


def _hints(function: Function, name: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, localns=dict(scope), include_extras=True)
    except NameError as error:
        where = next((key for key, text in function.__annotations__.items() if str(error.name) in str(text)), "?")
        raise ToolDefinitionError(f"tool {name}: the annotation of {where!r} names {error.name!r}, which is not "
                                  "defined there; import it at run time (not only under TYPE_CHECKING), above the "
                                  "function") from error  # fmt: skip
    except TypeError as error:
        raise ToolDefinitionError(f"tool {name}: an annotation is no type ({error}); write a type") from error


def _call_parameter(name: str, parameters: Mapping[str, inspect.Parameter]) -> str | None:
    calls = [parameter.name for parameter in parameters.values() if _is_call(parameter.annotation)]
    if len(calls) > 1:
        raise ToolDefinitionError(f"tool {name}: parameters {calls} are all a Call; keep one of them")
    return calls[0] if calls else None


def _is_call(annotation: Any) -> bool:  # noqa: ANN401 (an annotation is any object)
    arms = get_args(annotation) if _is_union(annotation) else (annotation,)
    return Call in arms and all(arm in (Call, type(None)) for arm in arms)


def _is_union(annotation: Any) -> bool:  # noqa: ANN401 (an annotation is any object)
    return get_origin(annotation) in (Union, types.UnionType)


def arguments_of(function: Read) -> Arguments:
    """The arguments of a tool.

    Raises:
        ToolDefinitionError: a parameter without a type, with a type that JSON cannot carry, or with an alias.
    """
    for name in function.own:
        _check_parameter(function, function.parameters[name])
    try:
        model, fields = _model([function.parameters[name] for name in function.own])
        shown = schemas.input_schema(TypeAdapter(model))
        closed = forbid_extra(shown)
    except _UNREADABLE as error:
        _blame(function, error)
    sensitive = tuple(schemas.sensitive_pointers(shown))
    return Arguments(model, fields, closed, sensitive, has_own_checks(model.__pydantic_core_schema__))


def _check_parameter(function: Read, parameter: inspect.Parameter) -> None:
    name = parameter.name
    if parameter.annotation is ABSENT:
        raise ToolDefinitionError(
            f"tool {function.name}: parameter {name!r} has no type; write `{name}: str`, or whatever it is"
        )
    stated = FieldInfo.from_annotated_attribute(parameter.annotation, parameter.default)
    if stated.alias is not None or stated.validation_alias is not None:
        raise ToolDefinitionError(
            f"tool {function.name}: parameter {name!r} has an alias; callers use the parameter's own name, so rename "
            "it and drop the alias"
        )


def _model(parameters: list[inspect.Parameter]) -> tuple[type[BaseModel], dict[str, str]]:
    """A model with a neutral field for each parameter, since a parameter may be called `schema`, `json` or `_x`."""
    fields = {parameter.name: f"argument_{index}" for index, parameter in enumerate(parameters)}
    definitions: dict[str, Any] = {
        fields[p.name]: (Annotated[p.annotation, Field(alias=p.name)], ... if p.default is ABSENT else p.default)
        for p in parameters
    }
    return create_model("Arguments", __config__=ConfigDict(strict=True, extra="forbid"), **definitions), fields


def _blame(function: Read, error: Exception) -> NoReturn:
    """Find the one parameter that cannot be read, and say so."""
    for name in function.own:
        try:
            schemas.input_schema(TypeAdapter(_model([function.parameters[name]])[0]))
        except _UNREADABLE as cause:
            what = "default" if isinstance(cause, schemas.DefaultError) else "type"
            raise ToolDefinitionError(f"tool {function.name}: the {what} of parameter {name!r} cannot be JSON "
                                      f"({_first_line(cause)}); use plain types, models or dataclasses"
                                      ) from error  # fmt: skip
    raise ToolDefinitionError(f"tool {function.name}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].strip().rstrip(".")


def returns_of(function: Read) -> Returns:
    """What a tool or a compensation gives back.

    Raises:
        ToolDefinitionError: a `Probe`, or a type that JSON cannot carry.
    """
    annotation = _output_type(function.returns)
    if annotation is Probe:
        raise ToolDefinitionError(f"tool {function.name}: only a probe returns a Probe; return the tool's own output, "
                                  "or put this function under `@tool_name.probe()`")  # fmt: skip
    if annotation in (ABSENT, Any):
        return Returns()
    try:
        adapter = _adapter(annotation)
        return Returns(adapter, schemas.output_schema(adapter))
    except _UNREADABLE as error:
        raise ToolDefinitionError(f"tool {function.name}: the return type cannot be JSON ({_first_line(error)}); use "
                                  "plain types, models or dataclasses") from error  # fmt: skip


def _output_type(annotation: Any) -> Any:  # noqa: ANN401 (an annotation is any object)
    """`T` of `Outcome[T]`, also inside a union; `Outcome` alone says nothing."""
    if annotation is Outcome:
        return Any
    if get_origin(annotation) is Outcome:
        return get_args(annotation)[0]
    if _is_union(annotation):
        arms = [_output_type(arm) for arm in get_args(annotation)]
        return Any if Any in arms else Union[tuple(arms)]  # noqa: UP007 (made of a tuple)
    return annotation


def _adapter(annotation: Any) -> TypeAdapter[Any]:  # noqa: ANN401 (an annotation is any object)
    return TypeAdapter(cast("Any", Annotated)[annotation, Field()])


@dataclass(frozen=True, slots=True)
class FirstOutput:
    """A compensation's parameter for the output of the call that it undoes."""

    adapter: TypeAdapter[Any]
    default: Any

    def parse(self, extra: Mapping[str, Any]) -> Any:  # noqa: ANN401 (the author's own type)
        """The typed output; the parameter's default where there is none.

        Raises:
            pydantic.ValidationError: the recorded output does not fit the type.
        """
        if extra.get(OUTPUT) is None and self.default is not ABSENT:
            return self.default
        return self.adapter.validate_json(json.dumps(extra.get(OUTPUT)), strict=True, by_alias=True, by_name=True)


def first_output_of(function: Read, arguments: Arguments) -> FirstOutput | None:
    """The compensation's `output` parameter, if it has one.

    Raises:
        ToolDefinitionError: it has no type, a type that JSON cannot carry, or the name of an argument.
    """
    parameter = function.parameters.get(OUTPUT)
    if parameter is None:
        return None
    if OUTPUT in arguments.fields:
        raise ToolDefinitionError(f"compensation {function.name}: 'output' is both an argument of the tool and the "
                                  "first call's output; rename the tool's argument")  # fmt: skip
    if parameter.annotation is ABSENT:
        raise ToolDefinitionError(f"compensation {function.name}: parameter 'output' has no type; write the return "
                                  "type of the tool")  # fmt: skip
    try:
        return FirstOutput(_adapter(parameter.annotation), parameter.default)
    except _UNREADABLE as error:
        raise ToolDefinitionError(f"compensation {function.name}: the type of 'output' cannot be JSON "
                                  f"({_first_line(error)}); write the return type of the tool") from error  # fmt: skip


def check_beside(function: Read, arguments: Arguments, kind: str, also: frozenset[str] = frozenset()) -> None:
    """A probe or compensation takes arguments of its tool and nothing else.

    Raises:
        ToolDefinitionError: it has a parameter that the tool has not.
    """
    for name in function.own:
        if name not in arguments.fields and name not in also:
            raise ToolDefinitionError(f"{kind} {function.name}: parameter {name!r} is no argument of its tool, which "
                                      f"has {sorted(arguments.fields)}; remove it")  # fmt: skip
