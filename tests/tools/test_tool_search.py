from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, JsonObject
from counterfoil.tools.base import Answer, Asked
from counterfoil.tools.base.search import SCHEMA_BYTES_MAX, summary, tool_search

pytestmark = pytest.mark.anyio
SCHEMA: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


def make_contract(name: str, schema: JsonObject = SCHEMA, output: JsonObject | None = None) -> Contract:
    text = Text(f"The {name}", f"Does {name}.\n\nMore that nobody needs at first.", ("orders",))
    return Contract(name, text, Schemas(schema, output), Gate(Effect.READ, scopes=("orders:read",)))


@dataclass
class OneHit:
    contract: Contract
    score: float = 1.23456
    missing_scopes: tuple[str, ...] = ()


@dataclass
class SomeFound:
    hits: list[OneHit] = field(default_factory=list[OneHit])
    more: int = 0
    unmatched: tuple[str, ...] = ()


@dataclass
class FixedShelf:
    """A shelf that finds the same things whatever is asked, and notes what was."""

    found: SomeFound
    counts: dict[str, int] = field(default_factory=lambda: {"orders": 2, "mail": 1})
    asked: list[tuple[str | None, Sequence[str], str | None, int]] = field(default_factory=list[Any])

    def search(
        self, principal: Principal, *, query: str | None, names: Sequence[str], category: str | None, limit: int
    ) -> SomeFound:
        self.asked.append((query, names, category, limit))
        return self.found

    def categories(self, principal: Principal) -> dict[str, int]:
        return self.counts

    def standing(self, principal: Principal, contract: Contract) -> str:
        return "operator"


async def search(shelf: FixedShelf, principal: Principal, *, show_locked: bool = False, **arguments: Any) -> Any:
    answer: Answer = await tool_search(shelf, show_locked=show_locked).handler(arguments, Asked(principal))
    assert not answer.is_error
    return answer.body


async def test_a_match_says_what_is_needed_to_call_it(principal: Principal) -> None:
    contract = make_contract("order_status", output={"type": "string"})
    shelf = FixedShelf(SomeFound([OneHit(contract)], more=7, unmatched=("zebra",)))
    body = await search(shelf, principal, query="  status of a zebra ")
    assert body == {
        "matches": [
            {
                "name": "order_status",
                "version": "1",
                "title": "The order_status",
                "summary": "Does order_status.",
                "effect": "read",
                "approval": "operator",
                "recovery": "natural",
                "scopes": ["orders:read"],
                "score": 1.235,
                "schema_digest": contract.schema_digest[:8],
                "input_schema": SCHEMA,
                "output_schema": {"type": "string"},
            }
        ],
        "unmatched_terms": ["zebra"],
        "more": 7,
    }
    assert shelf.asked == [("status of a zebra", [], None, 5)]


@pytest.mark.parametrize(("detail", "with_schema"), [("auto", 3), ("brief", 0), ("full", 5)])
async def test_detail_says_how_many_matches_have_their_schemas(
    principal: Principal, detail: str, with_schema: int
) -> None:
    shelf = FixedShelf(SomeFound([OneHit(make_contract(f"t{n}")) for n in range(5)]))
    body = await search(shelf, principal, query="x", detail=detail)
    assert ["input_schema" in match for match in body["matches"]] == [n < with_schema for n in range(5)]


async def test_without_query_and_names_the_categories_are_the_answer(principal: Principal) -> None:
    shelf = FixedShelf(SomeFound())
    nothing: list[dict[str, Any]] = [{}, {"query": "   "}, {"names": []}]
    for arguments in nothing:
        body = await search(shelf, principal, **arguments)
        assert body == {"matches": [], "unmatched_terms": [], "more": 0, "categories": {"mail": 1, "orders": 2}}
    assert shelf.asked == []


async def test_a_category_alone_lists_its_tools(principal: Principal) -> None:
    shelf = FixedShelf(SomeFound([OneHit(make_contract("a"))]))
    body = await search(shelf, principal, category="orders", limit=20)
    assert [match["name"] for match in body["matches"]] == ["a"]
    assert "orders" in body["categories"]
    assert shelf.asked == [(None, [], "orders", 20)]


async def test_exact_names_are_passed_on(principal: Principal) -> None:
    shelf = FixedShelf(SomeFound(unmatched=("b",)))
    body = await search(shelf, principal, names=["a", "b"])
    assert body == {"matches": [], "unmatched_terms": ["b"], "more": 0}
    assert shelf.asked == [(None, ["a", "b"], None, 5)]


async def test_a_tool_that_fails_by_scope_is_shown_only_if_locked_ones_are_and_then_by_name_alone(
    principal: Principal,
) -> None:
    locked = OneHit(make_contract("secret_thing"), missing_scopes=("orders:refund",))
    shelf = FixedShelf(SomeFound([locked]))
    assert (await search(shelf, principal, query="x"))["matches"] == []
    shown = await search(shelf, principal, query="x", show_locked=True)
    assert shown["matches"] == [{"name": "secret_thing", "missing_scopes": ["orders:refund"]}]


async def test_words_that_led_to_a_locked_tool_count_as_unmatched_only_where_it_is_not_shown(
    principal: Principal,
) -> None:
    locked = OneHit(make_contract("secret_things"), missing_scopes=("orders:refund",))
    shelf = FixedShelf(SomeFound([locked], unmatched=("Secret", "zebra")))
    assert (await search(shelf, principal, query="Secret zebra"))["unmatched_terms"] == ["Secret", "zebra"]
    assert (await search(shelf, principal, query="Secret zebra", show_locked=True))["unmatched_terms"] == ["zebra"]
    shelf = FixedShelf(SomeFound([locked], unmatched=("secret_other",)))
    named = await search(shelf, principal, names=["secret_things", "secret_other"], show_locked=True)
    assert named["unmatched_terms"] == ["secret_other"]


async def test_schemas_stop_where_the_answer_would_grow_beyond_its_bound(principal: Principal) -> None:
    large: JsonObject = {"type": "object", "description": "x" * (SCHEMA_BYTES_MAX - 1_000)}
    hits = [OneHit(make_contract("large", large)), OneHit(make_contract("next", large)), OneHit(make_contract("last"))]
    body = await search(FixedShelf(SomeFound(hits)), principal, query="x", detail="full")
    assert [match["name"] for match in body["matches"]] == ["large", "next", "last"]
    assert ["input_schema" in match for match in body["matches"]] == [True, False, True]


async def test_odd_queries_get_a_normal_answer(principal: Principal) -> None:
    shelf = FixedShelf(SomeFound())
    for query in ("(.*[", "注文の状態", "🦓" * 500, "'; drop table"):
        assert (await search(shelf, principal, query=query))["matches"] == []


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("One line.", "One line."),
        ("Two\nlines   joined.\n\nA second paragraph.", "Two lines joined."),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_paragraph_on_one_line(description: str, expected: str) -> None:
    assert summary(description) == expected


@pytest.mark.parametrize("description", ["word " * 60, "x" * 500, "注" * 300])
def test_a_summary_has_at_most_120_characters_and_says_that_it_was_cut(description: str) -> None:
    assert len(summary(description)) <= 120
    assert summary(description).endswith("…")
