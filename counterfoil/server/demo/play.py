"""The play: a refund whose reply is lost, and a server that is killed in the middle of another. Nothing happens twice.

Every scene says in one line what it proves. What the order service did is read from its own database at the end, not
from anything that we recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp import Client, MCPError
from rich.console import RenderableType
from rich.text import Text

from ..cli.answer import View, part, parts
from ..cli.render import headed, timeline
from .order_facts import KILLED_ORDER, LATE_ORDER
from .orders import Fault
from .stage import PlayError, Stage, set_stage

SCENE_LIMIT_S: Final = 40.0
POLL_S: Final = 0.1
HOLD_S: Final = 60.0

Say = Callable[[RenderableType], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What the play showed; `effects` is counted in the order service's own database."""

    call_id: str
    before: str | None
    after: str | None
    effects: int
    killed: bool
    restarted: bool
    ledger: View
    second_effects: int
    requests: tuple[int, int]
    events: list[View] = field(default_factory=list[View])

    @property
    def ok(self) -> bool:
        """True if every promise of the play was kept."""
        return (
            (self.before, self.after) == ("ambiguous", "success")
            and (self.effects, self.second_effects) == (1, 1)
            and self.killed
            and self.restarted
            and bool(self.ledger.get("ok"))
        )

    def wire(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return {
            "ok": self.ok,
            "call_id": self.call_id,
            "before": self.before,
            "after": self.after,
            "effects": self.effects,
            "killed": self.killed,
            "restarted": self.restarted,
            "ledger": dict(self.ledger),
        }


async def play(say: Say, keep: Path | None) -> Result:
    """Play it once, from the first process to the verified chain.

    Raises:
        PlayError: something did not go as the play needs it.
    """
    started = time.monotonic()
    async with set_stage(keep) as stage:
        scenes = _Scenes(stage, say)
        async with stage.client() as client:
            lost = await scenes.lost_reply(client)
            second = await scenes.held_in_the_middle(client)
            first_server = stage.server_id()
            stage.kill_server()
        killed = not stage.is_alive(first_server)
        scenes.line(
            "Kill", f"a second refund is made; our server (process {first_server}) gets SIGKILL before the reply."
        )
        async with stage.client() as client:
            restarted = stage.server_id() != first_server
            await scenes.restarted(client, second)
            events = (await ask(client, "status", call_id=lost.call_id, after_seq=0))["events"]
        result = await _count(stage, lost, events, killed=killed, restarted=restarted)
    _tell(say, result, time.monotonic() - started, keep)
    return result


@dataclass(frozen=True, slots=True)
class _Lost:
    call_id: str
    before: str | None
    after: str | None


class _Scenes:
    """The scenes in their order; each asks a real client and says what the answer proves."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self.stage = stage
        self.say = say
        self.digest = ""  # of the refund's schema, as the search showed it

    async def lost_reply(self, client: Client) -> _Lost:
        """Search, read, propose, decide; the reply is lost; nobody guesses; the probe finds it."""
        self.line("Search", await self._searched(client))
        order = (await ask(client, "tool_read", name="orders_get", arguments={"order_id": LATE_ORDER}))["output"]
        self.line("Read", f"{LATE_ORDER} is {order['days_late']} days late; {order['total']} was paid.")
        await self.stage.misbehave(Fault.DROP_REPLY)
        view = await self._proposed(client, LATE_ORDER, order["total"])
        self.line("Call", "the refund is destructive: nothing is sent, the exact proposal waits for a person.")
        await self._decided(view)
        self.line(
            "Approve", "the demo plays the person, out of band: `counterfoil approvals approve` in another process."
        )
        before = await until(client, view["call_id"], "awaiting_reconciliation")
        self.line(
            "Lost", f"the refund was made, its reply was not: the answer is '{before['outcome']}', never 'failed'."
        )
        await self._refused_again(client, view["call_id"], order["total"])
        self.line("Again", "the model rephrases and calls again: refused, naming the call whose outcome is unknown.")
        after = await ask(client, "reconcile", call_id=view["call_id"])
        self.line(
            "Reconcile", f"the tool's probe looks for this call's key at the order service: '{after['outcome']}'."
        )
        return _Lost(view["call_id"], before["outcome"], after["outcome"])

    async def held_in_the_middle(self, client: Client) -> str:
        """A second refund is sent and made; its reply does not come yet, so no outcome can be recorded."""
        order = (await ask(client, "tool_read", name="orders_get", arguments={"order_id": KILLED_ORDER}))["output"]
        await self.stage.misbehave(Fault.HOLD_AFTER, HOLD_S)
        view = await self._proposed(client, KILLED_ORDER, order["total"])
        await self._decided(view)
        await _until_refunded(self.stage, KILLED_ORDER)
        return str(view["call_id"])

    async def restarted(self, client: Client, call_id: str) -> None:
        """A new server finds what the old one left, and asks instead of sending again."""
        after = await until(client, call_id, "settled")
        if after["outcome"] != "success":
            raise PlayError(f"after the restart the second refund is {after['outcome']}, not success: {after['error']}")
        self.line("Restart", "a new server finds a dispatch without an outcome, asks the probe by itself: 'success'.")

    def line(self, title: str, proves: str) -> None:
        """One scene in one line."""
        self.say(headed(title, proves))

    async def _searched(self, client: Client) -> str:
        found = await ask(client, "tool_search", query="refund a late order")
        digests = {match["name"]: match["schema_digest"] for match in parts(found, "matches")}
        if "orders_refund" not in digests:
            raise PlayError(f"the search for a refund found {list(digests)} {found.get('error') or ''}")
        self.digest = digests["orders_refund"]
        return f"'refund a late order' finds orders_refund, one of {len(digests)} matches; its schema was in no list."

    async def _proposed(self, client: Client, order_id: str, amount: float) -> View:
        view = await self._refund(client, order_id, amount, "Sorry that it is late.")
        if view["state"] != "awaiting_approval":
            raise PlayError(f"the refund is {view['state']}, not awaiting_approval: {view['error']}")
        return view

    async def _refund(self, client: Client, order_id: str, amount: float, note: str) -> View:
        arguments = {"order_id": order_id, "amount": amount, "note": note}
        return await ask(client, "tool_call", name="orders_refund", arguments=arguments, schema_digest=self.digest)

    async def _decided(self, view: View) -> None:
        approval = view["approval"]
        note = "Decided by the demo in the person's place."
        await self.stage.command(
            "approvals", "approve", approval["approval_id"], "--digest", approval["digest"], "--note", note
        )

    async def _refused_again(self, client: Client, call_id: str, amount: float) -> None:
        view = await self._refund(client, LATE_ORDER, amount, "Our apologies for the delay.")
        error = part(view, "error")
        named = part(error, "details").get("call_id")
        if (view["state"], error.get("code"), named) != ("refused", "ambiguous", call_id):
            raise PlayError(f"the rephrased refund is {view['state']}: {error}")


async def ask(client: Client, base_tool: str, /, **arguments: Any) -> View:  # noqa: ANN401 (a tool's arguments)
    """Call a base tool; its view.

    Raises:
        PlayError: no answer in time, or one without a view.
    """
    try:
        async with asyncio.timeout(SCENE_LIMIT_S):
            result = await client.call_tool(base_tool, arguments)
    except (TimeoutError, MCPError) as error:
        raise PlayError(f"{base_tool} was not answered: {error!r}") from error
    view: View | None = result.structured_content
    if view is None:
        raise PlayError(f"{base_tool} answered without structured content: {result.content}")
    return view


async def until(client: Client, call_id: str, state: str) -> View:
    """Follow a call until it is in this state.

    Raises:
        PlayError: it is not, within the limit of a scene.
    """
    view: View = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(SCENE_LIMIT_S):
            while view.get("state") != state:
                await asyncio.sleep(POLL_S)
                view = await ask(client, "status", call_id=call_id)
    if view.get("state") != state:
        raise PlayError(f"{call_id} is {view.get('state')} after {SCENE_LIMIT_S:.0f} s, not {state}")
    return view


async def _until_refunded(stage: Stage, order_id: str) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(SCENE_LIMIT_S):
            while stage.orders.count(order_id)[0] == 0:  # noqa: ASYNC110 (it waits for another process's database)
                await asyncio.sleep(POLL_S)
    if stage.orders.count(order_id)[0] == 0:
        raise PlayError(f"no refund of {order_id} reached the order service within {SCENE_LIMIT_S:.0f} s")


async def _count(stage: Stage, lost: _Lost, events: list[View], *, killed: bool, restarted: bool) -> Result:
    first, second = stage.orders.count(LATE_ORDER), stage.orders.count(KILLED_ORDER)
    verified = await stage.command("ledger", "verify")
    return Result(
        call_id=lost.call_id,
        before=lost.before,
        after=lost.after,
        effects=first[0],
        killed=killed,
        restarted=restarted,
        ledger=verified,
        second_effects=second[0],
        requests=(first[1], second[1]),
        events=events,
    )


def _tell(say: Say, result: Result, seconds: float, keep: Path | None) -> None:
    asked = f"{result.requests[0]} and {result.requests[1]} requests"
    made = f"{result.effects} and {result.second_effects} refunds"
    say(headed("Count", f"the order service's own database: {made}, from {asked}."))
    say("")
    say(Text(f"What the ledger has of {result.call_id}", style="bold"))
    say(timeline(result.events))
    ledger = result.ledger
    held = "every link holds" if ledger["ok"] else f"damaged: {ledger['problems']}"
    say(Text(f"\nledger verify: {ledger['events']} events in {ledger['runs']} chains, {held}."))
    verdict = "Nothing happened twice, and nothing was called failed that was not." if result.ok else "The play failed."
    say(Text(f"{verdict} ({seconds:.0f} s)", style="bold green" if result.ok else "bold red"))
    if keep is not None:
        say(Text(f"Left for you in {keep}: counterfoil.toml, the ledger, orders.db, server.log", style="dim"))
