"""`tools list|search|show`: the catalogue, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rich.console import Group
from rich.text import Text

from ...registry.contract import Contract
from . import render
from .doors import with_tools
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import Tools
from .screen import Screen


def summary(contract: Contract, approval: str) -> dict[str, Any]:
    """One line of the catalogue, as a program reads it."""
    return {
        "name": contract.name,
        "version": contract.version,
        "title": contract.text.title,
        "effect": contract.gate.effect,
        "approval": approval,
        "recovery": contract.recovery_class,
        "scopes": list(contract.gate.scopes),
        "tags": list(contract.text.tags),
        "schema_digest": contract.short_digest,
    }


def summaries(app: Tools) -> list[dict[str, Any]]:
    """Every listed tool, by name."""
    return [_seen(app, contract) for contract in app.catalogue.contracts() if contract.asked_about is None]


def _seen(app: Tools, contract: Contract) -> dict[str, Any]:
    return summary(contract, app.policy.standing(contract, app.local))


def show_all(invocation: Invocation) -> int:
    """List the tools."""

    def use(app: Tools) -> list[dict[str, Any]]:
        return summaries(app)

    listed = with_tools(invocation, use)
    Screen.of(invocation).answer({"tools": listed}, render.tools_table(listed))
    return Exit.DONE


def search(invocation: Invocation, query: str, limit: int) -> int:
    """Search as `tool_search` does."""

    def use(app: Tools) -> Mapping[str, Any]:
        found = app.shelf.search(app.local, query=query, names=(), category=None, limit=limit)
        matches = [
            {**_seen(app, hit.contract), "score": round(hit.score, 3)} for hit in found.hits if not hit.missing_scopes
        ]
        return {"matches": matches, "unmatched_terms": list(found.unmatched), "more": found.more}

    found = with_tools(invocation, use)
    shown = render.tools_table(found["matches"]) if found["matches"] else Text("Nothing fits.")
    Screen.of(invocation).answer(found, shown)
    return Exit.DONE if found["matches"] else Exit.NO


def show(invocation: Invocation, name: str) -> int:
    """Show one contract."""

    def use(app: Tools) -> dict[str, Any]:
        entry = app.catalogue.get(name)
        if entry is None:
            raise CommandError(Exit.NO, "unknown_tool", f"no tool is called {name!r}; see: counterfoil tools list")
        return {**_seen(app, entry.contract), **_details(entry.contract)}

    shown = with_tools(invocation, use)
    schemas = ("input_schema", "output_schema")
    parts = [render.facts((field, _line(value)) for field, value in shown.items() if field not in schemas)]
    bodies = [part for field in schemas for part in (Text(f"\n{field}", style="dim"), render.data(shown[field]))]
    Screen.of(invocation).answer(shown, Group(*parts, *bodies))
    return Exit.DONE


def _details(contract: Contract) -> dict[str, Any]:
    resources = contract.gate.resources
    return {
        "description": contract.text.description,
        "open_world": contract.gate.open_world,
        "idempotency": contract.recovery.idempotency,
        "probe": contract.recovery.probe,
        "settle_s": contract.recovery.settle_s,
        "compensation": contract.recovery.compensation,
        "resources": ["(a function of the arguments)"] if callable(resources) else list(resources),
        "sensitive": list(contract.gate.sensitive),
        "timeout_s": contract.limits.timeout_s,
        "retry": {"attempts": contract.retry.attempts, "backoff_s": contract.retry.backoff_s},
        "input_schema": contract.schemas.input,
        "output_schema": contract.schemas.output,
    }


def _line(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value))) or None
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in cast("dict[str, object]", value).items())
    return value
