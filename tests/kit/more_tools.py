"""Further tools of the kit: of awkward arguments and outputs, of retries, of children and blocking code.

As in `tools`, what they do to the world stands in W, and whatever reaches the far side is marked `asked` first.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
import time
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, Field

from counterfoil import Call, Outcome, tool
from counterfoil.registry.vocabulary import OutcomeClass, Sent
from counterfoil.tools.fields import RetryFields
from tests.kit.tools import Effect, Ref
from tests.kit.world import World

FEW: Final[RetryFields] = {"attempts": 3, "backoff_s": 0.02, "least_s": 0.01}


class Which(BaseModel):
    """What a purge is about."""

    older_than: Annotated[int, Field(description="In days; 0 means all")] = 0
    label: str = ""


@tool(effect="destructive")
async def more_purge(ref: Ref, older_than: int = 0, which: Which | None = None) -> int:
    """Purge what is older than this many days; 0 means all."""
    return World.here().append(ref, older_than=older_than, which=which.model_dump() if which else None)


@tool(effect="read", open_world=False)
async def more_typed(
    text: str = "",
    number: int = 0,
    size: float = 0.0,
    flag: bool = False,
    members: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Give back arguments of every type."""
    return {"text": text, "number": number, "size": size, "flag": flag, "members": members}


@tool(effect="destructive")
async def more_typed_purge(
    ref: Ref,
    text: str = "",
    number: int = 0,
    flag: bool = False,
    members: dict[str, Any] | None = None,
) -> int:
    """Take arguments of every type, and do something that cannot be undone."""
    return World.here().append(ref, text=text, number=number, flag=flag, members=members)


@tool(effect="read", open_world=False)
async def more_row() -> dict[str, Any]:
    """One row, with an id beyond what a double holds."""
    return {"id": 725653563933458433, "name": "row"}


@tool(effect="destructive")
async def more_delete(ref: Ref, id: int) -> int:  # noqa: A002 (what the row calls it)
    """Delete the row of this id."""
    World.here().append(ref, id=id)
    return id


class Rows(BaseModel):
    """A structured result."""

    rows: list[str]
    total: int


@tool(effect="read", open_world=False)
async def more_text(size: int, lead: str = "") -> str:
    """A text of so many two-byte characters after a lead."""
    return lead + "é" * size


@tool(effect="read", open_world=False)
async def more_rows(count: int) -> Rows:
    """So many rows of a hundred characters."""
    return Rows(rows=["y" * 100] * count, total=count)


class FewRows(BaseModel):
    """A structured result of at most ten rows."""

    rows: Annotated[list[str], Field(max_length=10)]


@tool(effect="read", open_world=False)
async def more_rows_too_many(count: int) -> FewRows:
    """As `more_rows`, where ten were promised."""
    return FewRows.model_construct(rows=["y" * 100] * count)


class Statistics(BaseModel):
    """Two figures."""

    mean: float
    most: float


@tool(effect="read", open_world=False)
async def more_statistics() -> Statistics:
    """Typed figures that are none."""
    return Statistics(mean=math.nan, most=math.inf)


@tool(effect="read", open_world=False)
async def more_figure() -> float | dict[str, Any]:
    """A bare figure that is none."""
    return -math.inf


@tool(effect="write")
async def more_write_invalid(ref: Ref) -> Annotated[int, Field(le=5)]:
    """Do it, then give back more than promised."""
    return World.here().append(ref) + 1_000


@tool(effect="read", open_world=False)
async def more_read_invalid(ref: Ref) -> Annotated[int, Field(le=5)]:
    """Give back more than promised."""
    World.here().mark(ref, "asked")
    return 7


@tool(effect="write")
async def more_partial(ref: Ref) -> Outcome[Effect]:
    """Do a part of it."""
    return Outcome.partial(Effect(ref=ref, number=World.here().append(ref)), "one of two was done")


@tool(effect="write")
async def more_says(ref: Ref, kind: str, sent: str = "yes") -> Outcome[Any]:
    """Report an outcome without doing anything."""
    World.here().mark(ref, "asked")
    made: dict[str, Outcome[Any]] = {
        "retryable": Outcome.retryable("busy", sent),  # type: ignore[arg-type]  # one of the three words
        "permanent": Outcome.permanent("no", sent),  # type: ignore[arg-type]  # as above
        "ambiguous": Outcome.ambiguous("who knows"),
        "unavailable": Outcome.unavailable("nobody there"),
        "invalid": Outcome(OutcomeClass.INVALID_REQUEST, message="not like this", sent=Sent.NO),
        "no_result": Outcome.no_result(),
    }
    return made[kind]


