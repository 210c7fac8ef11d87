"""Stored plans for a person: beside the tools, and one of them in full; from what a model is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...visible import visible
from . import render
from .documents import steps_of

if TYPE_CHECKING:
    from ...registry.named_plans import NamedPlan, Offer
    from .answer import View
    from .ports import Tools


def summary(offer: Offer) -> dict[str, Any]:
    """One line of the catalogue, as a program reads it; a stored plan has no version."""
    return {
        "name": offer.name,
        "version": None,
        "title": offer.title,
        "effect": offer.effect,
        "approval": offer.approval,
        "recovery": offer.recovery,
        "scopes": list(offer.scopes),
        "tags": list(offer.text.tags),
        "schema_digest": offer.digest,
    }


def summaries(app: Tools) -> list[dict[str, Any]]:
    """Every stored plan, by name."""
    return [summary(app.catalogue.offer(plan, app.local, app.policy)) for plan in app.catalogue.plans()]


def details(app: Tools, plan: NamedPlan) -> dict[str, Any]:
    """One of them in full."""
    steps = [{"id": step.get("id"), "tool": step.get("tool")} for step in steps_of(plan.document)]
    return {
        **summary(app.catalogue.offer(plan, app.local, app.policy)),
        "description": plan.text.description,
        "steps": steps,
        "input_schema": plan.takes.schema,
    }


def section(plans: Sequence[View]) -> Iterator[RenderableType]:
    """The table below that of the tools, where there are any."""
    if not plans:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("stored plan", "effect", "approval", "recovery", "digest"):
        table.add_column(heading, overflow="fold")
    for plan in plans:
        names = ("name", "effect", "approval", "recovery", "schema_digest")
        table.add_row(*(render.word(plan.get(name)) for name in names))
    yield from (Text(""), table)


def card(plan: View) -> RenderableType:
    """One stored plan, whole."""
    told: list[RenderableType] = [Text(visible(str(plan["name"])), style="bold")]
    told += [Text(visible(line)) for line in str(plan["description"]).splitlines()]
    steps = ", ".join(f"{step['id']} ({step['tool']})" for step in plan["steps"])
    shown = ("effect", "approval", "recovery", "schema_digest")
    facts = [("steps", steps), *((name, plan[name]) for name in shown)]
    facts += [("scopes", ", ".join(plan["scopes"]) or None), ("tags", ", ".join(plan["tags"]) or None)]
    facts += [("run it with", f"counterfoil run {plan['name']}")]
    return Group(*told, Text(""), render.facts(facts), Text("\ninput", style="dim"), render.data(plan["input_schema"]))
