"""`@tool`: a typed function and its contract, its probe and its compensation, kept together.

The decorated object is still the function: calling it calls it. Nothing is registered anywhere by decorating;
whoever composes an application asks a module for its tools.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

from ..registry.adapter import Adapter
from ..registry.contract import MANUAL_ALONE, Contract
from ..registry.outcome import Probe
from . import signature
from .errors import ToolDefinitionError
from .fields import BesideFields, Fields, check_known, contract_of
from .functions import FunctionAdapter, Handler
from .person import PersonAdapter
from .signature import ABSENT, Function, Read
from .threads import Threads

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Part:
    """A contract that can be made, and the function behind it; `secret` are arguments that stay sensitive whatever."""

    owner: str
    stated: Mapping[str, Any]
    handler: Handler
    returns: signature.Returns
    secret: tuple[str, ...]

    def contract(self, **more: str) -> Contract:
        """What is stated and what the function says, with the names of what follows it up."""
        stated = {**self.stated, **more}
        schemas = self.handler.arguments.input_schema, self.returns.output_schema
        return contract_of(self.owner, stated, *schemas, self.secret)


class Tool(Generic[P, R]):
    """A function that is a tool. Call it as the function it is; `probe` and `compensation` add what follows it up."""

    def __init__(self, function: Callable[P, R], fields: Fields, scope: Mapping[str, Any]) -> None:
        self._function = function
        self._main = _main(function, fields, scope)
        self._probe: _Part | None = None
        self._undo: _Part | None = None
        self._main.contract()
        update_wrapper(cast("Callable[..., Any]", self), function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it were not decorated; nothing is governed or recorded."""
        return self._function(*args, **kwargs)

    @property
    def contract(self) -> Contract:
        """The tool's own contract, as it stands with the probe and compensation added so far."""
        more: dict[str, str] = {}
        if self._probe is not None:
            more["probe"] = self._probe.stated["name"]
        if self._undo is not None:
            more["compensation"] = self._undo.stated["name"]
        return self._main.contract(**more)

    def probe(self, **fields: Unpack[BesideFields]) -> Callable[[F], F]:
        """Make the function below the probe of this tool: `NAME__probe`, effect `read`, the tool's own arguments.

        Raises:
            ToolDefinitionError: as `tool`, or if there is a probe already.
        """

        def add(function: F) -> F:
            self._refuse_second(self._probe, "probe")
            if self.contract.gate.manual:
                raise ToolDefinitionError(f"{self._main.owner}: probe: {MANUAL_ALONE}")
            self._probe = self._beside_probe(function, fields)
            return function

        return add

    def compensation(self, **fields: Unpack[BesideFields]) -> Callable[[F], F]:
        """Make the function below the undoing of this tool: `NAME__undo`, the tool's effect, scopes and resources.

        Raises:
            ToolDefinitionError: as `tool`, or if there is a compensation already.
        """

        def add(function: F) -> F:
            self._refuse_second(self._undo, "compensation")
            self._undo = self._beside_undo(function, fields)
            return function

        return add

    def registrations(self, threads: Threads | None = None) -> list[tuple[Contract, Adapter]]:
        """Contract and a fresh adapter of the tool, its probe and its compensation; `threads` runs blocking ones."""
        shared = threads or Threads()
        contract, hands = self.contract, FunctionAdapter(self._main.handler, shared)
        main: Adapter = PersonAdapter(hands.problems) if contract.gate.manual else hands
        made: list[tuple[Contract, Adapter]] = [(contract, main)]
        beside = [part for part in (self._probe, self._undo) if part is not None]
        made.extend((part.contract(), FunctionAdapter(part.handler, shared)) for part in beside)
        return made

    def _refuse_second(self, part: _Part | None, kind: str) -> None:
        if part is not None:
            raise ToolDefinitionError(f"{self._main.owner} has a {kind} already ({part.owner}); keep one")

    def _beside_probe(self, function: Function, fields: BesideFields) -> _Part:
        found = signature.read(function, _local_names(2))
        owner = f"probe {found.name}"
        signature.check_beside(found, self._main.handler.arguments, "probe")
        if found.returns not in (ABSENT, Any, Probe):
            raise ToolDefinitionError(
                f"{owner}: returns {found.returns!r}; a probe returns a Probe, so write `-> Probe`"
            )
        handler = self._handler(function, found, is_probe=True, return_type=self._main.returns.adapter)
        return self._part(owner, {"effect": "read", **_checked(owner, fields)}, handler, signature.Returns())

    def _beside_undo(self, function: Function, fields: BesideFields) -> _Part:
        found = signature.read(function, _local_names(2))
        owner = f"compensation {found.name}"
        arguments = self._main.handler.arguments
        signature.check_beside(found, arguments, "compensation", frozenset({signature.OUTPUT}))
        output = signature.first_output_of(found, arguments)
        returns = signature.returns_of(found)
        handler = self._handler(function, found, first_output=output, return_type=returns.adapter)
        inherited = {key: self._main.stated.get(key) for key in ("effect", "scopes", "resources")}
        return self._part(owner, {**inherited, **_checked(owner, fields)}, handler, returns)

    def _handler(self, function: Function, found: Read, **more: Any) -> Handler:  # noqa: ANN401 (fields of Handler)
        arguments = self._main.handler.arguments
        takes = tuple(name for name in found.own if name in arguments.fields)
        return Handler(found.name, function, arguments, takes, found.call, **more)

    def _part(self, owner: str, stated: Mapping[str, Any], handler: Handler,
              returns: signature.Returns) -> _Part:  # fmt: skip
        main = self._main.stated
        ending, of = ("__probe", "Probe of") if handler.is_probe else ("__undo", "Undo of")
        naming = {"name": main["name"] + ending, "version": main.get("version"), "visibility": "hidden",
                  "asked_about": main["name"]}  # fmt: skip
        usual = {"title": f"{of} {main['name']}", "description": inspect.getdoc(handler.function),
                 "open_world": main.get("open_world")}  # fmt: skip
        part = _Part(owner, {**usual, **stated, **naming}, handler, returns, self.contract.gate.sensitive)
        part.contract()
        return part


