"""Random bytes that are drawn ahead: never given twice, also not to both sides of a fork."""

from __future__ import annotations

import os
import sys

import pytest

from counterfoil.randomness import PIECE, random_bytes


def test_no_piece_is_given_twice() -> None:
    given = [random_bytes() for _ in range(1_000)]
    assert len(set(given)) == len(given)
    assert {len(piece) for piece in given} == {PIECE}


def test_as_many_bytes_are_given_as_were_asked_for() -> None:
    assert len(random_bytes(12)) == 12
    for count in (0, PIECE + 1):
        with pytest.raises(ValueError, match="1 to 16"):
            random_bytes(count)


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # other tests' threads; the child only draws
def test_a_forked_child_gives_none_of_what_its_parent_gives() -> None:
    random_bytes()  # from here on some are drawn ahead
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"".join(random_bytes() for _ in range(100)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    theirs = {drawn[start : start + PIECE] for start in range(0, len(drawn), PIECE)}
    assert len(theirs) == 100
    assert theirs.isdisjoint(random_bytes() for _ in range(100))
