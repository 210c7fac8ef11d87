"""The name that was probably meant, for a message about one that nothing has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

MOST_PAIRS: Final = 60_000
"""Pairs of characters that are compared for one hint about names that a caller chose: a few milliseconds."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name that is most like this one; None if none is like it."""
    return next(iter(get_close_matches(name, list(names), 1)), None)


def hint(name: str, names: Iterable[str]) -> str:
    """The end of a message: `; did you mean 'wait_s'?`, or nothing."""
    near = nearest(name, names)
    return "" if near is None else f"; did you mean {near!r}?"


def some(name: str, names: Iterable[str]) -> Iterator[str]:
    """As many of these names as can be compared with this one in a few milliseconds, for names that a caller chose."""
    left = MOST_PAIRS
    for known in names:
        left -= (len(name) + 1) * (len(known) + 1)
        if left < 0:
            return
        yield known
