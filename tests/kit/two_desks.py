"""Tools of two desks that share words, tags and almost their names: what one may use the other must not hear of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from counterfoil import tool

WORDS: Final = ("invoice", "parcel", "refund", "customer", "ledger", "pigeon", "harbour", "lantern")


def _make(desk: str, word: str, rank: int) -> Callable[..., Any]:
    async def look(ref: str, count: int = 1) -> dict[str, Any]:
        return {"desk": desk, "word": word, "ref": ref, "count": count}

    look.__name__ = f"{desk}_{word}_look"
    look.__qualname__ = look.__name__
    look.__doc__ = f"Look up one {word} of the {desk} desk, {'carefully ' * (rank % 3)}by its reference."
    tags = ["desk", f"{desk}-{word[0]}"]
    return tool(effect="read", open_world=False, scopes=[f"{desk}:read"], tags=tags)(look)


def desk_tools(desk: str) -> dict[str, Callable[..., Any]]:
    """Every tool of one desk, by name."""
    made = (_make(desk, word, rank) for rank, word in enumerate(WORDS))
    return {f"{desk}_{word}_look": one for word, one in zip(WORDS, made, strict=True)}
