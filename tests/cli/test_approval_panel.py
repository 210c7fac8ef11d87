"""A proposal as a person sees it at a terminal: what undoes it, and every item of several, whole."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from counterfoil.canonical import JsonValue
from counterfoil.server.cli.following import commands_of_approval
from counterfoil.server.cli.render import approval_panel
from counterfoil.visible import masked

HIDDEN: dict[str, JsonValue] = {"redacted": True, "length": 11, "commit": "c0ffee"}
SEVERAL: dict[str, Any] = {
    "approval_id": "apr_1",
    "state": "pending",
    "tool": "pay",
    "effect": "destructive",
    "digest": "abcdef" * 10,
    "call_id": None,
    "run_id": "run_1",
    "step": "each",
    "items": [{"n": 0}, {"n": 1}],
}


def printed(view: dict[str, Any], arguments: object) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(approval_panel(view, arguments, "person", "give_back"))
    return out.getvalue()


def test_each_item_of_several_is_numbered_and_whole() -> None:
    shown = printed(SEVERAL, [{"ref": "x"}, {"ref": "y"}])
    assert "arguments of item 1 of 2" in shown
    assert "arguments of item 2 of 2" in shown
    assert ('"x"' in shown, '"y"' in shown) == (True, True)


def test_it_says_what_undoes_it_and_what_follows_a_lost_answer_in_words() -> None:
    shown = printed(SEVERAL | {"items": None}, {"ref": "x"})
    assert "give_back" in shown
    assert "a person finds out" in shown


def test_what_is_hidden_is_shown_by_the_length_that_it_had() -> None:
    assert masked({"iban": HIDDEN}, ("/iban",)) == {"iban": "(11 characters, sensitive)"}


def test_a_proposal_for_several_names_its_run_and_no_call() -> None:
    lines = commands_of_approval(SEVERAL)
    assert "counterfoil runs resume run_1" in lines
    assert not [line for line in lines if "None" in line]


PREVIEW: dict[str, Any] = {
    "tool": "peek",
    "at": "2026-12-01T03:00:00Z",
    "untrusted": True,
    "output": None,
    "error": None,
}


def test_a_preview_is_information_beside_what_the_digest_covers() -> None:
    shown = printed(SEVERAL | {"items": None, "preview": PREVIEW | {"output": {"state": "paid\u202e"}}}, {"ref": "x"})
    assert "for information, from peek at 2026-12-01 03:00:00Z; the digest does not cover it" in shown
    assert "paid<U+202E>" in shown
    assert shown.index('"x"') < shown.index("for information")


def test_a_preview_that_could_not_be_had_says_why() -> None:
    shown = printed(SEVERAL | {"items": None, "preview": PREVIEW | {"error": "It is\u200b down."}}, {"ref": "x"})
    assert "There is no preview: It is<U+200B> down." in shown


def test_previews_of_several_say_how_many_there_are() -> None:
    items = [{"n": 0, "output": "first", "error": None}]
    shown = printed(
        SEVERAL | {"preview": PREVIEW | {"items": items, "error": "Previewed are 1 of its 2 items."}}, [1, 2]
    )
    assert ("Previewed are 1 of its 2 items." in shown, '"first"' in shown) == (True, True)
