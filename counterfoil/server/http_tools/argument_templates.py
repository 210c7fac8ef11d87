"""Whether the arguments that a compensation, or a preview, makes can fit its tool: names, presence and types.

Each is judged by itself, by what the two schemas say; what cannot be told before a call is left to the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from ...canonical import JsonObject, JsonValue
from ...registry.contract import Contract
from ...registry.filling import Fault, Hole, Scope, TemplateError, faults_in, holes, parse
from ...registry.nearest import nearest
from ...registry.refs import at, local_target
from ...registry.schema import compile_schema
from ..config.errors import KeyPath
from .checking import argument_names, required_names

_SAME: Final = {"integer": "number"}
_HOPS: Final = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """What a tool takes and gives, whether it could be registered or not."""

    name: str
    input: JsonObject
    output: JsonObject | None = None
    sensitive: tuple[str, ...] = ()

    @classmethod
    def of(cls, contract: Contract) -> Shape:
        """That of a registered tool."""
        return cls(contract.name, contract.schemas.input, contract.schemas.output, contract.gate.sensitive)


@dataclass(frozen=True, slots=True)
class Undoing:
    """A tool, the one that undoes it, and the template of the latter's arguments; None: the call's own."""

    first: Shape
    undo: Shape
    template: JsonObject | None

    def faults(self) -> Iterator[Fault]:
        """Every mistake, at key paths below `compensation`."""
        if self.template is None:
            yield from self._own()
            return
        template = self.template
        wrong = list(faults_in(template, Scope(self.first.input, compensation=True), ("arguments",)))
        yield from wrong
        known = argument_names(self.undo.input)
        for name, value in template.items():
            path = ("arguments", name)
            if name not in known:
                near = nearest(name, known)
                hint = f"; did you mean {near}?" if near else f"; it has {', '.join(known) or 'none'}"
                yield Fault(path, f"{self.undo.name} has no such argument{hint}")
            elif not any(fault.path[:2] == path for fault in wrong):
                yield from self._value(name, value, path)
        missing = [name for name in required_names(self.undo.input) if name not in template]
        if missing:
            yield Fault(("arguments",), f"{self.undo.name} needs {', '.join(missing)} too")

    def _own(self) -> Iterator[Fault]:
        """The call's own arguments, where none are stated."""
        theirs, ours = set(argument_names(self.undo.input)), set(argument_names(self.first.input))
        missing = [name for name in required_names(self.undo.input) if name not in ours]
        unknown = sorted(ours - theirs)
        if missing or unknown:
            said = [f"it needs {', '.join(missing)}"] if missing else []
            said += [f"it has no {', '.join(unknown)}"] if unknown else []
            yield Fault(("tool",), f"the call's own arguments do not fit {self.undo.name}: {'; '.join(said)}; "
                                   "state arguments")  # fmt: skip

    def _value(self, name: str, value: JsonValue, path: KeyPath) -> Iterator[Fault]:
        target = _resolved(self.undo.input, _property(self.undo.input, name))
        if not any(True for _ in holes(value)):
            yield from self._literal(name, value, path)
            return
        if not isinstance(value, str):
            return
        hole = _whole(value)
        comes = self._types_of(hole) if hole else {"string"}
        takes = _types(target)
        if comes and takes and not comes & takes:
            yield Fault(path, f"{self.undo.name} takes {_listed(takes)} here, and this gives {_listed(comes)}")
            return
        optional = [one for one in holes(value) if self._may_be_absent(one)]
        if optional and name in required_names(self.undo.input):
            yield Fault(path, f"{self.undo.name} needs it, and {'.'.join(optional[0].path)!r} may be absent")

    def _literal(self, name: str, value: JsonValue, path: KeyPath) -> Iterator[Fault]:
        schema = self.undo.input
        alone: JsonObject = {key: part for key, part in schema.items() if key in {"$defs", "$schema", "definitions"}}
        alone |= {"properties": {name: _property(schema, name)}}
        for problem in compile_schema(alone).problems({name: value}, limit=1, conceal=self.undo.sensitive):
            yield Fault(path, f"{self.undo.name} does not take it: {problem.message}")

    def _types_of(self, hole: Hole) -> set[str]:
        """The types that a placeholder's value can have; empty if nothing is known."""
        match hole.root:
            case "call":
                return {"string"}
            case "output":
                return _types_at(self.first.output or {}, hole.path)
            case "arguments":
                return _types_at(self.first.input, hole.path)

    def _may_be_absent(self, hole: Hole) -> bool:
        schema = self.first.input
        if hole.root != "arguments" or "default" in _resolved(schema, _property(schema, hole.path[0])):
            return False
        return hole.path[0] not in required_names(schema)


def preview_faults(first: Shape, preview: Shape, template: JsonObject | None) -> Iterator[Fault]:
    """What is wrong with the arguments that a preview gets, at key paths below `preview`."""
    if template is not None:
        for name, value in template.items():
            if _names_output(value):
                yield Fault(("arguments", name), "a preview is shown before there is an output")
        yield from Undoing(first, preview, template).faults()
        return
    ours = argument_names(first.input)
    if missing := [name for name in required_names(preview.input) if name not in ours]:
        yield Fault((), f"{preview.name} needs {', '.join(missing)}, which this tool does not take; state arguments")


def _names_output(value: JsonValue) -> bool:
    try:
        return any(hole.root == "output" for hole in holes(value))
    except TemplateError:
        return False  # told as what it is


def _whole(text: str) -> Hole | None:
    """The placeholder of a template that is nothing else, and so keeps its value's type."""
    try:
        pieces = parse(text)
    except TemplateError:
        return None
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], Hole) else None


def _types_at(schema: JsonObject, path: tuple[str, ...]) -> set[str]:
    node = schema
    for step in path:
        node = _resolved(schema, _property(node, step))
    return _types(node)


def _types(schema: JsonObject) -> set[str]:
    """What `type` says, an integer being a number; empty if it says nothing."""
    stated = schema.get("type")
    names = [stated] if isinstance(stated, str) else cast("list[Any]", stated) if isinstance(stated, list) else []
    return {_SAME.get(name, name) for name in names}


def _property(schema: JsonObject, name: str) -> JsonValue:
    properties = schema.get("properties")
    return properties.get(name, True) if isinstance(properties, dict) else True


def _resolved(root: JsonObject, schema: JsonValue) -> JsonObject:
    for _ in range(_HOPS):
        target = local_target(schema.get("$ref")) if isinstance(schema, dict) else None
        if target is None:
            break
        schema = at(root, target)
    return schema if isinstance(schema, dict) else {}


def _listed(types: set[str]) -> str:
    return " or ".join(f"a {name}" if name[0] not in "aeio" else f"an {name}" for name in sorted(types))
