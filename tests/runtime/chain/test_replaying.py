"""Replays: what another plan or other rules would change of a recorded run, found out without calling anything."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from counterfoil import Outcome
from counterfoil.ledger.forking import SUCCEEDED
from counterfoil.ledger.rows import CallRow
from counterfoil.ledger.witness import Witness, recorded, witness
from counterfoil.registry.adapter import Adapter
from counterfoil.registry.catalogue import Catalogue
from counterfoil.registry.contract import Schemas
from counterfoil.registry.policy import Policy, Rule
from counterfoil.registry.vocabulary import Assurance, Effect, Verdict
from counterfoil.runtime.chain.replay import Handless, Replay, without_hands
from counterfoil.runtime.plan.checking import PlanRules
from counterfoil.runtime.plan.problems import PlanInvalidError
from counterfoil.runtime.plan.stored import from_stored
from counterfoil.server.app import App
from tests.runtime.chain.running import Runs, step
from tests.runtime.chain.test_forking import fork
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
Wire = dict[str, Any]
WRITES = {Effect.WRITE: Verdict.ALLOW}


def refuse(_: Any) -> Outcome[Any]:
    return Outcome.permanent("no", sent="no")


async def replayed(
    app: App, run_id: str, document: Any = None, *, policy: Policy | None = None, catalogue: Catalogue | None = None
) -> Wire:
    """What `runs replay` would tell."""
    with witness(app.ledger.path) as ledger:
        kept = ledger.look(recorded(run_id))
        assert kept is not None
        plan = from_stored(json.loads(ledger.open_payload(kept.plan.payload)))
        given = json.loads(ledger.open_payload(kept.found.run.input_payload))
        bare = catalogue or without_hands(entry.contract for entry in app.catalogue.entries())
        rules = PlanRules(bare, policy or app.policy)
        return (await Replay(kept, plan, given, rules, reading(ledger)).play(document)).wire()


def reading(ledger: Witness) -> Any:
    async def read(row: CallRow) -> Any:
        return None if row.output_payload is None else json.loads(ledger.open_payload(row.output_payload))

    return read


def of(view: Wire, name: str) -> Wire:
    return next(one for one in view["steps"] if one["step"] == name)


def differing(view: Wire) -> list[str]:
    return [one["step"] for one in view["steps"] if one["differs"]]


def now(view: Wire) -> dict[str, str]:
    return {one["step"]: one["now"]["state"] for one in view["steps"] if one["now"]}


CHAIN = (
    step("x", "look"),
    step("w", "note", args={"ref": "w ${x.ref}"}),
    step("each", "note", for_each=["p", "q"], args={"ref": "${item} ${w.ref}"}),
    step("s", "note", when={"ref": "${w.ref}", "eq": "nothing"}),
    step("end", "note", depends_on=["each", "s"], needs="settled"),
)


async def test_a_run_under_its_own_plan_and_rules_is_the_same(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(*CHAIN)
    view = await replayed(runs.app, row.run_id)
    assert (view["same"], view["status"], view["errors"]) == (True, {"then": "succeeded", "now": "succeeded"}, [])
    assert [one["now"]["wave"] for one in view["steps"]] == [0, 1, 2, 2, 3]
    assert of(view, "each")["arguments"] == "same"
    assert of(view, "w")["then"]["verdict"] == "allow"


@pytest.mark.parametrize("plan", [{}, {"on_failure": "compensate"}, {"max_parallel": 1}])
async def test_a_run_that_failed_fails_in_the_same_way(runs: Runs, stage: Stage, plan: Wire) -> None:
    stage.then("peek", refuse)
    row, _ = await runs.end(
        step("a", "ship"), step("bad", "peek", depends_on=["a"]), step("l", "note", depends_on=["bad"]),
        step("f", "note", args={"ref": "${a.nothing}"}), step("o", "look"), **plan,
    )  # fmt: skip
    view = await replayed(runs.app, row.run_id)
    assert view["same"], view
    assert now(view) == {
        "a": "succeeded", "bad": "failed", "l": "not_run", "f": of(view, "f")["then"]["state"], "o": "succeeded",
    }  # fmt: skip


async def test_a_cancelled_run_and_a_rejected_step_are_the_same(runs: Runs, stage: Stage) -> None:
    run_id = await runs.start(step("a", "note"), step("r", "refund", depends_on=["a"]), step("b", depends_on=["r"]))
    await runs.until_state(run_id, "r", "awaiting_approval")
    await runs.idle()
    waiting = await replayed(runs.app, run_id)
    assert (waiting["same"], now(waiting)["r"], now(waiting)["b"]) == (True, "awaiting_approval", "waiting")
    await runs.decide(run_id, "r", "reject")
    assert (await runs.rest(run_id)).status == "failed"
    assert (await replayed(runs.app, run_id))["same"]
    begun, go = stage.hold("note")
    other = await runs.start(step("a", "note"), step("b", depends_on=["a"]))
    await begun.wait()
    await runs.app.runtime.cancel(runs.app.local, run_id=other, reason="enough")
    go.set()
    assert (await runs.rest(other)).status == "cancelled"
    view = await replayed(runs.app, other)
    assert view["same"], view


async def test_a_fork_is_replayed_with_what_it_took_over(runs: Runs, stage: Stage) -> None:
    stage.then("note", lambda _: None, refuse)
    row, _ = await runs.end(step("a", "note"), step("b", "note", args={"ref": "b ${a.ref}"}))
    view = await fork(runs.app, row.run_id)
    assert view["status"] == SUCCEEDED
    assert (await replayed(runs.app, view["run_id"]))["same"]


async def test_a_stricter_rule_is_told_with_its_name_and_what_it_would_ask(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(*CHAIN)
    rule = Rule(id="ask", verdict=Verdict.APPROVE, tool="note", assurance=Assurance.SECOND_PERSON)
    view = await replayed(runs.app, row.run_id, policy=Policy([rule], WRITES))
    assert (view["same"], differing(view)) == (False, ["w", "each", "end"])
    told = of(view, "each")["now"]
    assert (told["verdict"], told["rule_id"], told["assurance"]) == ("approve", "ask", "second_person")
    assert (told["state"], view["status"]["now"]) == ("succeeded", "succeeded")
    assert of(view, "w")["then"]["assurance"] == "none"


async def test_a_rule_that_forbids_fails_its_step_and_what_depends_on_it_is_not_run(runs: Runs, stage: Stage) -> None:
    steps = (
        step("a", "note"),
        step("p", "put", args={"ref": "${a.ref} p"}),
        step("b", "note", args={"ref": "${p.ref}"}),
    )
    row, _ = await runs.end(*steps)
    rule = Rule(id="no", verdict=Verdict.DENY, tool="put", when={"/ref": {"eq": "a p"}})
    view = await replayed(runs.app, row.run_id, policy=Policy([rule], WRITES))
    assert now(view) == {"a": "succeeded", "p": "failed", "b": "not_run"}
    assert view["status"] == {"then": "succeeded", "now": "failed"}
    assert (of(view, "p")["now"]["verdict"], of(view, "p")["now"]["rule_id"]) == ("deny", "no")


async def test_a_plan_that_policy_would_refuse_as_a_whole_is_played_as_it_stands(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "note"), step("b", "note", args={"ref": "${a.ref}"}))
    rule = Rule(id="no", verdict=Verdict.DENY, tool="note", when={"/ref": {"eq": "a"}})
    view = await replayed(runs.app, row.run_id, policy=Policy([rule], WRITES))
    assert ([one["code"] for one in view["errors"]], view["status"]["now"]) == (["denied"], "plan_invalid")
    assert (now(view), view["same"]) == ({"a": "failed", "b": "not_run"}, False)


async def test_a_tool_that_has_changed_or_gone_is_told_and_its_outcome_is_unknown(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "note"), step("b", "put", args={"ref": "${a.ref}"}))
    contracts = [entry.contract for entry in runs.app.catalogue.entries() if entry.contract.name != "put"]
    view = await replayed(runs.app, row.run_id, catalogue=without_hands(contracts))
    assert ([one["code"] for one in view["errors"]], now(view)) == (
        ["unknown_tool"],
        {"a": "succeeded", "b": "unknown"},
    )
    changed = [
        replace(one, schemas=Schemas({**one.schemas.input, "title": "new"})) if one.name == "note" else one
        for one in (entry.contract for entry in runs.app.catalogue.entries())
    ]
    view = await replayed(runs.app, row.run_id, catalogue=without_hands(changed))
    assert (view["errors"], now(view)) == ([], {"a": "unknown", "b": "unknown"})
    assert of(view, "a")["then"]["schema_digest"] != of(view, "a")["now"]["schema_digest"]


async def test_what_was_never_recorded_is_unknown_and_so_is_what_depends_on_it(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "note"), step("b", "note", args={"ref": "${a.ref}"}), step("gone", "look"))
    plan = {
        "goal": "another",
        "steps": [
            step("a", "note", args={"ref": "other"}), step("b", "note", args={"ref": "${a.ref}"}),
            step("new", "look"), step("c", "note", depends_on=["new"]), step("d", "note", args={"ref": "d"}),
        ],
    }  # fmt: skip
    view = await replayed(runs.app, row.run_id, plan)
    assert now(view) == dict.fromkeys(["a", "b", "new", "c", "d"], "unknown")
    assert (of(view, "a")["arguments"], of(view, "new")["arguments"], of(view, "b")["arguments"]) == (
        "changed", "unknown", None,
    )  # fmt: skip
    assert (of(view, "gone")["now"], of(view, "new")["then"], view["status"]["now"]) == (None, None, "unknown")
    assert differing(view) == ["a", "b", "new", "c", "d", "gone"]


async def test_another_order_of_the_same_calls_is_only_another_order(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "note"), step("b", "note", depends_on=["a"]))
    plan = {"goal": "side by side", "steps": [step("a", "note"), step("b", "note")]}
    view = await replayed(runs.app, row.run_id, plan)
    assert (differing(view), of(view, "b")["then"]["wave"], of(view, "b")["now"]["wave"]) == (["b"], 1, 0)
    assert view["status"]["now"] == "succeeded"


@pytest.mark.parametrize(("items", "state"), [(["p", "q"], "succeeded"), (["p"], "unknown"), (["p", "z"], "unknown")])
async def test_another_list_has_outcomes_that_nobody_recorded(
    runs: Runs, stage: Stage, items: list[str], state: str
) -> None:
    row, _ = await runs.end(step("each", "note", for_each=["p", "q"], args={"ref": "${item}"}))
    plan = {"goal": "g", "steps": [step("each", "note", for_each=items, args={"ref": "${item}"})]}
    assert now(await replayed(runs.app, row.run_id, plan)) == {"each": state}


async def test_a_plan_that_would_be_refused_now_is_told_problem_by_problem(runs: Runs, stage: Stage) -> None:
    row, _ = await runs.end(step("a", "note"))
    with pytest.raises(PlanInvalidError) as raised:
        await replayed(runs.app, row.run_id, {"goal": "g", "steps": [step("a", "nothing")]})
    assert raised.value.problems[0].code == "unknown_tool"


class Untouchable:
    """An adapter that must not be used, not even looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"a replay has asked an adapter for {name}")


