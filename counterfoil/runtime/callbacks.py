"""Opaque addresses at which a far side may say that it is done with a call: whoever knows one has the probe asked.

An address holds the call's name and a keyed digest of it, so that nothing need be kept to know it again. Nothing that
comes to one is believed or recorded, and a stranger's guess touches no ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..ledger.external import wake
from .clock import MICROSECOND

if TYPE_CHECKING:
    from .parts import Parts

PATH: Final = "/callbacks/"
LONGEST: Final = 200
KNOWN: Final = 10_000
"""How many calls are remembered for their last wake."""
APART: Final = 5 * MICROSECOND
"""Two wakes of a call lie at least so far apart, in microseconds; the one that comes too soon is put off."""
_PURPOSE: Final = "counterfoil callback"
_PREFIX: Final = "call_"


def callback_url(parts: Parts, call_id: str) -> str | None:
    """The address of a call; None where this server has no public URL."""
    base = parts.settings.public_url
    if not base:
        return None
    return f"{base}{PATH}{call_id.removeprefix(_PREFIX)}-{parts.ledger.mac(_PURPOSE, call_id.encode())}"


class Callbacks:
    """The door for whoever has such an address."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._woken: dict[str, int] = {}

    def knock(self, token: str) -> bool:
        """Have the far side of the call asked soon, if it is waited for; False for a token that nobody was given.

        Whether there is still anything to ask is not told.
        """
        name, _, digest = token.rpartition("-")
        call_id = _PREFIX + name
        if len(token) > LONGEST or not token.isascii():
            return False
        if not self._parts.ledger.mac_matches(_PURPOSE, call_id.encode(), digest):
            return False
        self._wake(call_id)
        return True

    def _wake(self, call_id: str) -> None:
        now, last = self._parts.clock.now(), self._woken.pop(call_id, 0)
        due_at = max(now, last + APART)
        self._woken[call_id] = last if last > now else due_at
        if last > now:  # one is on its way already
            return
        while len(self._woken) > KNOWN:
            del self._woken[next(iter(self._woken))]
        self._parts.ledger.record_nowait(lambda: wake(call_id, due_at))
