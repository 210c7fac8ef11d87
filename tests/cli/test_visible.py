"""Two different proposals never look the same to the person who decides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.canonical import JsonValue
from counterfoil.visible import masked, visible, visible_json

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\u202e", "<U+202E>"),
        ("\u2066", "<U+2066>"),
        ("\u200b", "<U+200B>"),
        ("\x1b[2J", "<U+001B>[2J"),
        ("\n", "<U+000A>"),
        ("\x7f", "<U+007F>"),
        ("\u00a0", "<U+00A0>"),
        ("\u3164", "<U+3164>"),
        ("\ufe0f", "<U+FE0F>"),
        ("\U000e0041", "<U+E0041>"),
        ("\ud800", "<U+D800>"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_written_out(hidden: str, shown: str) -> None:
    assert visible(f"a{hidden}b") == f"a{shown}b"


@pytest.mark.parametrize("text", ["plain text", "Ines, żółć, 東京, שלום", "e\u0301"])
def test_text_that_a_person_can_see_is_left_alone(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_nothing_unseen_is_left_in_any_text(text: str) -> None:
    assert not {unicodedata.category(character) for character in visible(text)} & UNSEEN


@given(st.dictionaries(st.text(), st.text()))
def test_only_the_layouts_own_line_breaks_are_left_in_json(value: dict[str, str]) -> None:
    assert visible_json(value).count("\n") == (len(value) + 1 if value else 0)


def test_sensitive_fields_are_shown_by_their_length_only() -> None:
    arguments: dict[str, JsonValue] = {
        "card": {"number": "4111111111111111", "name": "x"},
        "notes": ["ab", "c"],
        "a/b": 12,
    }
    shown = masked(arguments, ("/card/number", "/notes/0", "/a~1b", "/absent/path"))
    assert shown == {
        "card": {"number": "(16 characters, sensitive)", "name": "x"},
        "notes": ["(2 characters, sensitive)", "c"],
        "a/b": "(2 characters of JSON, sensitive)",
    }
    assert arguments["a/b"] == 12
