"""RES-01: a huge result is cut as documented, marked, and can be read to its end; nothing half is ever called success."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest

from counterfoil.canonical import canonical
from tests.kit.bench import Bench, bench, of
from tests.kit.rules import strictly
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
SHOWN = 60_000
ENVELOPE = 4_000
NEXT_META = "counterfoil/next_offset"


def check_cut(view: View, whole: bytes) -> None:
    """A view without its output, which says how large it is and where it lies."""
    cut = view["truncated"]
    assert (view["outcome"], view["output"], view["error"]) == ("success", None, None)
    assert (cut["bytes"], cut["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert cut["uri"].startswith("counterfoil://artifacts/")
    assert cut["preview"]
    assert whole.decode().startswith(cut["preview"])
    assert len(json.dumps(view, ensure_ascii=False).encode()) < SHOWN + ENVELOPE


async def by_status(at: Bench, call_id: str, *, start: int = 0, pages: int = 1_000) -> tuple[str, list[int]]:
    """The text that `status` gives from an offset on, and the bytes of each page."""
    text, sizes, offset = "", list[int](), start
    for _ in range(pages):
        page: dict[str, Any] = (view := await at.seat.ask("status", call_id=call_id, offset=offset))["page"]
        text += page["text"]
        sizes.append(page["bytes"])
        assert page["bytes"] == len(page["text"].encode())
        if page["next_offset"] is None:
            break
        assert page["next_offset"] == offset + page["bytes"]
        assert view["next"]["arguments"] == {"call_id": call_id, "offset": page["next_offset"]}
        offset = page["next_offset"]
    return text, sizes


async def by_resource(at: Bench, uri: str) -> str:
    """The text that reading the artifact gives, part by part."""
    text, offset = "", 0
    while True:
        (part,) = (await at.seat.client.read_resource(f"{uri}?offset={offset}")).contents
        text += part.text  # type: ignore[union-attr]  # text, or this fails
        following = (part.meta or {}).get(NEXT_META)
        if following is None:
            return text
        assert following == len(text.encode())
        offset = following


@pytest.mark.promise("RES-01")
@pytest.mark.parametrize("lead", ["", "x", "xy"])
async def test_a_megabyte_is_cut_between_characters_and_read_to_its_end_both_ways(shop: Workshop, lead: str) -> None:
    async with bench(shop) as at:
        view = await at.seat.read("more_text", {"size": 500_000, "lead": lead})
        whole = canonical(lead + "é" * 500_000)
        check_cut(view, whole)
        text, sizes = await by_status(at, view["call_id"])
        assert text.encode() == whole
        assert max(sizes) <= SHOWN
        assert await by_resource(at, view["truncated"]["uri"]) == text
        assert strictly(text) == lead + "é" * 500_000


@pytest.mark.promise("RES-01")
async def test_fifty_megabytes_are_kept_whole_and_never_shown_whole(shop: Workshop) -> None:
    async with bench(shop) as at:
        view = await at.seat.read("more_text", {"size": 25_000_000})
        whole = canonical("é" * 25_000_000)
        check_cut(view, whole)
        head, sizes = await by_status(at, view["call_id"], pages=2)
        assert whole.startswith(head.encode())
        assert sizes == [SHOWN - 1, SHOWN]  # an opening quote, then characters of two bytes
        tail, _ = await by_status(at, view["call_id"], start=len(whole) - 11)
        assert whole.endswith(tail.encode())
        again = await at.seat.ask("status", call_id=view["call_id"])
        check_cut(again, whole)
        events = json.dumps(await at.events(view["call_id"]))
        assert len(events) < ENVELOPE
        del whole
    kept = sum(os.path.getsize(shop.ledger.with_name(name)) for name in os.listdir(shop.ledger.parent))
    assert kept < 120_000_000


@pytest.mark.promise("RES-01")
async def test_what_is_larger_than_is_kept_is_said_to_have_happened_and_to_be_cut(shop: Workshop) -> None:
    async with bench(shop, limits="output_bytes = 1_000_000") as at:
        view = await at.seat.read("more_text", {"size": 600_000})
        assert (view["outcome"], view["error"]["code"], view["output"]) == ("success", "output_invalid", None)
        assert "1200002" in view["error"]["message"]
        assert "1000000" in view["error"]["message"]


@pytest.mark.promise("RES-01")
async def test_a_structured_result_is_held_against_its_schema_whole(shop: Workshop) -> None:
    async with bench(shop) as at:
        view = await at.seat.read("more_rows", {"count": 50_000})
        whole = canonical({"rows": ["y" * 100] * 50_000, "total": 50_000})
        assert len(whole) > 5_000_000
        check_cut(view, whole)
        broken = await at.seat.read("more_rows_too_many", {"count": 50_000})
        assert (broken["outcome"], broken["error"]["code"]) == ("success", "output_invalid")
        assert "/rows" in broken["error"]["message"]
        assert "10" in broken["error"]["message"]
        shown, call = await at.seat.direct("more_rows", {"count": 50_000})
        assert shown == call
        check_cut(call, whole)


@pytest.mark.promise("RES-01")
async def test_an_artifact_is_its_subjects_own(shop: Workshop) -> None:
    async with bench(shop) as at:
        view = await at.seat.read("more_text", {"size": 100_000})
        artifact = view["truncated"]["uri"].rsplit("/", maxsplit=1)[-1]
        runtime = at.app.runtime
        assert await runtime.artifact(at.app.local, artifact, 0, 10) == b'"' + "éééé".encode() + b"\xc3"
        assert await runtime.artifact(of(at.app, "bob"), artifact, 0, 10) is None
        assert await runtime.artifact(at.app.local, "pay_0", 0, 10) is None
