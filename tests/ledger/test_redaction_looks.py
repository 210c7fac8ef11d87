"""The quick looks of the projection never miss what the slow way would hide: they only ever send too much down it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.canonical import JsonValue
from counterfoil.ledger import redact
from counterfoil.ledger.redact import project
from counterfoil.ledger.shapes import SHAPES, may_hold_secret
from counterfoil.ledger.storable import DEPTH

KEY = b"k" * 32
AROUND = st.text(max_size=8)
PATTERNS = [re.compile(shape.pattern.replace("(?<=://)", "://").replace("(?=@)", "@"), shape.flags) for shape in SHAPES]
RUN = re.compile(r"[A-Za-z0-9+/_=-]{32,40}")
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30) | st.sampled_from([1 << 4097, 10**1300]),
    st.floats(),
    st.text(max_size=40) | st.text(st.characters(categories=["Cs", "Cc"]), max_size=4),
    st.sampled_from([*PATTERNS, RUN]).flatmap(lambda shape: st.from_regex(shape, fullmatch=True)),
    st.integers(100, 1500).map("word ".__mul__),
)
NAMES = st.text(max_size=12) | st.sampled_from(["note", "password", "api_key", "n" * 200, "pin", "ghp_" + "a" * 30])


@pytest.mark.parametrize("shape", [*PATTERNS, RUN], ids=lambda shape: shape.pattern[:24])
def test_no_shape_is_without_a_sign_of_it(shape: re.Pattern[str]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(before=AROUND, found=st.from_regex(shape, fullmatch=True), after=AROUND)
    def holds(before: str, found: str, after: str) -> None:
        assert may_hold_secret(before + found + after)

    holds()


@settings(max_examples=300, deadline=None)
@given(value=st.dictionaries(NAMES, LEAVES, max_size=5), limit=st.sampled_from([60, 600, redact.LIMIT_BYTES]))
def test_a_small_object_is_projected_as_the_long_way_would(value: dict[str, JsonValue], limit: int) -> None:
    slow = redact._Projector(KEY, limit).value(value, [], DEPTH)
    assert repr(project(value, (), limit, key=KEY)) == repr(slow)
