"""The tools of the killed runs: each step has one effect in the world, which is named by its step.

A tool passes the points `STEP-guard`, `STEP-effect` and `STEP-answer`; STEP is the first word of its note, and the rest
of the note is what earlier steps gave.
"""

from __future__ import annotations

from counterfoil import Call, Probe, tool

from .hands import asked, strike


def _at(note: str) -> str:
    return note.split(maxsplit=1)[0] + "-"


@tool(effect="read")
async def run_look(note: str, call: Call) -> dict[str, str]:
    """A read of the open world."""
    return await strike("run_look", note, call, at=_at(note))


@tool(effect="write")
async def run_plain(note: str, call: Call) -> dict[str, str]:
    """Nothing but a person can tell what became of it."""
    return await strike("run_plain", note, call, at=_at(note))


@tool(effect="write", idempotency="keyed", retry={"attempts": 3, "backoff_s": 0.01, "least_s": 0.01})
async def run_keyed(note: str, call: Call) -> dict[str, str]:
    """The far side honours the key."""
    return await strike("run_keyed", note, call, at=_at(note), honours_key=True)


@tool(effect="write")
async def run_probed(note: str, call: Call) -> dict[str, str]:
    """The far side can be asked."""
    return await strike("run_probed", note, call, at=_at(note))


@run_probed.probe(timeout_s=5)
async def run_probed_happened(note: str, call: Call) -> Probe:
    """Ask the far side."""
    del note
    return await asked(call)


@tool(effect="destructive", approval="operator")
async def run_approved(note: str, call: Call) -> dict[str, str]:
    """A person decides about it first, and nothing but a person can tell what became of it."""
    return await strike("run_approved", note, call, at=_at(note))
