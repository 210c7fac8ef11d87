"""The tools of the crash tests, one of each protection class; each has one effect in the world.

Every one passes the points `guard` (before `guard()`), `effect` (after it, before the effect) and `answer` (after it).
"""

from __future__ import annotations

from counterfoil import Call, Outcome, Probe, tool

from .world import here


async def strike(name: str, note: str, call: Call, *, honours_key: bool = False, at: str = "") -> dict[str, str]:
    """Have the effect, unless killed, kept or stopped on the way; `at` goes before the names of the points."""
    world = here()
    await world.passes(f"{at}guard")
    await call.guard()
    await world.passes(f"{at}effect")
    reference = world.act(name, note, call.action_id, honours_key=honours_key)
    await world.passes(f"{at}answer")
    return {"reference": reference}


async def asked(call: Call) -> Probe:
    """What the world knows of a call."""
    world = here()
    world.log("probes", action_id=call.action_id)
    await world.passes("probe")
    reference = world.found(call.action_id)
    return Probe.absent() if reference is None else Probe.happened({"reference": reference})


@tool(effect="destructive")
async def plain(note: str, call: Call) -> dict[str, str]:
    """Nothing but a person can tell what became of it."""
    return await strike("plain", note, call)


@tool(effect="destructive")
async def probed(note: str, call: Call) -> dict[str, str]:
    """The far side can be asked."""
    return await strike("probed", note, call)


@probed.probe(timeout_s=5)
async def probed_happened(note: str, call: Call) -> Probe:
    """Ask the far side."""
    del note
    return await asked(call)


@tool(effect="destructive", idempotency="keyed")
async def keyed(note: str, call: Call) -> dict[str, str]:
    """The far side honours the key."""
    return await strike("keyed", note, call, honours_key=True)


@tool(effect="destructive", idempotency="keyed")
async def keyed_probed(note: str, call: Call) -> dict[str, str]:
    """It honours the key and can be asked."""
    return await strike("keyed_probed", note, call, honours_key=True)


@keyed_probed.probe(timeout_s=5)
async def keyed_probed_happened(note: str, call: Call) -> Probe:
    """Ask the far side."""
    del note
    return await asked(call)


@tool(effect="destructive")
async def accepting(note: str, call: Call) -> Outcome[dict[str, str]]:
    """The far side accepts it at once and has the effect later, when the test makes it."""
    del note
    world = here()
    await call.guard()
    await world.passes("effect")
    world.log("accepted", action_id=call.action_id)
    await world.passes("answer")
    return Outcome.accepted()


@accepting.probe(timeout_s=5)
async def accepting_happened(note: str, call: Call) -> Probe:
    """Ask the far side, which knows what it has accepted."""
    del note
    found = await asked(call)
    known = any(line["action_id"] == call.action_id for line in here().logged("accepted"))
    return Probe.pending() if found.answer == "absent" and known else found


@tool(effect="write", idempotency="natural")
async def natural(note: str, call: Call) -> dict[str, str]:
    """Repeating it is harmless as long as nothing else touched it; here each sending is counted all the same."""
    return await strike("natural", note, call)


@tool(effect="read")
async def open_read(note: str, call: Call) -> dict[str, str]:
    """A read of the open world: recorded before it is made."""
    return await strike("open_read", note, call)


@tool(effect="read", open_world=False)
async def closed_read(note: str, call: Call) -> dict[str, str]:
    """A read of a closed world: one fact, after it ran."""
    return await strike("closed_read", note, call)


@tool(effect="write", resources=["thing:{thing}"])
async def touch(thing: str, note: str, call: Call) -> dict[str, str]:
    """A write that holds one thing; the world logs when it began and when it ended."""
    world = here()
    world.log("intervals", thing=thing, note=note, edge="begins")
    reference = world.act("touch", note, call.action_id)
    await world.passes("touch")
    world.log("intervals", thing=thing, note=note, edge="ends")
    return {"reference": reference}


@tool(effect="destructive", idempotency="keyed", key_retention_s=60)
async def forgetful(note: str, call: Call) -> dict[str, str]:
    """The far side forgets keys after a minute: this one honours none, so that a late sending is seen."""
    return await strike("forgetful", note, call)


@tool(effect="destructive", idempotency="keyed")
async def unreachable_later(note: str, call: Call) -> Outcome[dict[str, str]]:
    """Its first attempt has its effect; the far side cannot be reached by any later one."""
    if call.attempt > 1:
        return Outcome.unavailable("the far side cannot be reached")
    return Outcome.success(await strike("unreachable_later", note, call, honours_key=True))


@tool(effect="destructive", retry={"attempts": 3, "backoff_s": 0.01, "least_s": 0.01})
async def unsure(note: str, call: Call) -> Outcome[dict[str, str]]:
    """Has its effect, and says that it failed in a way that leaves open whether it did."""
    await strike("unsure", note, call)
    return Outcome.retryable("the connection broke", sent="unknown")


@tool(effect="destructive", idempotency="keyed", retry={"attempts": 3, "backoff_s": 0.01, "least_s": 0.01})
async def lost_reply(note: str, call: Call) -> Outcome[dict[str, str]]:
    """Has its effect, and never learns of it."""
    await strike("lost_reply", note, call, honours_key=True)
    return Outcome.ambiguous("the reply was lost")