def _reply(ref: str, key: str | None) -> Outcome[Any]:
    """One request to a far side that answers with the status that `arm(ref, status=N)` sets."""
    world = World.here()
    world.mark(ref, f"asked:{key}" if key else "asked")
    switches = world.switches(ref)
    status = switches.get("status", 200)
    if status in {429, 503}:
        return Outcome.retryable(f"status {status}", "yes", after_s=switches.get("after_s"))
    if status != 200:
        return Outcome.permanent(f"status {status}")
    return Outcome.success({"ref": ref})


@tool(effect="read", open_world=False, retry=FEW)
async def retry_read(ref: Ref) -> Outcome[Any]:
    """Read with three attempts; of a closed world."""
    return _reply(ref, None)


@tool(effect="read", retry=FEW)
async def retry_look(ref: Ref) -> Outcome[Any]:
    """Read with three attempts; of the open world."""
    return _reply(ref, None)


@tool(effect="write")
async def retry_write(ref: Ref) -> Outcome[Any]:
    """Write as a write is by default."""
    return _reply(ref, None)


@tool(effect="write", idempotency="keyed", retry=FEW)
async def retry_write_idem(ref: Ref, call: Call) -> Outcome[Any]:
    """Write with three attempts under the action's key."""
    return _reply(ref, call.action_id)


@tool(effect="read", timeout_s=0.3, retry={"attempts": 2, "backoff_s": 0.02, "least_s": 1_000})
async def retry_short(ref: Ref) -> Outcome[Any]:
    """Read with two attempts, of which the second would need more time than there is."""
    return _reply(ref, None)


@tool(effect="read", timeout_s=60)
async def more_child(ref: Ref) -> int:
    """Read by way of a child process that takes its time; its id stands in W."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-ISc", "import sys; sys.stdin.read()", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        World.here().arm(ref, child=child.pid)
        World.here().mark(ref, "asked")
        return await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


@tool(effect="read", open_world=False, timeout_s=60)
def more_block(ref: Ref) -> str:
    """Block a thread until W lets go."""
    world = World.here()
    world.mark(ref, "asked")
    ends = time.monotonic() + 30
    while world.switches(ref).get("hold") and time.monotonic() < ends:
        threading.Event().wait(0.1)
    return ref


@tool(effect="read", open_world=False, timeout_s=60)
async def more_rude(ref: Ref) -> str:
    """Block the loop itself until W lets go, as no async tool should."""
    World.here().mark(ref, "asked")
    threading.Event().wait(1.5)
    return ref


@tool(effect="read", open_world=False)
async def more_tag(tag: str, wait_s: float = 0.0) -> str:
    """Give back a tag, after a while."""
    await asyncio.sleep(wait_s)
    return tag


def _at_most_50(amount: int) -> int:
    return min(amount, 50)


@tool(effect="destructive")
async def more_pay(ref: Ref, amount: int, notify: bool = True) -> dict[str, Any]:
    """Pay an amount and tell about it."""
    World.here().append(ref, amount=amount, notify=notify)
    return {"amount": amount, "notify": notify}


@tool(effect="destructive")
async def more_pay_clamped(ref: Ref, amount: Annotated[int, AfterValidator(_at_most_50)]) -> dict[str, Any]:
    """Pay at most 50, whatever is asked."""
    World.here().append(ref, amount=amount)
    return {"amount": amount}


@tool(effect="read", scopes=["kit:read"], open_world=False, tags=["scoped"])
async def scoped_read(ref: Ref) -> int:
    """Read what needs a scope."""
    World.here().mark(ref, "asked")
    return World.here().count(ref)


@tool(effect="write", scopes=["kit:write"], tags=["scoped"])
async def scoped_write(ref: Ref) -> int:
    """Write what needs a scope, and can be undone and asked about."""
    return World.here().append(ref)


@scoped_write.compensation()
async def scoped_unwrite(ref: str) -> int:
    """Undo it."""
    return World.here().append(ref, undone=True)


@tool(effect="destructive", scopes=["kit:write"], tags=["scoped"])
async def scoped_delete(ref: Ref) -> int:
    """Delete what needs a scope."""
    return World.here().append(ref)


@tool(effect="write", visibility="hidden")
async def more_hidden(ref: Ref) -> int:
    """Do what nobody is told about."""
    return World.here().append(ref)
