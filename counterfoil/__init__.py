"""Counterfoil keeps the other half of every tool call: what was asked, who allowed it, that it was sent, what happened.

The names below are what authors of tools and embedding programs import. They are loaded when first asked for, so that
`import counterfoil` alone stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .registry.adapter import Call
    from .registry.outcome import Outcome, Probe
    from .registry.principal import Principal
    from .server.app import open_app as open  # noqa: A004 (as in `async with counterfoil.open(...)`)
    from .tools.decorator import tool

__version__ = "0.1.0"
__all__ = ["Call", "Outcome", "Principal", "Probe", "__version__", "open", "tool"]

_HOMES = {
    "Call": (".registry.adapter", "Call"),
    "Outcome": (".registry.outcome", "Outcome"),
    "Principal": (".registry.principal", "Principal"),
    "Probe": (".registry.outcome", "Probe"),
    "open": (".server.app", "open_app"),
    "tool": (".tools.decorator", "tool"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (each name has its own type, given above)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _HOMES[name]
    value = getattr(import_module(module, __name__), original)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
