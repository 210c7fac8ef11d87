"""The tools that the configuration describes: checked together, registered with hands that send nothing yet.

A secret is resolved when a call is made ready, relative to the configuration's folder, and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...registry.adapter import Adapter
from ...registry.catalogue import Catalogue
from ...registry.contract import ContractError
from ...registry.nearest import nearest
from ...registry.schema import SchemaError
from ...tools.errors import ToolDefinitionError
from ...tools.http.hosts import Hosts
from ...tools.http.message import references
from ...tools.http.outbound import Outbound
from ...tools.http.probe import HttpProbeAdapter
from ...tools.http.spec import HttpProbe
from ...tools.http.tool import HttpAdapter
from ...tools.person import PersonAdapter
from ..config import Configuration, Problem
from ..config.errors import KeyPath
from ..config.tool_tables import ToolPreviewTable
from ..secrets import resolve
from .argument_templates import Shape, Undoing, preview_faults
from .checking import check_tool
from .making import Made, input_schema, made_of, output_schema

Secret: TypeAlias = Callable[[str], str]


def register_http_tools(
    config: Configuration, catalogue: Catalogue, outbound: Outbound, hosts: Hosts | None = None
) -> list[Problem]:
    """Register every described tool that is right by itself, and tell what is wrong with the others.

    `hosts` are those that may be reached, where the client is still to hear of them.
    """
    problems: list[Problem] = []
    secret = secrets_of(config)
    for name, table in config.tools.items():
        found = check_tool(config, name, table, hosts or outbound.hosts)
        if not found:
            try:
                parts = made_of(name, table)
                requests = [made.spec.request for made in parts if made.spec is not None]
                family = sorted({reference for request in requests for reference in references(request)})
                for made in parts:
                    catalogue.register(made.contract, _adapter(made, outbound, secret, family))
            except (ContractError, ToolDefinitionError, SchemaError) as error:
                found = [config.problem(("tools", name), str(error))]
        problems += found
    return problems


def secrets_of(config: Configuration) -> Secret:
    """What a secret reference stands for now; a relative file is relative to the configuration."""
    folder = config.path.parent

    def secret(reference: str) -> str:
        return resolve(reference, folder).reveal()

    return secret


def unfitting(config: Configuration, catalogue: Catalogue) -> list[Problem]:
    """What is wrong between described tools and the others: names that nothing has, arguments that cannot fit."""
    return [problem for name in config.tools for problem in _Between(config, catalogue, name).problems()]


@dataclass(frozen=True, slots=True)
class _Between:
    """One described tool among the others; a described one that could not be registered is not missed."""

    config: Configuration
    catalogue: Catalogue
    name: str

    def problems(self) -> Iterator[Problem]:
        table = self.config.tools[self.name]
        yield from self._preview(table.preview)
        undo = table.compensation
        if undo is None or undo.tool is None:
            return
        if not self._known(undo.tool):
            yield self._missing(("compensation", "tool"), undo.tool)
            return
        first, second = self._shape(self.name), self._shape(undo.tool)
        if first and second:
            for one in Undoing(first, second, undo.arguments).faults():
                yield self._problem(("compensation", *one.path), one.message)

    def _preview(self, stated: ToolPreviewTable | None) -> Iterator[Problem]:
        if stated is None:
            return
        name = stated.tool
        if not self._known(name):
            yield self._missing(("preview",), name)
            return
        entry = self.catalogue.get(name)
        if entry and not entry.contract.is_read:
            effect = entry.contract.gate.effect.value
            yield self._problem(("preview",), f"a preview is a read, and {name} has effect {effect!r}")
        first, second = self._shape(self.name), self._shape(name)
        if first and second:
            for one in preview_faults(first, second, stated.arguments):
                yield self._problem(("preview", *one.path), one.message)

    def _known(self, name: str) -> bool:
        entry = self.catalogue.get(name)
        return name in self.config.tools or (entry is not None and entry.contract.asked_about is None)

    def _shape(self, name: str) -> Shape | None:
        """None where a schema cannot be used, which is told at its own key."""
        table = self.config.tools.get(name)
        if table is None:
            entry = self.catalogue.get(name)
            return Shape.of(entry.contract) if entry else None
        try:
            return Shape(name, input_schema(table), output_schema(table), table.sensitive or ())
        except SchemaError:
            return None

    def _missing(self, below: KeyPath, name: str) -> Problem:
        known = {one.name for one in self.catalogue.contracts() if one.asked_about is None} | set(self.config.tools)
        return self._problem(below, f"no tool is called {name!r}", nearest(name, known))

    def _problem(self, below: KeyPath, message: str, nearest: str | None = None) -> Problem:
        return self.config.problem(("tools", self.name, *below), message, nearest)


def _adapter(made: Made, outbound: Outbound, secret: Secret, family: list[str]) -> Adapter:
    if made.spec is None:
        return PersonAdapter()
    if isinstance(made.spec, HttpProbe):
        return HttpProbeAdapter(made.contract.name, made.spec, outbound, secret, family)
    return HttpAdapter(made.contract.name, made.spec, outbound, secret, is_read=made.contract.is_read, family=family)
