"""The play: a chain whose refund loses its reply and whose server is killed on the way. Nothing happens twice.

Every scene says in one line what it proves. What the order service did is read from its own database at the end, not
from anything that we recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mcp import Client

from ..cli.answer import View, part, parts
from ..cli.render import headed
from .asking import ask, until, wait_for
from .chain import FAILING, PLAN
from .order_facts import LATE_ORDER, OTHER_ORDER
from .orders import Fault
from .result import Result, Say
from .stage import PlayError, Stage, set_stage
from .timeline import Life, timeline

RUN_WAIT_S: Final = 20.0
HOLD_S: Final = 60.0
HELD: Final = 2
"""How many messages are out without a reply when our server is killed: the plan's `max_parallel`."""


async def play(say: Say, keep: Path | None) -> Result:
    """Play it once, from the first process to the verified chain.

    Raises:
        PlayError: something did not go as the play needs it.
    """
    started = time.monotonic()
    async with set_stage(keep) as stage:
        scenes = _Scenes(stage, say)
        async with stage.client() as client:
            await scenes.searched(client)
            await scenes.planned(client)
            await scenes.run(client)
            await scenes.decided(client)
            await scenes.asked_again(client)
            await scenes.reconciled_and_killed(client)
        async with stage.client() as client:
            await scenes.restarted(client)
            await scenes.failed_and_undone(client)
        result = await scenes.counted()
    for part_of_it in result.told(time.monotonic() - started):
        say(part_of_it)
    if keep is not None:
        say(headed("Left", f"for you in {keep}: counterfoil.toml, ledger, orders.db, server.log"))
    return result


