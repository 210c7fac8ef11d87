"""Redaction: no canary in the file, its log or an export; equal secrets match; what is shown is bounded."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.canonical import JsonValue, canonical
from counterfoil.ledger import sealing
from counterfoil.ledger.chain import Head, append
from counterfoil.ledger.events import EventType
from counterfoil.ledger.export import export
from counterfoil.ledger.redact import LIMIT_BYTES, project, redact_text
from counterfoil.ledger.store import Ledger

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
CANARY = "canary7f3a"

PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}{'A' * 6000}\n-----END RSA PRIVATE KEY-----"
SHAPES = {
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "pem": PEM,
    "bearer": "Bearer canary-token-value",
    "slack": "xoxb-1234567890-canary",
    "random": "q9Zr3Lx8Wv2Nc7Yb5Mk1Td6Hs4Jf0PgAeUi",
    "url": "https://me:canarypass@host.example/path",
}


def shown(value: JsonValue, *sensitive: str, limit: int = LIMIT_BYTES) -> str:
    return canonical(project(value, sensitive, limit, key=KEY)).decode()


@pytest.mark.parametrize(
    "name",
    [
        "password", "PaSsWoRd", "passwd", "apiKey", "api_key", "API-KEY", "x-api-key", "Authorization", "cookie",
        "Set-Cookie", "token", "accessToken", "refresh_token", "client_secret", "private_key", "PRIVATEKEY", "secret",
    ],
)  # fmt: skip
def test_a_secret_name_hides_its_value_wherever_it_is(name: str) -> None:
    values: list[JsonValue] = [CANARY, [CANARY], {"deep": CANARY}]
    for value in values:
        assert CANARY not in shown({"a": [{"b": {name: value}}]})
    assert shown({name: 4711}) != shown({name: 4712})
    assert "4711" not in shown({name: 4711})


@pytest.mark.parametrize("name", ["note", "tokens_used", "secretary", "key", "author", "max_tokens", "spin"])
def test_an_ordinary_name_hides_nothing(name: str) -> None:
    assert project({name: "plain"}, key=KEY) == {name: "plain"}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_known_shape_is_hidden_whole_and_inside_a_text(shape: str) -> None:
    secret = SHAPES[shape]
    part = secret.removeprefix("Bearer ").removeprefix("https://me:").removesuffix("@host.example/path")[:20]
    values: list[JsonValue] = [secret, f"see {secret} there", [f"x={secret}"], {f"{secret}"[:60]: 1}]
    for value in values:
        if not (shape == "pem" and isinstance(value, dict)):
            assert part not in shown(value)
    assert part not in redact_text(f"failed: {secret}")


def test_digests_ids_and_prose_are_shown() -> None:
    for text in ("a" * 64, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "call_" + "0f" * 16):
        assert project(text, key=KEY) == text
    assert redact_text("The quick brown fox, order 4711: 12.50 EUR") == "The quick brown fox, order 4711: 12.50 EUR"


def test_marked_places_are_hidden_and_their_neighbours_are_not() -> None:
    value: JsonValue = {"items": [{"pan": CANARY, "n": 1}, {"pan": CANARY, "n": 2}], "a/b": CANARY, "note": "kept"}
    text = shown(value, "/items/*/pan", "/a~1b")
    assert CANARY not in text
    assert '"note":"kept"' in text
    assert '"n":2' in text
    assert CANARY not in shown({"note": {"x": CANARY}}, "/note")
    assert CANARY not in shown({"note": CANARY}, "note")
    assert CANARY not in shown(CANARY, "")


def test_equal_secrets_match_and_another_ledger_cannot_test_a_guess() -> None:
    one: Any = project({"password": "x"}, key=KEY)
    two: Any = project([{"Token": "x"}], key=KEY)
    other: Any = project({"password": "x"}, key=b"o" * 32)
    assert one["password"] == two[0]["Token"] == {"redacted": True, "length": 1, "commit": one["password"]["commit"]}
    assert len(one["password"]["commit"]) == 16
    assert other["password"]["commit"] != one["password"]["commit"]


def test_large_values_are_cut_with_a_mark() -> None:
    text: Any = project("word " * 5000, key=KEY)
    assert text["cut"] is True
    assert text["length"] == 25_000
    assert text["start"].startswith("word word")
    items: Any = project(list(range(5000)), key=KEY)
    assert items[-1]["cut"] is True
    assert items[-1]["items"] + len(items) - 1 == 5000
    members: Any = project({str(n): n for n in range(5000)}, key=KEY)
    assert members["..."]["members"] + len(members) - 1 == 5000


def test_a_secret_across_the_cut_is_not_half_shown() -> None:
    for pad in range(150, 215, 3):
        assert "eyJhbGci" not in shown(f"{'w ' * (pad // 2)} {SHAPES['jwt']} {'word ' * 2000}")
        assert "eyJhbGci" not in redact_text(f"{'w ' * (pad // 2 + 150)} {SHAPES['jwt']}")


def test_messages_lose_control_characters_and_length() -> None:
    assert redact_text("a\0b\x1b[31mc\u202ed\ud800") == "ab[31mcd\\ud800"
    assert len(redact_text("x " * 5000)) == 500


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(_json, st.integers(64, 2048))
def test_a_projection_can_always_be_stored_and_is_bounded(value: JsonValue, limit: int) -> None:
    assert len(canonical(project(value, (), limit, key=KEY))) < limit + 2048


async def test_no_canary_reaches_the_disk_or_an_export(ledger: Ledger) -> None:
    value: JsonValue = {
        "password": CANARY, "nested": [{"apiKey": CANARY, "Authorization": f"Bearer {CANARY}"}],
        "Cookie": f"sid={CANARY}", "text": f"curl -H 'Authorization: Bearer {CANARY}'", "marked": CANARY,
    }  # fmt: skip
    content = json.dumps(value).encode()
    async with asyncio.timeout(30):
        sealed = ledger.seal(payload_id="p", call_id="c", tenant="t", kind="arguments", content=content)
        await ledger.record(lambda: sealing.store(sealed))
        data: Any = {
            "arguments": ledger.project(value, ["/marked"]),
            "message": redact_text(f"refused: token={CANARY}"),
        }
        head = Head.new("run_1")
        await ledger.record(lambda: append(head, tenant="t", call_id="c", type=EventType.DISPATCHED, at=1, data=data))
        assert await ledger.open_payload("p") == content
        out = io.BytesIO()
        export(ledger.path, out)
        files = [path for path in ledger.path.parent.iterdir() if path.is_file()]
        assert {path.suffix for path in files} >= {".db", ".db-wal", ".key"}
        raw = out.getvalue() + b"".join(path.read_bytes() for path in files)
    assert b"commit" in raw
    assert CANARY.encode() not in raw
