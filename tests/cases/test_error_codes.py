"""CODES: each error code comes with the state, outcome and `sent` that the table of codes gives it, over real calls.

The seat holds every answer of every case against the table; here each code that can be provoked by now is provoked.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from counterfoil.registry.vocabulary import ErrorCode
from tests.kit.bench import OPERATOR, Bench, bench
from tests.kit.clock import SetClock
from tests.kit.rules import CODES
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
RULES: Final = """
[[policy]]
id = "not-so-much"
tool = "kit_write"
when = { "/amount" = { gt = 1000 } }
verdict = "deny"
reason = "That is too much."
"""
LATER: Final = {
    "blocked_definition", "budget_exhausted", "held", "plan_invalid", "plan_stale", "deadline_exceeded", "internal",
}  # fmt: skip
"""Codes of parts that are not there yet, of a budget of time, and of our own faults."""
Provoke = Callable[[Bench, Workshop], Awaitable[View]]
CASES: Final[dict[str, Provoke]] = {}


def provokes(name: str) -> Callable[[Provoke], Provoke]:
    """Register a way to get an error code; several ways to one code are told apart after a colon."""

    def add(provoke: Provoke) -> Provoke:
        CASES[name] = provoke
        return provoke

    return add


async def proposed(at: Bench, ref: str = "r") -> View:
    return await at.seat.call("more_pay", {"ref": ref, "amount": 1})


async def followed(at: Bench, view: View, wait_s: float = 20) -> View:
    await at.seat.ask("status", call_id=view["call_id"], wait_s=wait_s)
    return await at.seat.ask("status", call_id=view["call_id"])


async def held(at: Bench, tool: str, **more: str) -> View:
    at.world.arm("r", hold="before")
    view = await at.seat.call(tool, {"ref": "r"}, wait_s=0, **more)
    await at.world.reached("r", "asked")
    return view


@provokes("unknown_tool")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("kit_nothing", {})


@provokes("not_visible")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.ask("tool_call", name="kit_write", arguments={"ref": "r"})


@provokes("stale_schema")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("kit_write", {"ref": "r"}, schema_digest="00000000")


@provokes("not_read_only")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.read("kit_write", {"ref": "r"})


@provokes("insufficient_scope")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("scoped_write", {"ref": "r"})


@provokes("denied")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("kit_write", {"ref": "r", "amount": 1_001})


@provokes("invalid_arguments")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("kit_write", {"reff": "r"})


@provokes("invalid_arguments:after dispatch")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("more_says", {"ref": "r", "kind": "invalid"})


@provokes("approval_rejected")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await proposed(at)
    await at.app.runtime.decide(view["approval"]["approval_id"], "reject", decider=OPERATOR)
    return await followed(at, view)


@provokes("approval_expired")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await proposed(at)
    _clock(at).at += timedelta(days=2)
    late: View = (await at.app.runtime.decide(view["approval"]["approval_id"], "approve", decider=OPERATOR)).wire()
    assert late["error"]["code"] == "approval_invalid"
    return await followed(at, view)


@provokes("authority_expired")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await proposed(at)
    at.parts.scopes_now = lambda _: None  # as after its subject was removed from the configuration
    await at.app.runtime.decide(view["approval"]["approval_id"], "approve", decider=OPERATOR)
    return await followed(at, view)


@provokes("in_progress")
async def _(at: Bench, _shop: Workshop) -> View:
    first = await held(at, "kit_write", idempotency_key="K")
    view = await at.seat.call("kit_write", {"ref": "r"}, idempotency_key="K")
    assert view["error"]["details"]["call_id"] == first["call_id"]
    at.world.release("r")
    return view


@provokes("key_conflict")
async def _(at: Bench, _shop: Workshop) -> View:
    first = await at.seat.call("kit_write", {"ref": "r"}, idempotency_key="K")
    view = await at.seat.call("kit_write", {"ref": "other"}, idempotency_key="K")
    assert view["error"]["details"]["call_id"] == first["call_id"]
    return view


@provokes("ambiguous")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("kit_fail_write", {"ref": "r"})


@provokes("ambiguous:of another call")
async def _(at: Bench, _shop: Workshop) -> View:
    await at.seat.call("kit_fail_write", {"ref": "r"})
    return await at.seat.call("kit_fail_write", {"ref": "other"})


@provokes("tool_failed")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.read("kit_fail")


@provokes("tool_failed:of a write that may have happened")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await at.seat.call("more_says", {"ref": "r", "kind": "permanent", "sent": "unknown"})
    assert view["error"]["details"]["effect"] == "unknown"
    return view


@provokes("tool_failed:of a write that may be tried again")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await at.seat.call("more_says", {"ref": "r", "kind": "retryable", "sent": "no"})
    assert view["error"]["details"]["effect"] == "none"
    return view


@provokes("output_invalid")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("more_write_invalid", {"ref": "r"})


@provokes("resource_busy")
async def _(at: Bench, _shop: Workshop) -> View:
    await held(at, "kit_write_idem")
    parts = at.parts
    parts.settings = replace(parts.settings, queue_wait_s=0)  # an hour, otherwise
    view = await at.seat.call("kit_write_idem", {"ref": "r", "amount": 2}, wait_s=20)
    at.world.release("r")
    return view


@provokes("rate_limited")
async def _(at: Bench, _shop: Workshop) -> View:
    for number in range(3):
        await proposed(at, f"r{number}")
    return await proposed(at, "one too many")


@provokes("repeated_failure")
async def _(at: Bench, _shop: Workshop) -> View:
    for _ in range(5):
        await at.seat.read("kit_fail")
    return await at.seat.read("kit_fail")


@provokes("cancelled")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await proposed(at)
    await at.seat.ask("cancel", call_id=view["call_id"])
    return await followed(at, view)


@provokes("unavailable:after dispatch")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.call("more_says", {"ref": "r", "kind": "unavailable"})


@provokes("unavailable")
async def _(at: Bench, _shop: Workshop) -> View:
    await at.seat.ask("tool_search", names=["kit_write"])
    at.app.runtime.begin_stop(0)
    return await at.seat.call("kit_write", {"ref": "r"})


@provokes("cannot_record")
async def _(at: Bench, shop: Workshop) -> View:
    with broken(shop):
        return await at.seat.call("kit_write", {"ref": "r"}, wait_s=20)


@provokes("cannot_record:of a read that ran")
async def _(at: Bench, shop: Workshop) -> View:
    with broken(shop):
        view = await at.seat.read("kit_read", {"ref": "r"})
    assert (view["sent"], view["output"]) == ("unknown", None)
    return view


@provokes("not_found")
async def _(at: Bench, _shop: Workshop) -> View:
    return await at.seat.ask("status", call_id="call_0")


@provokes("version_conflict")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await at.seat.call("kit_fail_write", {"ref": "r"})
    return await at.seat.ask("reconcile", call_id=view["call_id"], expected_version=0)


@provokes("approval_invalid")
async def _(at: Bench, _shop: Workshop) -> View:
    view = await proposed(at)
    return await at.seat.ask("confirm", approval_id=view["approval"]["approval_id"], digest="0" * 64)


class broken:  # noqa: N801 (used as a word of the sentence)
    """A ledger whose events have no place for as long as the block runs."""

    def __init__(self, shop: Workshop) -> None:
        self._path = shop.ledger

    def __enter__(self) -> None:
        self._rename("events", "elsewhere")

    def __exit__(self, *_: object) -> None:
        self._rename("elsewhere", "events")

    def _rename(self, old: str, new: str) -> None:
        with closing(sqlite3.connect(self._path, timeout=10)) as connection:
            connection.execute("PRAGMA legacy_alter_table = ON")
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
            connection.commit()


def _clock(at: Bench) -> SetClock:
    clock = at.parts.clock
    assert isinstance(clock, SetClock)
    return clock


@pytest.mark.promise("CODES")
@pytest.mark.parametrize("name", CASES)
async def test_a_code_comes_with_what_the_table_says(shop: Workshop, name: str) -> None:
    code = name.partition(":")[0]
    limits = {"approvals": "pending_max = 3\nvalid_s = 86400", "runs": "authority_s = 3600"}
    scopes = {"principals_local": 'scopes = ["kit:read"]'}
    async with bench(shop, RULES, clock=SetClock(), **limits, **scopes) as at:
        view = await asyncio.wait_for(CASES[name](at, shop), 30)
        assert view["error"]["code"] == code, view
        later = {"rate_limited", "resource_busy", "cannot_record", "unavailable"}
        retryable = code in later or (code == "tool_failed" and view["outcome"] == "retryable_failure")
        assert view["error"]["retryable"] is retryable
        assert code == "in_progress" or "attempts" not in view or view["outcome"] is not None


@pytest.mark.promise("CODES")
def test_every_code_that_can_be_provoked_is_provoked() -> None:
    provoked = {name.partition(":")[0] for name in CASES}
    assert CODES.keys() | {"in_progress"} == {code.value for code in ErrorCode}
    assert provoked | LATER == CODES.keys() | {"in_progress"}
    assert not provoked & LATER