class Watched(Catalogue):
    """A catalogue whose adapters must not be used."""

    def registered(self, app: App) -> Watched:
        for entry in app.catalogue.entries():
            self.register(entry.contract, cast("Adapter", Untouchable()))
        return self


def test_what_stands_for_hands_can_do_nothing() -> None:
    able = [name for name in dir(Handless()) if not name.startswith("__")]
    assert able == ["problems"]
    assert Handless().problems({}, None) == ()


async def test_a_replay_uses_no_adapter_opens_no_socket_and_changes_no_byte(
    runs: Runs, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = await runs.end(*CHAIN)
    app = runs.app
    hands = Watched().registered(app)
    bare = without_hands(entry.contract for entry in hands.entries())
    await runs.row(row.run_id)  # whatever came before is written
    calls, before = list(stage.calls), contents(app)

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay has opened a socket")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(socket, "create_connection", forbidden)
    rule = Rule(id="no", verdict=Verdict.DENY, tool="put")
    assert (await replayed(app, row.run_id, catalogue=bare))["same"]
    await replayed(app, row.run_id, catalogue=bare, policy=Policy([rule], WRITES))
    assert (stage.calls, contents(app)) == (calls, before)


def contents(app: App) -> Sequence[str]:
    path = app.ledger.path
    files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}.key")]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()]
