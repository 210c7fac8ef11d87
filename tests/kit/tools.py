"""The kit's tools, registered as anybody's are: a configuration names this module. What they do stands in W.

The address of W comes from the environment. Every handler marks `asked` when it begins and `done` once its effect is
there; a held one waits in between (see `World`).
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Annotated, Any

from pydantic import BaseModel, Field, JsonValue

from counterfoil import Call, Outcome, Probe, tool
from tests.kit.world import World

Ref = Annotated[str, Field(description="What the effect is filed under")]


class Effect(BaseModel):
    """One effect as W tells it."""

    ref: str
    number: int


class Count(BaseModel):
    """How often something was done."""

    ref: str
    effects: int


async def act(ref: str, key: str | None = None, **data: object) -> Outcome[Effect]:
    """One request to the far side: what `arm` says for this reference happens, in this order."""
    world = World.here()
    world.mark(ref, "asked")
    switches = world.switches(ref)
    if "refuse" in switches:
        return Outcome.permanent(switches["refuse"])
    await world.opened(ref, "before")
    if switches.get("drop") == "before":
        raise ConnectionError("the far side hung up before it did anything")
    if switches.get("doubt") == "before":
        return Outcome.permanent("it says error", sent="unknown")
    number = world.append(ref, key, **data)
    world.mark(ref, "done")
    await world.opened(ref, "after")
    if switches.get("drop") == "after":
        raise ConnectionError("the far side hung up after it had done it")
    if switches.get("doubt") == "after":
        return Outcome.permanent("it says error", sent="unknown")
    return Outcome.success(Effect(ref=ref, number=number))


async def look(ref: str) -> Outcome[Count]:
    world = World.here()
    world.mark(ref, "asked")
    await world.opened(ref, "before")
    if world.switches(ref).get("drop") == "before":
        raise ConnectionError("the far side hung up")
    return Outcome.success(Count(ref=ref, effects=world.count(ref)))


@tool(effect="read", open_world=False)
async def kit_read(ref: Ref) -> Outcome[Count]:
    """Count what was done under a reference; of a closed world."""
    return await look(ref)


@tool(effect="read")
async def kit_look(ref: Ref) -> Outcome[Count]:
    """Count what was done under a reference; of the open world."""
    return await look(ref)


@tool(effect="read", open_world=False)
async def kit_echo(value: JsonValue) -> JsonValue:
    """Give back what came."""
    return value


@tool(effect="read", open_world=False)
async def kit_emit(ref: Ref) -> Any:
    """Give back the payload that `arm(ref, payload=TEXT)` set, read as Python's lenient JSON (NaN, lone surrogates)."""
    return json.loads(World.here().switches(ref)["payload"])


@tool(effect="write")
async def kit_emit_write(ref: Ref) -> Any:
    """As `kit_emit`, after an effect."""
    await act(ref)
    return json.loads(World.here().switches(ref)["payload"])


@tool(effect="write")
async def kit_write(ref: Ref, amount: int = 10, note: str | None = None) -> Outcome[Effect]:
    """Do it once more; without a key, without a probe, without resources."""
    return await act(ref, amount=amount, note=note)


def _seen(ref: str, on: str, amount: int) -> list[str]:
    del amount
    World.here().mark(ref, "admitted")
    return [f"on:{on or ref}"]


@tool(effect="write", resources=_seen)
async def kit_write_on(ref: Ref, on: str = "", amount: int = 10) -> Outcome[Effect]:
    """As `kit_write`, on a named resource (else its own); marks `admitted` before its dispatch is recorded."""
    return await act(ref, amount=amount)


@tool(effect="write", idempotency="keyed", resources=["ref:{ref}"])
async def kit_write_idem(ref: Ref, call: Call, amount: int = 10) -> Outcome[Effect]:
    """Do it once for each key; the far side honours the action's id."""
    return await act(ref, call.action_id, amount=amount)


@tool(effect="write", resources=["ref:{ref}"])
async def kit_write_query(ref: Ref, call: Call, amount: int = 10) -> Outcome[Effect]:
    """Do it once more; the far side can be asked what became of it."""
    return await act(ref, call.action_id, amount=amount)


@kit_write_query.probe(timeout_s=5)
async def kit_write_query_happened(ref: str, call: Call) -> Probe:
    """Look for the effect that carries this action's id; `arm(ref, probe="pending" | "unknown")` says otherwise."""
    world = World.here()
    world.mark(ref, "probed")
    said = world.switches(ref).get("probe")
    if said is not None:
        return Probe.pending() if said == "pending" else Probe.unknown()
    keys = world.keys(ref)
    if call.action_id not in keys:
        return Probe.absent()
    return Probe.happened({"ref": ref, "number": keys.index(call.action_id) + 1})


@tool(effect="destructive", resources=["ref:{ref}"])
async def kit_delete(ref: Ref, amount: int = 10) -> Outcome[Effect]:
    """Take it away; an operator decides."""
    return await act(ref, amount=amount)


@tool(effect="destructive", approval="operator")
async def kit_purge(ref: Ref) -> Outcome[Effect]:
    """Take everything away; its contract asks for an operator."""
    return await act(ref)


@tool(effect="write", resources=["counter:{ref}"])
async def kit_rmw(ref: Ref) -> Outcome[Effect]:
    """Read, wait, append, write, on a named resource; the effect says what was read."""
    world = World.here()
    world.mark(ref, "asked")
    read = world.count(ref)
    await asyncio.sleep(0)
    await world.opened(ref, "before")
    return Outcome.success(Effect(ref=ref, number=world.append(ref, read=read)))


@tool(effect="read", timeout_s=60)
async def kit_sleep(seconds: float) -> float:
    """Sleep on the loop."""
    World.here().mark("sleep", "asked")
    await asyncio.sleep(seconds)
    return seconds


@tool(effect="read", timeout_s=60)
def kit_block(seconds: float) -> float:
    """Block a worker thread."""
    World.here().mark("block", "asked")
    threading.Event().wait(seconds)
    return seconds


@tool(effect="write", timeout_s=60)
def kit_block_write(ref: Ref, seconds: float = 0) -> Effect:
    """Block a worker thread, then do it."""
    world = World.here()
    world.mark(ref, "asked")
    threading.Event().wait(seconds)
    number = world.append(ref)
    world.mark(ref, "done")
    return Effect(ref=ref, number=number)


@tool(effect="read")
async def kit_fail(message: str = "no") -> None:
    """Raise."""
    raise ValueError(message)


@tool(effect="write")
async def kit_fail_write(ref: Ref, message: str = "no") -> None:
    """Do it, then raise."""
    await act(ref)
    raise ValueError(message)


async def _ask_far_side(what: str, ref: str) -> Outcome[Effect]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kit.far_side", what, ref, stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await process.communicate()
    if not answer:
        raise ConnectionError(f"the far side ended with {process.returncode} and gave no answer")
    said = json.loads(answer)
    if "error" in said:
        return Outcome.permanent(said["error"])
    return Outcome.success(Effect(ref=ref, number=said["number"]))


@tool(effect="write", resources=["ref:{ref}"])
async def kit_far_write(ref: Ref) -> Outcome[Effect]:
    """Have it done by a child process, which may die before or after it."""
    return await _ask_far_side("write", ref)


@tool(effect="read", retry={"attempts": 2, "backoff_s": 0.01, "least_s": 0})
async def kit_far_read(ref: Ref) -> Outcome[Effect]:
    """Have it counted by a child process, which may die."""
    return await _ask_far_side("read", ref)
