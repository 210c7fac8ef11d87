"""Counterfoil keeps the other half of every tool call: what was asked, who allowed it, that it was sent, what happened.

The names below are what an author of tools imports. They are loaded when first asked for, so that
`import counterfoil` alone stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .registry.adapter import Call
    from .registry.outcome import Outcome, Probe
    from .tools.decorator import tool

__version__ = "0.1.0"
__all__ = ["Call", "Outcome", "Probe", "__version__", "tool"]

_HOMES = {
    "Call": ".registry.adapter",
    "Outcome": ".registry.outcome",
    "Probe": ".registry.outcome",
    "tool": ".tools.decorator",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (each name has its own type, given above)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
