"""`tools list|search|show`: the catalogue, for a person."""

from __future__ import annotations

from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from rich.console import Group, RenderableType

from ...registry.contract import Contract
from ...registry.named_plans import Offer
from ...tools.base.search import summary as in_a_line
from . import render, stored, tool_card
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
        **({"manual": True} if contract.gate.manual else {}),
    }


def summaries(app: Tools) -> list[dict[str, Any]]:
    """Every listed tool, by name."""
    return [_seen(app, contract) for contract in app.catalogue.contracts() if contract.asked_about is None]


def _seen(app: Tools, contract: Contract) -> dict[str, Any]:
    return summary(contract, app.policy.standing(contract, app.local))


def _found(app: Tools, one: Contract | Offer) -> dict[str, Any]:
    return stored.summary(one) if isinstance(one, Offer) else _seen(app, one)


def show_all(invocation: Invocation) -> int:
    """List the tools."""

    def use(app: Tools) -> dict[str, Any]:
        return {"tools": summaries(app), "plans": stored.summaries(app)}

    listed = with_tools(invocation, use)
    Screen.of(invocation).answer(listed, Group(render.tools_table(listed["tools"]), *stored.section(listed["plans"])))
    return Exit.DONE


def search(invocation: Invocation, query: str, limit: int) -> int:
    """Search as `tool_search` does."""

    def use(app: Tools) -> dict[str, Any]:
        found = app.shelf.search(app.local, query=query, names=(), category=None, limit=limit)
        matches = [
            {
                **_found(app, hit.contract),
                "summary": in_a_line(hit.contract.text.description),
                "score": round(hit.score, 3),
            }
            for hit in found.hits
            if not hit.missing_scopes
        ]
        return {"matches": matches, "unmatched_terms": list(found.unmatched), "more": found.more}

    found = with_tools(invocation, use)
    shown = tool_card.found(found["matches"], found["unmatched_terms"], found["more"])
    Screen.of(invocation).answer(found, shown)
    return Exit.DONE if found["matches"] else Exit.NO


def show(invocation: Invocation, name: str) -> int:
    """Show one contract, or one stored plan."""

    def use(app: Tools) -> tuple[dict[str, Any], RenderableType]:
        plan = app.catalogue.plan(name)
        if plan is not None:
            told = stored.details(app, plan)
            return told, stored.card(told)
        contract = contract_of(app, name)
        shown = {**_seen(app, contract), **_details(contract)}
        return shown, tool_card.card(shown)

    Screen.of(invocation).answer(*with_tools(invocation, use))
    return Exit.DONE


def contract_of(app: Tools, name: str) -> Contract:
    """The contract that unpinned calls of this name take.

    Raises:
        CommandError: no tool has the name; close ones are told.
    """
    entry = app.catalogue.get(name)
    if entry is None:
        near = get_close_matches(name, app.catalogue.names(), 1)
        hint = f"did you mean {near[0]}?" if near else "see: counterfoil tools list"
        raise CommandError(Exit.NO, "unknown_tool", f"no tool is called {name!r}; {hint}")
    return entry.contract


def _details(contract: Contract) -> dict[str, Any]:
    gate, limits, recovery = contract.gate, contract.limits, contract.recovery
    return {
        "description": contract.text.description,
        "open_world": gate.open_world,
        "contract_approval": gate.approval,
        "visibility": gate.visibility,
        "idempotency": recovery.idempotency,
        "key_retention_s": recovery.key_retention_s,
        "probe": recovery.probe,
        "settle_s": recovery.settle_s,
        "compensation": recovery.compensation,
        "compensation_arguments": recovery.compensation_arguments,
        "resources": ["(a function of the arguments)"] if callable(gate.resources) else list(gate.resources),
        "sensitive": list(gate.sensitive),
        "timeout_s": limits.timeout_s,
        "retry": asdict(contract.retry),
        "concurrency": limits.concurrency,
        "rate": None if limits.rate is None else asdict(limits.rate),
        "pool": limits.pool,
        "cost": limits.cost,
        "input_schema": contract.schemas.input,
        "output_schema": contract.schemas.output,
    }
