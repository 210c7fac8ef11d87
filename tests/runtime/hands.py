"""The tools of the runtime's tests. Each does what the stage has in store for it, else its effect at once."""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator

from counterfoil import Call, Outcome, Probe, tool

Act = Callable[[Call], Any]


@dataclass
class Stage:
    """`calls` is who was called, with what reference, action and attempt; `effects` what came of it."""

    calls: list[tuple[str, str, str, int]] = field(default_factory=list)
    effects: list[tuple[str, str]] = field(default_factory=list)
    script: dict[str, list[Act]] = field(default_factory=lambda: defaultdict(list))
    held: list[asyncio.Event] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)

    def reset(self) -> None:
        self.forbidden = {"forbidden"}
        self.calls, self.effects, self.script, self.held = [], [], defaultdict(list), []

    def let_go(self) -> None:
        for event in self.held:
            event.set()

    def then(self, name: str, *acts: Act) -> None:
        """What the next calls of this tool do."""
        self.script[name].extend(acts)

    def hold(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """The next call of this tool says that it has begun, and goes on when it is let go."""
        begun, go = asyncio.Event(), asyncio.Event()
        self.held.append(go)

        async def act(_: Call) -> None:
            begun.set()
            await go.wait()

        self.then(name, act)
        return begun, go

    def count(self, name: str) -> int:
        return sum(1 for called in self.calls if called[0] == name)

    async def play(self, name: str, ref: str, call: Call) -> Any:
        self.calls.append((name, ref, call.action_id, call.attempt))
        act = self.script[name].pop(0) if self.script[name] else None
        if act is not None:
            done = act(call)
            done = await done if inspect.isawaitable(done) else done
            if done is not None:
                return done
        self.effects.append((name, ref))
        return {"ref": ref}


STAGE = Stage()


def lose(_: Call) -> Any:
    """It acted, perhaps; the answer is lost."""
    raise ConnectionError("the reply was lost")


def unsent(_: Call) -> Outcome[Any]:
    return Outcome.retryable("not reached", sent="no")


@tool(effect="write", resources=["order:{ref}"])
async def book(ref: str, call: Call) -> dict[str, str]:
    """Book an order."""
    done: dict[str, str] = await STAGE.play("book", ref, call)
    return done


@tool(effect="write")
async def note(ref: str, call: Call, text: str = "") -> dict[str, str]:
    """Leave a note."""
    done: dict[str, str] = await STAGE.play("note", ref, call)
    return done


@tool(effect="write", idempotency="keyed", key_retention_s=3600, resources=["order:{ref}"])
async def keyed(ref: str, call: Call) -> dict[str, str]:
    """Send with a key."""
    done: dict[str, str] = await STAGE.play("keyed", ref, call)
    return done


@tool(effect="write", idempotency="keyed", retry={"attempts": 3, "backoff_s": 0.01, "least_s": 0.0})
async def patient(ref: str, call: Call) -> dict[str, str]:
    """Send with a key, again and again."""
    done: dict[str, str] = await STAGE.play("patient", ref, call)
    return done


@tool(effect="write", retry={"attempts": 3, "backoff_s": 0.01, "least_s": 0.0})
async def stubborn(ref: str, call: Call) -> dict[str, str]:
    """Try again without a key."""
    done: dict[str, str] = await STAGE.play("stubborn", ref, call)
    return done


@tool(effect="write", idempotency="natural", resources=["order:{ref}"])
async def put(ref: str, call: Call) -> dict[str, str]:
    """Set a value."""
    done: dict[str, str] = await STAGE.play("put", ref, call)
    return done


@tool(effect="write", idempotency="natural")
async def put_loose(ref: str, call: Call, value: int = 0) -> dict[str, str]:
    """Set a value that nothing guards."""
    done: dict[str, str] = await STAGE.play("put_loose", ref, call)
    return done


@tool(effect="write")
async def probed(ref: str, call: Call) -> dict[str, str]:
    """Do what can be asked about."""
    done: dict[str, str] = await STAGE.play("probed", ref, call)
    return done


@probed.probe()
async def probed_happened(ref: str, call: Call) -> Probe:
    """Whether it happened."""
    done: Probe = await STAGE.play("probe", ref, call)
    return done


@tool(effect="destructive", idempotency="none", resources=["order:{ref}"])
async def refund(ref: str, call: Call) -> dict[str, str]:
    """Refund an order."""
    done: dict[str, str] = await STAGE.play("refund", ref, call)
    return done


@tool(effect="read", open_world=False)
async def peek(ref: str, call: Call) -> dict[str, str]:
    """Look at home."""
    done: dict[str, str] = await STAGE.play("peek", ref, call)
    return done


@tool(effect="read", open_world=False, resources=["shared:order:{ref}"])
async def peek_order(ref: str, call: Call) -> dict[str, str]:
    """Look at an order while nobody changes it."""
    done: dict[str, str] = await STAGE.play("peek_order", ref, call)
    return done


@tool(effect="read", retry={"attempts": 2, "backoff_s": 0.01, "least_s": 0.0})
async def look(ref: str, call: Call) -> dict[str, str]:
    """Look outside."""
    done: dict[str, str] = await STAGE.play("look", ref, call)
    return done


@tool(effect="read", open_world=False)
async def give(ref: str, call: Call) -> Any:
    """Give anything."""
    return await STAGE.play("give", ref, call)


@tool(effect="write", cost=2)
async def costly(ref: str, call: Call) -> dict[str, str]:
    """Do it, for two."""
    done: dict[str, str] = await STAGE.play("costly", ref, call)
    return done


@tool(effect="write", rate="3/m", resources=["order:{ref}"])
async def paced(ref: str, call: Call, n: int = 1) -> dict[str, str]:
    """Do it, not too often."""
    done: dict[str, str] = await STAGE.play("paced", ref, call)
    return done


def keys_that_quit(ref: str) -> list[str]:
    """Keys for references, apart from one that asks the process to end."""
    if ref == "quit":
        raise KeyboardInterrupt
    return [f"order:{ref}"]


@tool(effect="write", resources=keys_that_quit)
async def by_function(ref: str, call: Call) -> dict[str, str]:
    """Do it on what a function names."""
    done: dict[str, str] = await STAGE.play("by_function", ref, call)
    return done


def choosy(ref: str) -> str:
    """A check that refuses, changes, fails or asks the process to end."""
    if ref in STAGE.forbidden:
        raise ValueError("not this one")
    if ref == "failing":
        raise RuntimeError
    if ref == "quitting":
        raise SystemExit
    return "something else" if ref == "changed" else ref


def unquoted(password: str) -> str:
    """A check that tells what it was given."""
    if password:
        raise ValueError(f"{password} is no good")
    return password


@tool(effect="destructive")
async def picky(
    ref: Annotated[str, AfterValidator(choosy)], call: Call, password: Annotated[str, AfterValidator(unquoted)] = ""
) -> dict[str, str]:
    """Do it, if it likes what it is given."""
    assert password == ""
    done: dict[str, str] = await STAGE.play("picky", ref, call)
    return done


@tool(effect="destructive", scopes=["vault"], resources=["vault:{ref}"])
async def vault(ref: str, call: Call) -> dict[str, str]:
    """Open what only those with the scope may."""
    done: dict[str, str] = await STAGE.play("vault", ref, call)
    return done


@tool(effect="write")
async def ship(ref: str, call: Call) -> dict[str, str]:
    """Send a parcel."""
    done: dict[str, str] = await STAGE.play("ship", ref, call)
    return done


@ship.compensation()
async def unship(ref: str, output: dict[str, str], call: Call) -> dict[str, str]:
    """Call the parcel back."""
    assert output["ref"]
    done: dict[str, str] = await STAGE.play("unship", ref, call)
    return done


@tool(effect="write")
async def pay(ref: str, call: Call) -> dict[str, str]:
    """Pay, which only a person lets be undone."""
    done: dict[str, str] = await STAGE.play("pay", ref, call)
    return done


@pay.compensation(approval="operator", idempotency="keyed")
async def unpay(ref: str, call: Call) -> dict[str, str]:
    """Take the money back."""
    done: dict[str, str] = await STAGE.play("unpay", ref, call)
    return done


@tool(effect="write")
async def asked(ref: str, call: Call) -> dict[str, str]:
    """Do what can be asked about and undone."""
    done: dict[str, str] = await STAGE.play("asked", ref, call)
    return done


@asked.probe()
async def asked_happened(ref: str, call: Call) -> Probe:
    """Whether it happened."""
    done: Probe = await STAGE.play("asked_happened", ref, call)
    return done


@asked.compensation()
async def unasked(ref: str, call: Call) -> dict[str, str]:
    """Undo it."""
    done: dict[str, str] = await STAGE.play("unasked", ref, call)
    return done
