"""`tool_search`: how a model finds a tool, its schema and the digest that a call has to show; stored plans beside them.

It only looks at the catalogue through a `Shelf`; what a principal may not see is decided there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from ...canonical import JsonObject, JsonValue, canonical
from ...registry.contract import Contract
from ...registry.named_plans import Offer
from ...registry.principal import Principal
from ...registry.search import QUERY_CHARS
from ...registry.stemming import terms
from . import schemas
from .answer import Answer, Asked
from .shelf import Hit, Shelf
from .spec import Annotations, BaseTool, checked

SUMMARY_MAX: Final = 120
FULL_IN_AUTO: Final = 3
SCHEMA_BYTES_MAX: Final = 64_000
CATEGORIES_MAX: Final = 200

_DESCRIPTION = (
    "Find the tools behind this server; most are not listed. Say the need in a few plain words. Matches show effect "
    "(read, write, destructive), approval needed and schema_digest, the best three their schemas. Call a read with "
    "tool_read, else tool_call with schema_digest. Nothing fits: try other words once. No query and names: categories."
)
_INPUT: Final = schemas.arguments(
    query=schemas.text("e.g. refund an order", QUERY_CHARS),
    names={"type": "array", "items": schemas.STRING, "maxItems": schemas.NAMES_MAX},
    category=schemas.STRING,
    limit={"type": "integer", "minimum": 1, "maximum": schemas.LIMIT_MAX, "default": 5},
    detail={**schemas.choice("auto", "brief", "full"), "default": "auto"},
)


def tool_search(shelf: Shelf, *, show_locked: bool = False) -> BaseTool:
    """The search over this catalogue; `show_locked` names tools that fail only by scope."""
    return BaseTool(
        "tool_search",
        "Search tools",
        _DESCRIPTION,
        _INPUT,
        schemas.answer(matches="array", unmatched_terms="array", more="integer", categories="object"),
        Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
        checked(_INPUT, partial(_search, shelf, show_locked)),
    )


async def _search(shelf: Shelf, show_locked: bool, arguments: JsonObject, asked: Asked) -> Answer:  # noqa: FBT001 (bound)
    query = _words(arguments.get("query"))
    names = cast("list[str]", arguments.get("names") or [])
    category = cast("str | None", arguments.get("category"))
    body: JsonObject = {"matches": [], "unmatched_terms": [], "more": 0}
    if not query and not names:
        body["categories"] = _categories(shelf, asked.principal)
    if query or names or category:
        limit = cast("int", arguments["limit"])
        found = shelf.search(asked.principal, query=query, names=names, category=category, limit=limit)
        hits = [hit for hit in found.hits if show_locked or not hit.missing_scopes]
        body["matches"] = _matches(shelf, asked.principal, hits, cast("str", arguments["detail"]))
        body["unmatched_terms"] = list(found.unmatched) if names else _unmatched(found.unmatched, hits)
        body["more"] = found.more
    return Answer(body)


def _unmatched(words: Sequence[str], hits: list[Hit]) -> list[JsonValue]:
    """The words that led to nothing shown: a locked tool is found by those of its name alone."""
    named = {term for hit in hits if hit.missing_scopes for term in terms(hit.contract.name)}
    return [word for word in words if not named.intersection(terms(word))]


def _words(query: JsonValue) -> str | None:
    return query.strip() or None if isinstance(query, str) else None


def _categories(shelf: Shelf, principal: Principal) -> JsonObject:
    """The largest categories, by name."""
    counts = shelf.categories(principal)
    largest = sorted(counts, key=lambda name: (-counts[name], name))[:CATEGORIES_MAX]
    return {name: counts[name] for name in sorted(largest)}


def _matches(shelf: Shelf, principal: Principal, hits: list[Hit], detail: str) -> list[JsonValue]:
    full = {"auto": FULL_IN_AUTO, "brief": 0, "full": len(hits)}[detail]
    room = SCHEMA_BYTES_MAX
    matches: list[JsonValue] = []
    for place, hit in enumerate(hits):
        match = _brief(hit, shelf, principal)
        if place < full and not hit.missing_scopes:
            schemas_of = _schemas(hit)
            size = len(canonical(schemas_of))
            if size <= room:
                room -= size
                match.update(schemas_of)
        matches.append(match)
    return matches


def _brief(hit: Hit, shelf: Shelf, principal: Principal) -> JsonObject:
    found = hit.contract
    if hit.missing_scopes:
        return {"name": found.name, "missing_scopes": list(hit.missing_scopes)}
    if isinstance(found, Offer):
        return _of_plan(found, hit.score)
    return _of_tool(found, hit.score, shelf.standing(principal, found))


def _of_tool(contract: Contract, score: float, standing: str) -> JsonObject:
    return {
        "name": contract.name,
        "version": contract.version,
        "title": contract.text.title,
        "summary": summary(contract.text.description),
        "effect": contract.gate.effect,
        "approval": standing,
        "recovery": contract.recovery_class,
        "scopes": list(contract.gate.scopes),
        "score": round(score, 3),
        "schema_digest": contract.short_digest,
        **({"manual": True} if contract.gate.manual else {}),  # a person performs it
    }


def _of_plan(offer: Offer, score: float) -> JsonObject:
    """A stored plan has no version; its digest names it with its tools, as they were when it was read."""
    return {
        "name": offer.name,
        "version": None,
        "title": offer.title,
        "summary": summary(offer.text.description),
        "effect": offer.effect,
        "approval": offer.approval,
        "recovery": offer.recovery,
        "scopes": list(offer.scopes),
        "score": round(score, 3),
        "schema_digest": offer.digest,
    }


def _schemas(hit: Hit) -> JsonObject:
    if isinstance(hit.contract, Offer):
        return {"input_schema": hit.contract.input_schema}
    declared = hit.contract.schemas
    return {"input_schema": declared.input, **({"output_schema": declared.output} if declared.output else {})}


def summary(description: str) -> str:
    """The description's first paragraph on one line, cut at a word if it is long."""
    line = " ".join(description.strip().split("\n\n")[0].split())
    if len(line) <= SUMMARY_MAX:
        return line
    cut = line[: SUMMARY_MAX - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[SUMMARY_MAX // 2 :] else cut).rstrip(",;:. ") + "…"
