"""AUT-01: what a principal may not do it neither sees nor does, by whatever name; each attempt is denied and recorded."""

from __future__ import annotations

import json

import pytest
from mcp import MCPError

from tests.kit.bench import Bench, bench
from tests.kit.seat import DIGEST_META
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
READER = 'subject = "bob"\nscopes = ["kit:read"]'
WRITER = 'subject = "alice"\nscopes = ["kit:read", "kit:write"]'
DENIED = (
    '[[policy]]\nid = "no-deleting"\ntool = "scoped_delete"\nverdict = "deny"\nreason = "Nothing is deleted here."\n'
)
GUARDED = ("scoped_write", "scoped_delete", "scoped_write__undo", "scoped_unwrite")
OTHER_SPELLINGS = ("SCOPED_WRITE", "Scoped_Write", "scoped-write", " scoped_write", "scоped_write", "ｓcoped_write")


async def digest_of(at: Bench, name: str) -> str:
    entry = at.app.catalogue.get(name)
    return entry.contract.short_digest if entry is not None else "00000000"


@pytest.mark.promise("AUT-01")
@pytest.mark.parametrize("visibility", ["deferred", "all"])
async def test_a_reader_finds_no_trace_of_what_only_writers_may_do(shop: Workshop, visibility: str) -> None:
    async with bench(shop, principals_local=READER, server=f'visibility = "{visibility}"') as at:
        seen = [
            await at.seat.ask(
                "tool_search", query="write what needs a scope and can be undone", limit=20, detail="full"
            ),
            await at.seat.ask("tool_search", names=list(GUARDED)),
            await at.seat.ask("tool_search", category="scoped", limit=20, detail="full"),
            await at.seat.ask("tool_search"),
            sorted(await at.seat.tools()),
        ]
        shown = json.dumps(seen[0]["matches"] + seen[1]["matches"] + seen[2]["matches"]) + json.dumps(seen[3:])
        assert "scoped_write" not in shown
        assert "scoped_delete" not in shown
        assert seen[2]["more"] == 0
        assert [match["name"] for match in seen[2]["matches"]] == ["scoped_read"]
        assert seen[3]["categories"] == {"scoped": 1}
        assert ("scoped_read" in seen[4]) is (visibility == "all")
        suggestion = await at.seat.call("scoped_writ", {"ref": "r"})
        assert "scoped_write" not in suggestion["error"]["message"]
        for name in GUARDED:
            with pytest.raises(MCPError, match="not found"):
                await at.seat.client.read_resource(f"counterfoil://tools/{name}")


@pytest.mark.promise("AUT-01")
async def test_every_way_to_call_what_is_out_of_scope_is_denied_and_recorded(shop: Workshop) -> None:
    async with bench(shop, principals_local=READER) as at:
        digest = await digest_of(at, "scoped_write")
        views = [
            await at.seat.call("scoped_write", {"ref": "r"}, schema_digest=digest),
            await at.seat.call("scoped_write", {"ref": "r"}, schema_digest=digest, idempotency_key="K"),
            await at.seat.call("scoped_write", {"wrong": 1}),
            (await at.seat.direct("scoped_write", {"ref": "r"}, **{DIGEST_META: digest}))[1],
            await at.seat.read("scoped_write", {"ref": "r"}),
        ]
        for view in views:
            assert (view["state"], view["outcome"], view["error"]["code"]) == (
                "refused",
                "denied",
                "insufficient_scope",
            )
            assert view["error"]["details"] == {"missing_scopes": ["kit:write"]}
        tried = await at.seat.call("scoped_write", {"ref": "r"}, dry_run=True)
        assert tried["missing_scopes"] == ["kit:write"]
        recorded = await at.refusals()
        assert [(row["tool"], row["code"], row["subject"]) for row in recorded] == [
            ("scoped_write", "insufficient_scope", "bob")
        ] * len(views)
        assert all(row["message"] and row["args_digest"] for row in recorded)
        assert at.world.count("r") == 0


@pytest.mark.promise("AUT-01")
async def test_a_probe_an_undo_a_hidden_or_denied_tool_and_other_spellings_are_unknown_names(shop: Workshop) -> None:
    names = ("scoped_write__undo", "kit_write_query__probe", "more_hidden", "scoped_delete", *OTHER_SPELLINGS)
    async with bench(shop, DENIED, principals_local=WRITER) as at:
        for name in names:
            view = await at.seat.call(name, {"ref": "r"}, schema_digest=await digest_of(at, name))
            nobody = await at.seat.call("x" * len(name), {"ref": "r"}, schema_digest="00000000")
            assert view["error"]["code"] == nobody["error"]["code"] == "unknown_tool", name
            assert view["error"]["details"] == nobody["error"]["details"]
            with pytest.raises(MCPError, match="Unknown tool") as error:
                await at.seat.client.call_tool(name, {"ref": "r"})
            assert error.value.error.code == -32602
            assert (await at.seat.ask("tool_search", names=[name]))["matches"] == []
        recorded = [row["tool"] for row in await at.refusals()]
        for name in names:
            assert recorded.count(name) == 2, name
        assert at.world.count("r") == 0


@pytest.mark.promise("AUT-01")
async def test_the_same_tools_serve_those_who_have_the_scope(shop: Workshop) -> None:
    async with bench(shop, principals_local=WRITER) as at:
        assert (await at.seat.ask("tool_search"))["categories"] == {"scoped": 3}
        assert (await at.seat.call("scoped_write", {"ref": "r"}))["outcome"] == "success"
        assert (await at.seat.read("scoped_read", {"ref": "r"}))["output"] == 1


@pytest.mark.promise("AUT-01")
async def test_a_wildcard_holds_neither_approve_nor_reconcile(shop: Workshop) -> None:
    async with bench(shop) as at:
        view = await at.seat.call("kit_fail_write", {"ref": "r"})
        word = await at.seat.ask(
            "reconcile", call_id=view["call_id"], resolution="not_happened", evidence="I say so", then="retry"
        )
        assert (word["error"]["code"], word["error"]["details"]) == (
            "insufficient_scope", {"missing_scopes": ["reconcile"]},
        )  # fmt: skip
        assert not at.app.local.holds("approve")
        assert at.world.count("r") == 1
