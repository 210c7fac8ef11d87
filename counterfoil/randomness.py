"""Random bytes from the operating system, which is asked for many at a time: each question lets go of the interpreter.

For ids, salts and nonces, not for keys. Nothing is given twice, not even in a process that was forked meanwhile.
"""

from __future__ import annotations

import os
from typing import Final

PIECE: Final = 16
_AHEAD: Final = 64
_pieces: list[bytes] = []

if hasattr(os, "register_at_fork"):  # a child must not give what its parent gives
    os.register_at_fork(after_in_child=_pieces.clear)


def random_bytes(count: int = PIECE) -> bytes:
    """At most 16 random bytes that nobody has had. From any thread."""
    if not 0 < count <= PIECE:
        raise ValueError(f"expected 1 to {PIECE} bytes, got {count}")
    try:
        piece = _pieces.pop()
    except IndexError:
        drawn = os.urandom(_AHEAD * PIECE)
        piece, *more = (drawn[start : start + PIECE] for start in range(0, len(drawn), PIECE))
        _pieces.extend(more)
    return piece if count == PIECE else piece[:count]
