"""The tools of the random runs: each does what its world has in store for its reference, and the world counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from counterfoil import Call, Outcome, Probe, tool


@dataclass
class Far:
    """The far side: what each reference's calls come to, what was done, and whether two ever met on one resource.

    `actions` are the distinct actions by reference, `effects` how often something was done where no key is honoured.
    """

    fates: dict[str, str] = field(default_factory=dict[str, str])
    effects: Counter[str] = field(default_factory=Counter[str])
    done: set[str] = field(default_factory=set[str])
    busy: dict[str, str] = field(default_factory=dict[str, str])
    met: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def play(self, ref: str, on: str, call: Call, *, keyed: bool = False) -> Any:
        """One crossing."""
        other = self.busy.get(on)
        if other is not None and other != call.action_id:
            self.met.append((ref, on))
        self.busy[on] = call.action_id
        try:
            return await self._act(ref, call, keyed=keyed)
        finally:
            self.busy.pop(on, None)

    async def _act(self, ref: str, call: Call, *, keyed: bool) -> Any:
        fate = self.fates.get(ref, "success")
        await asyncio.sleep(0)
        if fate == "permanent":
            return Outcome.permanent("no")
        if fate == "lost before":
            self.fates[ref] = "success"
            raise ConnectionError("the far side hung up before it did anything")
        if not (keyed and call.action_id in self.done):
            self.effects[ref] += 1
        self.done.add(call.action_id)
        await asyncio.sleep(0)
        if fate == "lost after":
            self.fates[ref] = "success"
            raise ConnectionError("the far side hung up after it had done it")
        return Outcome.partial({"ref": ref}, "half of it") if fate == "partial" else {"ref": ref}


FAR = Far()


@tool(effect="write", resources=["on:{on}"])
async def do_write(ref: str, on: str, call: Call) -> dict[str, str]:
    """Do it."""
    done: dict[str, str] = await FAR.play(ref, on, call)
    return done


@tool(effect="write", resources=["on:{on}"], idempotency="keyed")
async def do_keyed(ref: str, on: str, call: Call) -> dict[str, str]:
    """Do it once for each key."""
    done: dict[str, str] = await FAR.play(ref, on, call, keyed=True)
    return done


@tool(effect="write", resources=["on:{on}"])
async def do_probed(ref: str, on: str, call: Call) -> dict[str, str]:
    """Do what can be asked about."""
    done: dict[str, str] = await FAR.play(ref, on, call)
    return done


@do_probed.probe()
async def do_probed_happened(ref: str, on: str, call: Call) -> Probe:
    """Whether it was done."""
    return Probe.happened({"ref": ref, "on": on}) if call.action_id in FAR.done else Probe.unknown()


@tool(effect="destructive", resources=["on:{on}"])
async def do_ask(ref: str, on: str, call: Call) -> dict[str, str]:
    """Do what a person decides about."""
    done: dict[str, str] = await FAR.play(ref, on, call)
    return done


@tool(effect="read", open_world=False)
async def do_read(ref: str, on: str) -> dict[str, str]:
    """Look."""
    await asyncio.sleep(0)
    return {"ref": ref, "on": on}
