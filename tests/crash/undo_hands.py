"""The tools of runs that are killed while they are undone: each write, and each undo, has one effect in the world."""

from __future__ import annotations

from counterfoil import Call, Outcome, Probe, tool

from .hands import asked, strike


def _at(note: str, more: str = "") -> str:
    return f"{more}{note.split(maxsplit=1)[0]}-"


@tool(effect="write", idempotency="keyed")
async def made_keyed(note: str, call: Call) -> dict[str, str]:
    """The far side honours the key, also that of its undo."""
    return await strike("made_keyed", note, call, at=_at(note), honours_key=True)


@made_keyed.compensation(idempotency="keyed")
async def unmade_keyed(note: str, output: dict[str, str], call: Call) -> dict[str, str]:
    """Undo it."""
    assert output["reference"]
    return await strike("unmade_keyed", note, call, at=_at(note, "un-"), honours_key=True)


@tool(effect="write")
async def made_probed(note: str, call: Call) -> dict[str, str]:
    """The far side can be asked."""
    return await strike("made_probed", note, call, at=_at(note))


@made_probed.probe(timeout_s=5)
async def made_probed_happened(note: str, call: Call) -> Probe:
    """Ask the far side."""
    del note
    return await asked(call)


@made_probed.compensation()
async def unmade_probed(note: str, call: Call) -> dict[str, str]:
    """Undo it, and nothing but a person can tell what became of that."""
    return await strike("unmade_probed", note, call, at=_at(note, "un-"))


@tool(effect="write")
async def made_approved(note: str, call: Call) -> dict[str, str]:
    """Nothing but a person can tell what became of it."""
    return await strike("made_approved", note, call, at=_at(note))


@made_approved.compensation(approval="operator")
async def unmade_approved(note: str, call: Call) -> dict[str, str]:
    """A person decides about its undo first."""
    return await strike("unmade_approved", note, call, at=_at(note, "un-"))


@tool(effect="write")
async def refused(note: str, call: Call) -> Outcome[None]:
    """Nothing is done, and that is known."""
    del note, call
    return Outcome.permanent("out of stock", sent="no")
