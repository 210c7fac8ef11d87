"""Answers that a far side made to hurt: they cost no time, stop nothing else, and never hide what happened."""

from __future__ import annotations

import base64
import json
import threading

import pytest

from counterfoil.canonical import JsonValue
from counterfoil.registry.strict_json import Bounds, parse
from counterfoil.registry.vocabulary import OutcomeClass
from counterfoil.tools.http import body
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.http_hands import Hands, output_of

pytestmark = pytest.mark.anyio


async def test_a_large_answer_is_not_read_on_the_event_loop(
    hands: Hands, far: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(text: bytes, bounds: Bounds) -> JsonValue:
        threads.append(threading.get_ident())
        return parse(text, bounds)

    monkeypatch.setattr(body, "parse", watched)
    far.script("/x", Answer(body=json.dumps(["few words"] * 7_000)))
    assert len(output_of(await hands.read())) == 7_000
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_the_message_of_a_large_failure_is_not_looked_for(hands: Hands, far: FarSide) -> None:
    far.script("/x", Answer(400, body=json.dumps({"message": "m" * 80_000})))
    assert (await hands.refund()).message == "refund: 127.0.0.1 answered with status 400."


@pytest.mark.parametrize(
    ("charset", "data"),
    [("idna", b"a..b\xff"), ("undefined", b"x"), ("unicode_escape", b"\\ud800"), ("utf-7", b"+2AA-")],
)
async def test_whatever_charset_the_far_side_names_a_write_that_succeeded_has(
    hands: Hands, far: FarSide, charset: str, data: bytes
) -> None:
    kind = {"Content-Type": f"text/plain; charset={charset}"}
    far.script("/x", Answer(raw=data, headers=kind), Answer(400, raw=data, headers=kind))
    assert output_of(await hands.refund())["base64"] == base64.b64encode(data).decode()
    assert (await hands.refund()).kind is OutcomeClass.PERMANENT_FAILURE
