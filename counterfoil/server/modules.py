"""The tools written in Python: modules are imported at start, and what they decorated is registered."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from ..registry.catalogue import Catalogue
from ..registry.contract import ContractError
from ..tools.decorator import tools_of
from ..tools.errors import ToolDefinitionError
from ..tools.threads import Threads
from .config import Configuration, Problem


def register_modules(config: Configuration, catalogue: Catalogue) -> list[Problem]:
    """Import the configured modules, register their tools, probes and compensations, and tell what is wrong."""
    for folder in reversed(config.python_path):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    threads = Threads(config.limits.blocking_threads)
    problems: list[Problem] = []
    for index, name in enumerate(config.python.modules):
        try:
            _register(_import(name), catalogue, threads)
        except _UnusableModuleError as error:
            problems.append(config.problem(("python", "modules", index), str(error)))
    return problems


class _UnusableModuleError(Exception):
    """Why a module cannot be used."""


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ToolDefinitionError as error:
        raise _UnusableModuleError(f"{name}: {error}") from None
    except Exception as error:
        raise _UnusableModuleError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _register(module: ModuleType, catalogue: Catalogue, threads: Threads) -> None:
    try:
        for tool in tools_of(module):
            for contract, adapter in tool.registrations(threads):
                catalogue.register(contract, adapter)
    except (ContractError, ToolDefinitionError) as error:
        raise _UnusableModuleError(f"{module.__name__}: {error}") from None