def tool(**fields: Unpack[Fields]) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Make the typed function below a tool; the keywords are its contract (`effect` must be stated).

    Arguments and output follow from the type hints, strictly. A parameter annotated `Call` is handed in, not asked for.
    With `manual=True` a person performs it: the function says what it takes and gives, and its body, which is never
    run, is `...`.

    Raises:
        ToolDefinitionError: while decorating; the message names the function, the parameter or field, and the cure.
    """

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, fields, _local_names(1))

    return decorate


def tools_of(module: ModuleType) -> list[Tool[..., Any]]:
    """The tools that a module has by name, each once, in the order of its definitions."""
    tools = [cast("Tool[..., Any]", value) for value in vars(module).values() if isinstance(value, Tool)]
    return list({id(tool): tool for tool in tools}.values())


def _local_names(above: int) -> dict[str, Any]:
    """The names where the decorated function is written: its string annotations may use a function's local types."""
    frame = inspect.currentframe()
    for _ in range(above + 1):
        frame = frame.f_back if frame is not None else None
    return dict(frame.f_locals) if frame is not None else {}


def _checked(owner: str, fields: BesideFields) -> dict[str, Any]:
    check_known(owner, fields, BesideFields)
    return {key: value for key, value in fields.items() if value is not None}


def _main(function: Function, fields: Fields, scope: Mapping[str, Any]) -> _Part:
    found = signature.read(function, scope)
    owner = f"tool {found.name}"
    check_known(owner, fields, Fields)
    if fields.get("effect") is None:
        raise ToolDefinitionError(f"{owner}: state what it does to the world: effect='read', 'write' or 'destructive'")
    arguments, returns = signature.arguments_of(found), signature.returns_of(found)
    usual = {"name": function.__name__, "description": inspect.getdoc(function)}
    stated = {**usual, **{key: value for key, value in fields.items() if value is not None}}
    handler = Handler(found.name, function, arguments, tuple(found.own), found.call, return_type=returns.adapter)
    return _Part(owner, stated, handler, returns, arguments.sensitive)