class _Scenes:
    """The scenes in their order; each asks a real client and says what the answer proves."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self.stage = stage
        self.say = say
        self.digest = ""  # of the refund's schema, as the search showed it
        self.plan_id = self.run_id = self.call_id = self.status = self.compensation = ""
        self.before: str | None = None
        self.after: str | None = None
        self.contacts = 0
        self.first_server = 0
        self.lives: list[Life] = []
        self.events: Sequence[View] = []

    def line(self, title: str, proves: str) -> None:
        """One scene in one line."""
        self.say(headed(title, proves))

    async def searched(self, client: Client) -> None:
        """The tools of the chain are in no list; a search in plain words finds them."""
        found = await ask(client, "tool_search", query="refund a late order")
        digests = {match["name"]: match["schema_digest"] for match in parts(found, "matches")}
        if "orders_refund" not in digests:
            raise PlayError(f"the search for a refund found {list(digests)} {found.get('error') or ''}")
        self.digest = digests["orders_refund"]
        self.line("Search", f"'refund a late order' finds orders_refund, one of {len(digests)} matches.")

    async def planned(self, client: Client) -> None:
        """The whole chain is checked, and nothing runs."""
        view = await ask(client, "plan", **PLAN)
        if view.get("error"):
            raise PlayError(f"the plan was refused: {view.get('error')} {view.get('errors')}")
        self.plan_id = view["plan_id"]
        waves = " > ".join(" + ".join(wave) for wave in view["waves"])
        self.line("Plan", f"{waves}: checked, nothing runs yet.")
        asks = "; ".join(f"{step['step']} needs the word of an {step['approval']}" for step in view["approvals"])
        self.line("Foreseen", f"{asks}.")

    async def run(self, client: Client) -> None:
        """The server drives the chain up to what only a person can decide."""
        await self.stage.misbehave(Fault.DROP_REPLY)
        self.run_id = (await ask(client, "run", plan_id=self.plan_id, wait_s=RUN_WAIT_S))["run_id"]
        view = await until(client, self.run_id, "awaiting_approval")
        order = view["outputs"]["order"]
        self.contacts = len(order["contacts"])
        events = (await ask(client, "status", run_id=self.run_id, after_seq=0))["events"]
        how = "side by side" if together(events, "policy", "shipment") else "one after the other"
        self.line("Run", f"{LATE_ORDER} is {order['days_late']} days late; policy and shipment are read {how}.")
        self.line("Wait", "no refund is sent: a person must decide on the exact proposal.")

    async def decided(self, client: Client) -> None:
        """A person agrees in another process; the refund is made and its reply is lost."""
        await self._approve(await ask(client, "status", run_id=self.run_id), "In the person's place.")
        self.line("Approve", "the demo plays the person: `counterfoil approvals approve`, elsewhere.")
        view = await until(client, self.run_id, "awaiting_reconciliation")
        self.call_id = next(step["call_id"] for step in view["steps"] if step["id"] == "refund")
        self.before = (await ask(client, "status", call_id=self.call_id))["outcome"]
        self.line("Lost", f"it is made, but its reply is lost: '{self.before}', never 'failed'.")

    async def asked_again(self, client: Client) -> None:
        """An impatient model repeats the run, and then the refund in other words: nothing is sent."""
        again = await ask(client, "run", plan_id=self.plan_id)
        if (again["run_id"], again["replayed"]) != (self.run_id, True):
            raise PlayError(f"the same plan again is {again['run_id']}, replayed: {again['replayed']}")
        arguments = {"order_id": LATE_ORDER, "amount": 10, "note": "Our apologies for the delay."}
        view = await ask(client, "tool_call", name="orders_refund", arguments=arguments, schema_digest=self.digest)
        error = part(view, "error")
        named = part(error, "details").get("call_id")
        if (view["state"], error.get("code"), named) != ("refused", "ambiguous", self.call_id):
            raise PlayError(f"the rephrased refund is {view['state']}: {error}")
        self.line("Again", "the plan again: the same run. The refund in other words: refused.")

    async def reconciled_and_killed(self, client: Client) -> None:
        """What the order service has under the call's own key settles it; our server dies before the run is through."""
        await self.stage.misbehave(Fault.HOLD_AFTER, HOLD_S, HELD)
        async with asyncio.TaskGroup() as asking:
            asking.create_task(self._reconcile(client))
            await self._settled(client)
            self.line("Reconcile", f"the probe looks for this call's key: '{self.after}'; the run goes on.")
            await self._killed()

    async def _reconcile(self, client: Client) -> None:
        with suppress(PlayError):  # its answer waits for the run, and may die with our server
            await ask(client, "reconcile", run_id=self.run_id)

    async def _settled(self, client: Client) -> None:
        async def settled() -> bool:
            view = await ask(client, "status", call_id=self.call_id)
            self.after = view["outcome"]
            return bool(view["state"] == "settled")

        await wait_for(settled, lambda: f"the refund is still {self.after}")

    async def _killed(self) -> None:
        orders = self.stage.orders

        async def out() -> bool:
            return orders.messages().made >= HELD

        await wait_for(out, lambda: f"{orders.messages().made} of {HELD} messages reached the order service")
        self.first_server, since = self.stage.server_id(), self.stage.server_since()
        self.stage.kill_server()
        self.lives.append(Life(since, datetime.now(UTC), died=True))
        out_of = f"{HELD} of {self.contacts} messages out, no reply in"
        self.line("Kill", f"{out_of}: SIGKILL to our server ({self.first_server}).")

    async def restarted(self, client: Client) -> None:
        """A new server takes the run up, unasked: it looks for what was sent, and sends what was not."""
        self.status = (await until(client, self.run_id, "succeeded"))["status"]
        self.lives.append(Life(self.stage.server_since(), datetime.now(UTC)))
        self.events = (await ask(client, "status", run_id=self.run_id, after_seq=0))["events"]
        found, sent = since_the_last_claim(self.events)
        self.line("Restart", f"a new one goes on by itself: {found} found by key, {sent} sent: '{self.status}'.")

    async def failed_and_undone(self, client: Client) -> None:
        """Another chain fails after its refund: that is taken back, by a call that a person decides about anew."""
        view = await ask(client, "run", plan=FAILING, wait_s=0)
        run_id = view["run_id"]
        await self._approve(await until(client, run_id, "awaiting_approval"), "In the person's place: pay it back.")

        async def undoing() -> bool:
            found = await ask(client, "status", run_id=run_id)
            return bool(found["compensation"] == "running" and found["pending"])

        await wait_for(undoing, lambda: f"nothing of {run_id} waits to be undone")
        view = await ask(client, "status", run_id=run_id)
        failed = next(step for step in view["steps"] if step["id"] == "again")
        said = part(failed, "error").get("message")
        self.line("Fail", f"a second chain refunds, then fails: {said}.")
        await self._approve(view, "In the person's place: take it back.")
        view = await until(client, run_id, "failed")
        self.compensation = view["compensation"]
        fates = ", ".join(f"{one['step']} {one['state']}" for one in view["compensations"])
        self.line("Undo", f"a person decides about that anew: {fates}, '{self.compensation}'.")

    async def _approve(self, view: View, note: str) -> None:
        (pending,) = view["pending"]
        named = (pending["approval_id"], "--digest", pending["digest"])
        await self.stage.command("approvals", "approve", *named, "--note", note)

    async def counted(self) -> Result:
        """What the order service has, and what the ledger says of it; its chains are verified."""
        stage = self.stage
        return Result(
            run_id=self.run_id,
            call_id=self.call_id,
            before=self.before,
            after=self.after,
            run_status=self.status,
            refunds=stage.orders.refunds(LATE_ORDER),
            undone=stage.orders.refunds(OTHER_ORDER) + stage.orders.withdrawals(OTHER_ORDER),
            compensation=self.compensation,
            messages=stage.orders.messages(),
            contacts=self.contacts,
            killed=not stage.is_alive(self.first_server),
            restarted=stage.server_id() != self.first_server,
            ledger=await stage.command("ledger", "verify"),
            timeline=timeline(self.events, self.lives),
        )


def together(events: Sequence[View], *names: str) -> bool:
    """True if each of these steps was sent before any of them had ended, in the order of the run's one chain."""
    sent = {part(event, "data").get("action_id"): event for event in events if event["type"] == "dispatched"}
    ended = {part(event, "data").get("action_id"): event["seq"] for event in events if event["type"] == "settled"}
    found = [(event["seq"], ended[key]) for key, event in sent.items() if part(event, "data").get("step") in names]
    return len(found) == len(names) and max(begin for begin, _ in found) < min(end for _, end in found)


def since_the_last_claim(events: Sequence[View]) -> tuple[int, int]:
    """How many calls a probe found to have happened, and how many were sent, since the run has its present server."""
    claim = max(n for n, event in enumerate(events) if event["type"] == "run_claimed")
    types = [event["type"] for event in events[claim:] if part(event, "data").get("answer", "happened") == "happened"]
    return types.count("probed"), types.count("dispatched")
