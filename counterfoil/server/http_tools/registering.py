"""The tools that the configuration describes: checked together, registered with hands that send nothing yet.

A secret is resolved when a call is made ready, relative to the configuration's folder, and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...registry.adapter import Adapter
from ...registry.catalogue import Catalogue
from ...registry.contract import Contract, ContractError
from ...registry.schema import SchemaError
from ...tools.errors import ToolDefinitionError
from ...tools.http.outbound import Outbound
from ...tools.http.probe import HttpProbeAdapter
from ...tools.http.spec import HttpProbe
from ...tools.http.tool import HttpAdapter
from ..config import Configuration, Problem
from ..secrets import resolve
from .checking import check_tool, nearest_of
from .making import Made, made_of
from .undoing import Undoing

Secret: TypeAlias = Callable[[str], str]


def register_http_tools(config: Configuration, catalogue: Catalogue, outbound: Outbound) -> list[Problem]:
    """Register every described tool that is right by itself, and tell what is wrong with the others."""
    problems: list[Problem] = []
    secret = secrets_of(config)
    for name, table in config.tools.items():
        found = check_tool(config, name, table, outbound.hosts)
        if not found:
            try:
                for made in made_of(name, table):
                    catalogue.register(made.contract, _adapter(made, outbound, secret))
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
    """What is wrong between described tools and the others: names that nothing has, arguments that cannot fit.

    A tool that could not be registered says why itself, and is not missed here.
    """
    problems: list[Problem] = []
    for contract in catalogue.contracts():
        if contract.name in config.tools and contract.asked_about is None:
            problems += _named(config, catalogue, contract)
    return problems


def _named(config: Configuration, catalogue: Catalogue, contract: Contract) -> list[Problem]:
    table, path = config.tools[contract.name], ("tools", contract.name)
    problems: list[Problem] = []
    preview = catalogue.get(table.preview) if table.preview else None
    if table.preview and preview is None:
        problems += _missing(config, catalogue, (*path, "preview"), table.preview)
    elif preview and not preview.contract.is_read:
        text = f"a preview is a read, and {table.preview} has effect {preview.contract.gate.effect.value!r}"
        problems.append(config.problem((*path, "preview"), text))
    undo = table.compensation.tool if table.compensation else None
    if undo is None:
        return problems
    entry = catalogue.get(undo)
    if entry is None:
        return problems + _missing(config, catalogue, (*path, "compensation", "tool"), undo)
    faults = Undoing(contract, entry.contract).faults()
    return problems + [config.problem((*path, "compensation", *one.path), one.message) for one in faults]


def _missing(config: Configuration, catalogue: Catalogue, path: tuple[str, ...], name: str) -> list[Problem]:
    if name in config.tools:
        return []
    known = {one.name for one in catalogue.contracts() if one.asked_about is None} | set(config.tools)
    return [config.problem(path, f"no tool is called {name!r}", nearest_of(name, known))]


def _adapter(made: Made, outbound: Outbound, secret: Secret) -> Adapter:
    if isinstance(made.spec, HttpProbe):
        return HttpProbeAdapter(made.contract.name, made.spec, outbound, secret)
    return HttpAdapter(made.contract.name, made.spec, outbound, secret)
