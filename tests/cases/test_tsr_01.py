"""TSR-01: what the search shows is enough to call, and what was not searched for is refused in words that help."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pytest

from tests.kit.seat import DIGEST_META, Seat, View, seated
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
Mode: TypeAlias = Literal["auto", "legacy"]
MODES: Final[tuple[Mode, ...]] = ("auto", "legacy")
MODULE: Final = '''
"""Fifty tools that nobody lists."""
from typing import Any
from counterfoil import tool
from tests.kit.world import World

def made(number: int) -> Any:
    async def depot(item: str, shelf: int = 1, tags: list[str] | None = None) -> dict[str, Any]:
        if number % 2:
            World.here().append(f"depot{number}", shelf=shelf)
        return {"depot": number, "item": item, "shelf": shelf}
    effect = "write" if number % 2 else "read"
    text = f"Put an item on a shelf of depot {number}." if number % 2 else f"Look for an item in depot {number}."
    return tool(name=f"depot_{number:02}", effect=effect, open_world=False, tags=["depot"], description=text)(depot)

for number in range(50):
    globals()[f"depot_{number:02}"] = made(number)
'''
PROPERTIES: Final[dict[str, Any]] = {
    "item": {"type": "string"},
    "shelf": {"default": 1, "type": "integer"},
    "tags": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}], "default": None},
}
ODD: Final = [
    "", "   ", "depot " * 330, "x" * 10_000, "word " * 2_000, " ".join(f"depot{n} q{n}" for n in range(900)),
    "仓" * 10_000,
    "(a+)+$ [z-a] \\d{9,} .*", "^(?:.*a){40}$" * 700, "在仓库里找一件物品", "\u202edepot 17\u202c", "e\u0301" * 5_000,
    "📦🔎👩‍👩‍👧‍👦", "depot\x00 17", "' OR 1=1 --",
    "\uff24\uff25\uff30\uff2f\uff34 17",
]  # fmt: skip


def stocked(folder: Path) -> Workshop:
    """A workshop with the fifty tools; the module's name is the folder's own, since modules are imported once."""
    name = f"depots_of_{abs(hash(folder)):x}"
    (folder / f"{name}.py").write_text(MODULE)
    python = f'modules = ["{name}"]\npath = ["{folder}"]'
    return Workshop.new(folder, head={"server": 'visibility = "deferred"', "python": python})


@asynccontextmanager
async def depots(folder: Path, mode: Mode) -> AsyncGenerator[tuple[Seat, Workshop]]:
    """A real client, in one era or the other, of a real server with the fifty tools."""
    shop = stocked(folder)
    async with shop.serve(mode=mode) as served:
        yield Seat(served.client), shop


@pytest.mark.promise("TSR-01")
@pytest.mark.parametrize("mode", MODES)
async def test_a_deferred_tool_is_found_described_and_called_over_stdio(tmp_path: Path, mode: Mode) -> None:
    async with depots(tmp_path, mode) as (seat, shop):
        assert set(await seat.tools()) == {
            "tool_search", "tool_read", "tool_call", "plan", "run", "status", "cancel", "confirm", "reconcile",
        }  # fmt: skip
        found = await seat.ask("tool_search", query="put an item on a shelf of depot 17")
        best = found["matches"][0]
        assert (best["name"], best["effect"], len(found["matches"])) == ("depot_17", "write", 5)
        assert best["input_schema"]["properties"] == PROPERTIES
        assert best["input_schema"]["required"] == ["item"]
        called = await seat.ask(
            "tool_call", name=best["name"], schema_digest=best["schema_digest"], arguments={"item": "lamp"}
        )
        assert called["output"] == {"depot": 17, "item": "lamp", "shelf": 1}
        _, view = await seat.direct("depot_17", {"item": "lamp", "shelf": 2}, **{DIGEST_META: best["schema_digest"]})
        assert view["outcome"] == "success"
        read = await seat.read("depot_20", {"item": "lamp"})
        assert read["output"]["depot"] == 20
        assert shop.world.count("depot17") == 2
        (card,) = (await seat.client.read_resource("counterfoil://tools/depot_17")).contents
        assert best["schema_digest"] in card.text  # type: ignore[union-attr]  # text, or this fails


@pytest.mark.promise("TSR-01")
async def test_a_call_without_a_search_is_refused_in_words_that_make_the_next_one_work(tmp_path: Path) -> None:
    async with depots(tmp_path, "auto") as (seat, shop):
        blind = await seat.ask("tool_call", name="depot_31", arguments={"item": "lamp"})
        assert (blind["error"]["code"], blind["sent"]) == ("not_visible", "no")
        told = blind["error"]["details"]
        assert told["input_schema"]["properties"] == PROPERTIES
        assert blind["next"]["arguments"] == {"name": "depot_31", "schema_digest": told["schema_digest"]}
        _, directly = await seat.direct("depot_31", {"item": "lamp"})
        assert directly["error"]["code"] == "not_visible"
        stale = await seat.ask("tool_call", name="depot_31", arguments={"item": "lamp"}, schema_digest="00000000")
        assert (stale["error"]["code"], stale["error"]["details"]) == ("stale_schema", told)
        assert shop.world.count("depot31") == 0
        worked = await seat.ask("tool_call", **blind["next"]["arguments"], arguments={"item": "lamp"})
        assert (worked["outcome"], shop.world.count("depot31")) == ("success", 1)
        unknown = await seat.ask("tool_call", name="depot_3l", arguments={})
        assert unknown["error"]["code"] == "unknown_tool"
        assert "tool_search" in unknown["error"]["message"]
        assert unknown["next"]["tool"] == "tool_search"
        writing = await seat.read("depot_31", {"item": "lamp"})
        assert writing["error"]["code"] == "not_read_only"


@pytest.mark.promise("TSR-01")
async def test_odd_queries_are_bounded_and_answered_the_same_in_every_session(tmp_path: Path) -> None:
    answers: list[list[Any]] = []
    shop = stocked(tmp_path)
    for mode in MODES:
        async with shop.open(role="serve") as app, seated(app, mode) as seat:
            odd = [await seat.ask("tool_search", query=query, limit=20) for query in ODD]
            nothing: View = {"matches": [], "unmatched_terms": [], "more": 0, "categories": {"depot": 50}}
            assert odd[0] == odd[1] == nothing
            assert all(len(answer["matches"]) <= 20 for answer in odd)
            assert odd[-1]["matches"][0]["name"] == "depot_17"
            assert {answer.get("error") for answer in odd} == {None}
            assert max(len(json.dumps(answer)) for answer in odd) < 40_000
            long = await seat.ask("tool_search", query="x" * 20_001)
            assert long["error"]["code"] == "invalid_arguments"
            assert "20000" in long["error"]["message"].replace(",", "")
            answers.append(odd)
    assert answers[0] == answers[1]
