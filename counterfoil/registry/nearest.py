"""The name that was probably meant, for a message about one that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name that is most like this one; None if none is like it."""
    return next(iter(get_close_matches(name, list(names), 1)), None)


def hint(name: str, names: Iterable[str]) -> str:
    """The end of a message: `; did you mean 'wait_s'?`, or nothing."""
    near = nearest(name, names)
    return "" if near is None else f"; did you mean {near!r}?"
