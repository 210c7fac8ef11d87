"""A tool as a person reads it: effect, who must agree, what follows a lost answer, limits. From its wire form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ...visible import visible
from . import render
from .answer import View, part

BY_A_PERSON: Final = "a person, outside, who settles it by what they say: counterfoil reconcile"


def card(tool: View) -> RenderableType:
    """One tool, whole."""
    told: list[RenderableType] = [Text(visible(f"{tool['name']} {tool['version']}"), style="bold")]
    told += [Text(visible(line)) for line in str(tool["description"]).splitlines()]
    told += [Text(""), render.facts((name, value or None) for name, value in _facts(tool))]
    for name in ("input_schema", "output_schema"):
        told += [Text(f"\n{name}", style="dim"), render.data(tool[name])]
    return Group(*told)


def found(matches: Iterable[View], unmatched: Iterable[str], more: int) -> RenderableType:
    """What a search found: a line of facts for each, and its summary below."""
    told: list[RenderableType] = []
    for tool in matches:
        head = Text(visible(str(tool["name"])), style="bold")
        for name in ("effect", "approval", "recovery", "schema_digest"):
            head.append(f"  {name.replace('schema_', '')} ", style="dim").append_text(render.word(tool[name]))
        if tool.get("manual"):
            head.append("  a person performs it", style="yellow")
        told += [head, Text(f"  {visible(str(tool['summary']))}")]
        if tool["version"] is None:  # a stored plan
            told.append(Text(f"  {visible(str(tool['title']))}", style="dim"))
    if not told:
        told = [Text("Nothing fits.")]
    words = ", ".join(unmatched)
    if words:
        told.append(Text(visible(f"No tool knows: {words}"), style="dim"))
    if words and not matches:
        told.append(Text("A search matches words: put those that people use into a tool's description or tags."))
    if more:
        told.append(Text(f"and {more} more; --limit shows them", style="dim"))
    return Group(*told)


def _facts(tool: View) -> Iterator[tuple[str, object]]:
    yield "title", tool["title"] if tool["title"] != tool["name"] else None
    yield "tags", _listed(tool["tags"])
    yield "effect", f"{tool['effect']}, {'open' if tool['open_world'] else 'closed'} world"
    yield "approval", f"{tool['approval']}; see: counterfoil policy explain {tool['name']}"
    yield "contract asks", _unless(tool["contract_approval"], "none")
    yield "scopes", _listed(tool["scopes"])
    yield "holds", _listed(tool["resources"])
    yield "sensitive", _listed(tool["sensitive"])
    if tool.get("manual"):
        yield "performed by", BY_A_PERSON
    else:
        yield "if its answer is lost", _recovery(tool)
    yield "undone by", tool["compensation"] or ("nothing" if tool["effect"] != "read" else None)
    yield "undone with", json.dumps(made, ensure_ascii=False) if (made := tool["compensation_arguments"]) else None
    if not tool.get("manual"):
        yield "time", _time(tool["timeout_s"], part(tool, "retry"))
    yield "at once", _at_once(tool)
    yield "cost", tool["cost"]
    yield "visibility", tool["visibility"]
    yield "digest", tool["schema_digest"]


def _recovery(tool: View) -> str:
    said = f"{tool['recovery']}: {render.RECOVERIES[str(tool['recovery'])]}"
    if tool["probe"]:
        said += f" ({tool['probe']})"
    if tool["idempotency"] == "keyed":
        said += f"; keyed, its key is honoured for {tool['key_retention_s']:g} s"
    if tool["settle_s"] is not None:
        said += f"; what is absent {tool['settle_s']:g} s after its deadline did not happen"
    return said


def _time(timeout_s: float, retry: View) -> str:
    count = retry["attempts"]
    if count == 1:
        return f"one attempt of at most {timeout_s:g} s"
    return f"{count} attempts of at most {timeout_s:g} s, {retry['backoff_s']:g} s between them at first"


def _at_once(tool: View) -> str:
    stated = {
        "calls": tool["concurrency"],
        "rate": f"{tool['rate']['count']} in {tool['rate']['per_s']:g} s" if tool["rate"] else None,
        "pool": tool["pool"],
    }
    return ", ".join(f"{name} {value}" for name, value in stated.items() if value is not None)


def _listed(words: Iterable[object]) -> str:
    return ", ".join(map(str, words))


def _unless(value: object, usual: str) -> object:
    return None if value == usual else value
