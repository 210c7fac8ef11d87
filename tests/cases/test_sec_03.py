"""SEC-03: no marked or secret-named argument stands in clear in the ledger's files, its events or an export."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from counterfoil.ledger.rows import get_call
from tests.kit.bench import OPERATOR, Bench, bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
TOOLS: Final = 'modules = ["tests.kit.secret_tools"]'
CANARY: Final = re.compile(rb"CANARY[a-z]*|4711471[0-9]")


async def leaks(shop: Workshop, at: Bench) -> set[bytes]:
    """Every canary in the bytes of the database, of its log, and of an export made beside the open server."""
    await at.refusals()
    exported = await shop.run("ledger", "export", "--config", str(shop.config))
    assert exported.code == 0, exported.stderr
    files = [file.read_bytes() for file in shop.ledger.parent.iterdir() if file.is_file()]
    assert any(b"secret_" in file for file in files), "the right files"
    assert b"secret_" in exported.stdout
    return {found for data in [*files, exported.stdout] for found in CANARY.findall(data)}


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize(
    "arguments",
    [
        {"pin": "CANARYpin"},
        {"pin": ["CANARYlist"]},
        {"logins": [{"user": "u", "pin": "CANARYdeep"}]},
        {"logins": ['{"user": "u", "pin": "CANARYtext"}']},
        {"credentials": {"bank": "CANARYbelow"}},
        '{"pin": "CANARYwhole"}',
    ],
)
async def test_a_refusal_of_arguments_does_not_quote_a_secret(shop: Workshop, arguments: Any) -> None:
    async with bench(shop, python=TOOLS) as at:
        view = await at.seat.ask("tool_read", name="secret_typed", arguments=arguments)
        assert view["error"]["code"] == "invalid_arguments"
        assert "CANARY" not in json.dumps(view)
        plain = await at.seat.read("secret_typed", {"note": "plainly wrong"})
        assert "plainly wrong" in plain["error"]["message"]
        assert await leaks(shop, at) == set()


SLIPS: Final[dict[str, Any]] = {
    "password": "CANARYpassword \"'\n\u00e9",
    "notes": [{"text": "CANARYnote", "plain": "seen"}],
    "login": {"user": "me", "api_key": ["CANARYapikey", 47114711]},
}


@pytest.mark.promise("SEC-03")
@pytest.mark.parametrize("how", ["raise", "repr", "partial", "evidence", "details"])
async def test_what_a_tool_tells_of_its_call_is_recorded_without_the_secrets(shop: Workshop, how: str) -> None:
    async with bench(shop, python=TOOLS) as at:
        view = await at.seat.call("secret_slip", SLIPS | {"how": how})
        told = json.dumps(view["error"]) + json.dumps(view["evidence"])
        assert "[redacted]" in told or how == "partial"
        assert await leaks(shop, at) == set()
        if how in {"partial", "evidence"}:
            assert "CANARYpassword" in view["output"], "what the caller gets stays exact"


@pytest.mark.promise("SEC-03")
async def test_a_persons_word_about_a_call_is_recorded_without_its_secrets(shop: Workshop) -> None:
    async with bench(shop, python=TOOLS) as at:
        view = await at.seat.call("secret_slip", SLIPS | {"how": "ambiguous"})
        assert view["error"]["code"] == "ambiguous"
        said = f"I saw {SLIPS['password']} and CANARYnote there"
        done = await at.app.runtime.reconcile(
            at.app.local, call_id=view["call_id"], resolution="happened", evidence=said, person=OPERATOR
        )
        assert done.wire()["outcome"] == "success"
        assert await leaks(shop, at) == set()


@pytest.mark.promise("SEC-03")
async def test_the_start_of_a_secret_in_a_message_that_was_cut_is_hidden_too(shop: Workshop) -> None:
    async with bench(shop, python=TOOLS) as at:
        view = await at.seat.read("secret_echo", {"password": "CANARYlong" + " word" * 20})
        assert view["error"]["code"] == "output_invalid"
        assert await leaks(shop, at) == set()


@pytest.mark.promise("SEC-03")
async def test_a_key_that_holds_a_secret_is_held_under_a_digest_and_still_excludes(shop: Workshop) -> None:
    async with bench(shop, python=TOOLS) as at:
        held = {"token": "CANARYtoken", "login": {"user": "u", "password": "CANARYlogin"}, "order": "17"}
        keys: list[tuple[str, ...]] = []
        for _ in range(2):
            view = await at.seat.call("secret_held", held)
            assert (view["outcome"], view["output"]) == ("success", "CANARYtoken")
            keys.append(await keys_of(at, view["call_id"]))
        keyed = await at.seat.call("secret_keyed", {"password": "CANARYvault", "order": "17"})
        assert keys[0] == keys[1]
        assert "order:17" in keys[0]
        assert [key for key in keys[0] if re.fullmatch(r"[0-9a-f]{64}", key)]
        assert [key for key in keys[0] if re.fullmatch(r"shared:[0-9a-f]{64}", key)]
        assert "order:17" in await keys_of(at, keyed["call_id"])
        assert await leaks(shop, at) == set()


async def keys_of(at: Bench, call_id: str) -> tuple[str, ...]:
    """The resource keys that the ledger has of a call."""
    row = await at.app.ledger.record(lambda: get_call(call_id))
    assert row is not None
    return tuple(row.resource_keys)
