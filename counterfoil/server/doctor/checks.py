"""The checks in their order, and how all of them are carried out, whatever one of them meets."""

from __future__ import annotations

from typing import Final

from .basis import Basis
from .books import books
from .finding import Check, Finding, guarded
from .machine import clock, interpreter, programs, sandboxes, streams, system
from .setting import configuration, secrets, strengths, tools

CHECKS: Final[dict[str, Check[Basis]]] = {
    "python": interpreter,
    "platform": system,
    "configuration": configuration,
    "tools": tools,
    "secrets": secrets,
    "ledger": books,
    "clock": clock,
    "streams": streams,
    "strengths": strengths,
    "sandbox": sandboxes,
    "clients": programs,
}


def examine(basis: Basis) -> list[Finding]:
    """Carry out every check."""
    return [finding for name, check in CHECKS.items() for finding in guarded(name, check, basis)]
