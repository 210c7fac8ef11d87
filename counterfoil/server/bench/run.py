"""A whole run: the measurements that were asked for, one after the other, and what they came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from . import call, chains, growth, ledger, search, start
from .figures import Figure
from .machine import machine
from .rounds import Tell
from .settings import Settings

Measurement: TypeAlias = Callable[[Settings, Tell], list[Figure]]

MEASUREMENTS: Final[dict[str, Measurement]] = {
    "call": call.measure,
    "ledger": ledger.measure,
    "search": search.measure,
    "start": start.measure,
    "growth": growth.measure,
    "chains": chains.measure,
}
"""By name, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run measured."""

    figures: tuple[Figure, ...]
    machine: dict[str, Any]
    settings: Settings
    seconds: float

    @property
    def missed(self) -> tuple[str, ...]:
        """The names of the figures whose targets were missed."""
        return tuple(figure.name for figure in self.figures if figure.met is False)

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        settings = asdict(self.settings)
        del settings["search_data"]  # a path of this machine
        return {
            "ok": True,
            "met": not self.missed,
            "missed": list(self.missed),
            "figures": [figure.wire() for figure in self.figures],
            "machine": self.machine | {"durability": "full"},
            "settings": settings,
            "seconds": round(self.seconds, 1),
        }


def bench(names: Sequence[str], settings: Settings, tell: Tell) -> Report:
    """Measure these, or everything where none is named; in the order of `MEASUREMENTS`."""
    begun = time.perf_counter()
    figures: list[Figure] = []
    for name, measure in MEASUREMENTS.items():
        if not names or name in names:
            figures += measure(settings, tell)
    return Report(tuple(figures), machine(), settings, time.perf_counter() - begun)
