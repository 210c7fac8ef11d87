"""Tools that chains are made of: typed outputs, versions, a file that is edited in place, and a place to die before a
dispatch is recorded. As in `tools`, what they do to the world stands in W, or in files beside it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from counterfoil import Call, Outcome, tool
from tests.kit.tools import Effect, Ref, act
from tests.kit.world import World

_WORK_S = 0.005
"""How long an edit lies between its reading and its writing: long enough to lose a letter that nobody guards."""


class Contact(BaseModel):
    """Somebody to tell."""

    email: str


class Order(BaseModel):
    """One order, as its service tells it."""

    order_id: str
    total: int
    late: bool
    contacts: list[Contact]
    note: str | None


@tool(effect="read", open_world=False)
async def chain_order(order_id: str, total: int = 25, late: bool = True, people: int = 2) -> Order:
    """Look up an order; what it says is what was asked for."""
    World.here().mark(order_id, "asked")
    contacts = [Contact(email=f"p{number}@shop.example") for number in range(people)]
    return Order(order_id=order_id, total=total, late=late, contacts=contacts, note=None)


@tool(effect="read", open_world=False)
async def chain_sum(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@tool(effect="write")
async def chain_none(ref: Ref) -> Outcome[None]:
    """Do it, and have nothing to say about it."""
    World.here().append(ref)
    return Outcome.no_result()


@tool(effect="read", open_world=False)
async def chain_versioned(ref: Ref) -> Outcome[dict[str, str]]:
    """Read something that has a version."""
    return Outcome.success({"ref": ref}, evidence={"external_version": 'W/"7"'})


@tool(effect="write")
async def chain_guarded(ref: Ref, call: Call) -> int:
    """Do it, and say in W which version was expected."""
    return World.here().append(ref, if_version=call.if_version)


@tool(effect="write", retry={"attempts": 4, "backoff_s": 0.01, "least_s": 0})
async def chain_busy(ref: Ref) -> Outcome[Effect]:
    """A far side that says that it is busy, nothing done, as often as `arm(ref, busy=N)` says."""
    world = World.here()
    world.mark(ref, "asked")
    if world.marks(ref).count("asked") <= world.switches(ref).get("busy", 0):
        return Outcome.retryable("busy", "no")
    return Outcome.success(Effect(ref=ref, number=world.append(ref)))


@tool(effect="write", idempotency="none", retry={"attempts": 4, "backoff_s": 0.01, "least_s": 0})
async def chain_eager(ref: Ref) -> Outcome[Effect]:
    """As `kit_write`, under a contract that would try four times."""
    return await act(ref)


def files() -> Path:
    """Where `chain_edit` works."""
    folder = World.here().path.parent / "files"
    folder.mkdir(exist_ok=True)
    return folder


def _same_file(path: str) -> list[str]:
    return [f"file:{(files() / path).resolve()}"]


@tool(effect="write", resources=_same_file)
async def chain_edit(
    path: Annotated[str, Field(description="Beneath the folder of files")], letter: str, fails: bool = False
) -> str:
    """Read a file, take a moment, and write it back with one letter more; what it had before."""
    place = files() / path
    read = place.read_text() if place.exists() else ""
    await asyncio.sleep(_WORK_S)
    place.write_text(read + letter)
    if fails:
        raise ConnectionError("the disk went away, who knows when")
    return read


def _on(on: str) -> list[str]:
    if World.here().switches(on).get("dies") == "before its dispatch":
        os.kill(os.getpid(), signal.SIGKILL)
    return [f"on:{on}"]


@tool(effect="write", resources=_on)
async def chain_write_on(ref: Ref, on: str) -> Outcome[Effect]:
    """As `kit_write`, on a named resource; a server whose resource is armed dies before the dispatch is recorded."""
    return await act(ref)
