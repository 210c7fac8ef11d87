"""The doors `plan` and `run`: what is kept, one run for one key, who may, and what a request does to its run."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from counterfoil.registry.principal import Principal
from counterfoil.registry.request import NOBODY_WAITS, RunRequest
from counterfoil.server.app import App, open_app
from tests.runtime.bench import HandClock
from tests.runtime.chains import begun, of, plan, planned, ran, seen, somebody, states, step, until
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import LIMIT_S

pytestmark = pytest.mark.anyio
SECRET = "ghp_" + "a1B2" * 9


def count(app: App, table: str) -> int:
    with closing(sqlite3.connect(app.ledger.path)) as hand:
        found: int = hand.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 (a name of this test)
        return found


async def test_a_plan_is_checked_kept_sealed_and_runs_nothing(app: App, stage: Stage) -> None:
    document = plan(step("a"), step("b", args={"ref": "${a.ref}"}), goal=f"use {SECRET}")
    told = (await app.plan(document)).wire()
    assert told.keys() == {"plan_id", "digest", "steps", "waves", "approvals", "budget", "warnings"}
    assert told["waves"] == [["a"], ["b"]]
    assert stage.calls == []
    with closing(sqlite3.connect(app.ledger.path)) as hand:
        goal, kind = hand.execute(
            "SELECT plans.goal, payloads.kind FROM plans JOIN payloads ON payload_id = payload"
        ).fetchone()
        stored = "".join(str(row) for row in hand.iterdump())
    assert kind == "plan"
    assert goal.startswith("use ")
    assert SECRET not in stored


async def test_everything_that_is_wrong_with_a_plan_is_told_at_once_and_nothing_is_kept(app: App) -> None:
    view = await app.plan(plan(step("a", "nothing_like_it"), step("b", args={"ref": "${a2.ref}"}), step("b")))
    told: Any = view.wire()
    assert view.is_error
    assert told["error"]["code"] == "plan_invalid"
    assert {one["code"] for one in told["errors"]} >= {"unknown_tool", "unknown_step", "duplicate_id"}
    assert all(one.keys() == {"step", "field", "code", "message"} for one in told["errors"])
    assert count(app, "plans") == 0


async def test_a_plan_of_somebody_else_is_one_that_is_not_there(app: App) -> None:
    name = await planned(app, step("a"))
    for who in (somebody(app, subject="bob"), somebody(app, tenant="other")):
        theirs = await app.run(name, principal=who)
        unknown = await app.run("plan_" + "0" * 32, principal=who)
        assert theirs.is_error
        assert theirs.error is not None
        assert unknown.error is not None
        assert theirs.error.code == "not_found"
        assert theirs.error.message.replace(name, "") == unknown.error.message.replace("plan_" + "0" * 32, "")
        assert theirs.body.keys() == unknown.body.keys()
    assert count(app, "runs") == 0


async def test_three_impatient_requests_for_one_plan_are_one_run(app: App, stage: Stage) -> None:
    name = await planned(app, step("a"), step("b"))
    views: list[Any] = [view.wire() for view in await asyncio.gather(*(app.run(name) for _ in range(3)))]
    assert len({view["run_id"] for view in views}) == 1
    assert sorted(view["replayed"] for view in views) == [False, True, True]
    assert {view["status"] for view in views} == {"succeeded"}
    assert stage.count("note") == 2
    again = await app.run(name)
    assert (again.run_id, again.wire()["replayed"], again.is_error) == (views[0]["run_id"], True, False)


async def test_the_same_key_with_another_input_or_plan_is_a_conflict_that_names_the_run(app: App) -> None:
    name = await planned(app, step("a", args={"ref": "${input.x}"}), input={"x": "1"})
    first = await app.run(name)
    assert (await app.run(name, input={"x": "1"})).run_id == first.run_id
    other = await planned(app, step("z"))
    for view in (await app.run(name, input={"x": "2"}), await app.run(other, request_key=name)):
        assert view.is_error
        assert view.error is not None
        assert view.error.code == "key_conflict"
        assert view.error.details["run_id"] == first.run_id
        assert str(first.run_id) in view.error.message
    elsewhere = await app.run(name, input={"x": "2"}, request_key="another")
    assert elsewhere.run_id != first.run_id
    assert elsewhere.wire()["outputs"] == {"a": {"ref": "2"}}


async def test_a_plan_by_its_id_and_as_it_is_has_one_run_where_nobody_gives_a_key(app: App, stage: Stage) -> None:
    document = plan(step("a", args={"ref": "1"}))
    inline = (await app.run(document)).wire()
    by_id = [
        (await app.run(plan_id)).wire()
        for plan_id in (str(inline["plan_id"]), await planned(app, step("a", args={"ref": "1"})))
    ]
    assert [view["run_id"] for view in by_id] == [inline["run_id"]] * 2
    assert all(view["replayed"] for view in by_id)
    other = plan(step("b", args={"ref": "2"}))
    first = (await app.run(await planned(app, step("b", args={"ref": "2"})))).wire()
    assert (await app.run(other)).run_id == first["run_id"]
    assert (await app.run(other, request_key="once more")).run_id != first["run_id"]
    assert stage.effects == [("note", "1"), ("note", "2"), ("note", "2")]


async def test_two_plans_have_two_runs_however_alike_they_are(app: App, stage: Stage) -> None:
    for _ in range(2):
        view = await app.run(await planned(app, step("a", args={"ref": "1"})))
        assert not view.wire()["replayed"]
    assert stage.effects == [("note", "1")] * 2


async def test_an_inline_plan_is_one_run_for_each_effective_input(app: App, stage: Stage) -> None:
    document = plan(step("a", args={"ref": "${input.x}"}), input={"x": "1", "y": 1})
    runs = [await app.run(document), await app.run(document), await app.run(document, input={"x": "2"})]
    assert runs[0].run_id == runs[1].run_id
    assert [view.wire()["replayed"] for view in runs] == [False, True, False]
    assert stage.effects == [("note", "1"), ("note", "2")]
    assert count(app, "plans") == 2
    kept = str(runs[0].wire()["plan_id"])
    assert (await app.run(kept)).run_id == runs[0].run_id


async def test_input_is_laid_over_the_plans_member_by_member_and_checked_anew(app: App, stage: Stage) -> None:
    name = await planned(
        app, step("a", args={"ref": "${input.x}", "text": "${input.y}"}), input={"x": "1", "y": "kept"}
    )
    wrong = await app.run(name, input={"x": 7})
    assert wrong.is_error
    told: Any = wrong.wire()
    assert told["error"]["code"] == "plan_invalid"
    assert [(one["step"], one["code"]) for one in told["errors"]] == [("a", "invalid_arguments")]
    assert stage.calls == []
    assert count(app, "runs") == 0
    assert (await app.run(name, input={"x": "2"})).wire()["outputs"] == {"a": {"ref": "2"}}
    for bad in ([1], "x", {"x": float("nan")}):
        view = await app.runtime.run(RunRequest(app.local, plan_id=name, input=bad))  # type: ignore[arg-type]  # what a caller may do
        assert view.error is not None
        assert view.error.code == "invalid_arguments"


CHANGING = """
from counterfoil import tool

@tool(effect="write", scopes={scopes})
async def changing(ref: str) -> dict[str, str]:
    \"\"\"Change things.\"\"\"
    return {{"ref": ref}}
"""


async def opened_with(stack: AsyncExitStack, folder: Path, module: str, scopes: list[str]) -> App:
    """An application on the folder's ledger whose one tool has these scopes."""
    (folder / f"{module}.py").write_text(CHANGING.format(scopes=scopes))
    config = folder / f"{module}.toml"
    config.write_text(
        '[ledger]\nurl = "sqlite+aiosqlite:///ledger.db"\n[policy_defaults]\nwrite = "allow"\n'
        f'[python]\nmodules = ["{module}"]\npath = ["."]\n'
    )
    return await stack.enter_async_context(open_app(config))


async def test_a_plan_whose_tool_has_changed_is_stale_at_once_and_a_run_of_it_is_found(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await opened_with(stack, tmp_path, "changing_before", [])
        name, other = await planned(first, step("a", "changing")), await planned(first, step("b", "changing"))
        done = await first.run(other)
        changed = await opened_with(stack, tmp_path, "changing_after", ["more"])
        view = await changed.run(name)
        assert view.error is not None
        assert (view.error.code, view.error.details["steps"]) == ("plan_stale", ["a"])
        assert count(changed, "runs") == 1
        assert (await changed.run(other)).run_id == done.run_id


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"name": "stored"}, "not_found"),
        ({"fork_of": "run_1"}, "not_found"),
        ({"plan_id": "plan_1", "fork_of": "run_1", "from_step": "a"}, "invalid_arguments"),
        ({"plan_id": "plan_1", "from_step": "a"}, "invalid_arguments"),
        ({}, "invalid_arguments"),
        ({"plan_id": "plan_1", "run_id": "run_1"}, "invalid_arguments"),
        ({"run_id": "run_1", "input": {}}, "invalid_arguments"),
        ({"plan_id": "plan_1", "request_key": "k" * 201}, "invalid_arguments"),
        ({"run_id": "run_1"}, "not_found"),
    ],
)
async def test_what_cannot_be_run_is_refused_in_words(app: App, stated: dict[str, Any], code: str) -> None:
    view = await app.runtime.run(RunRequest(app.local, **stated))
    assert view.is_error
    assert view.error is not None
    assert view.error.code == code
    assert len(view.error.message) > 20


async def test_a_server_that_stops_begins_no_run(app: App, stage: Stage) -> None:
    name = await planned(app, step("a"))
    app.runtime.begin_stop(1.0)
    view = await app.run(name)
    assert view.error is not None
    assert view.error.code == "unavailable"
    assert count(app, "runs") == 0
    assert stage.calls == []


async def test_a_failed_run_is_no_error_of_its_request(app: App, stage: Stage) -> None:
    stage.then("peek", lambda _: 1 / 0)
    view = await app.run(plan(step("a", "peek")))
    told: Any = view.wire()
    assert not view.is_error
    assert (told["status"], told["error"]) == ("failed", None)
    assert of(told, "a")["error"]["code"] == "tool_failed"


async def test_a_wait_of_nothing_answers_at_once_and_the_run_goes_on(app: App, stage: Stage) -> None:
    started, go = stage.hold("note")
    view = await begun(app, plan(step("a")))
    assert (view["status"], view["finished_at"]) == ("running", None)
    assert view["next"]["tool"] == "status"
    await asyncio.wait_for(started.wait(), LIMIT_S)
    go.set()
    assert (await until(app, view["run_id"], "succeeded"))["outputs"] == {"a": {"ref": "a"}}


async def test_a_request_is_told_how_many_steps_have_ended(app: App, stage: Stage) -> None:
    told: list[tuple[float, float | None]] = []
    begun, go = stage.hold("note")

    async def sink(done: float, total: float | None, _message: str | None) -> None:
        told.append((done, total))
        go.set()

    document = plan(step("a", "peek"), step("b", depends_on=["a"]), step("c", depends_on=["b"]))
    view = await app.runtime.run(RunRequest(app.local, plan=document, progress=sink))
    assert begun.is_set()
    assert view.wire()["status"] == "succeeded"
    assert told[0] == (1, 3)
    assert told[-1] == (3, 3)
    assert told == sorted(set(told))


@pytest.mark.parametrize("steps", [1, 12])
async def test_a_new_run_asks_the_ledger_two_questions_however_many_steps_it_has(
    app: App, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    name = await planned(app, *(step(f"s{n}") for n in range(steps)))
    look, asked = app.ledger.reads.look, list[Any]()

    async def counted(make: Any) -> Any:
        asked.append(make)
        return await look(make)

    monkeypatch.setattr(app.ledger.reads, "look", counted)
    assert (await app.run(name)).wire()["status"] == "succeeded"
    assert len(asked) == 2  # is its key taken, and how does it stand at its end


async def test_a_listener_that_fails_is_told_nothing_more_and_the_run_ends_well(app: App) -> None:
    async def sink(_done: float, _total: float | None, _message: str | None) -> None:
        raise ConnectionError

    view = await app.runtime.run(RunRequest(app.local, plan=plan(step("a"), step("b")), progress=sink))
    assert view.wire()["status"] == "succeeded"


async def begun_run(app: App, stage: Stage) -> tuple[asyncio.Task[Any], asyncio.Event, str]:
    """A request that waits for a run whose first step is under way."""
    begun, go = stage.hold("note")
    name = await planned(app, step("a"), step("b", depends_on=["a"]), step("r", "peek", depends_on=["a"]))
    task = asyncio.create_task(app.run(name))
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    overview: Any = (await app.runtime.status(app.local)).wire()
    return task, go, overview["runs"][0]["run_id"]


async def test_a_request_whose_stream_closes_does_not_touch_its_run(app: App, stage: Stage) -> None:
    task, go, run_id = await begun_run(app, stage)
    task.cancel(NOBODY_WAITS)
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert states(await until(app, run_id, "succeeded")) == dict.fromkeys("abr", "succeeded")


async def test_a_cancelled_request_stops_further_effects_until_the_run_is_taken_up(app: App, stage: Stage) -> None:
    task, go, run_id = await begun_run(app, stage)
    task.cancel("cancelled")
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    view = await until(app, run_id, "queued")
    assert view["reason"] == "stopped"
    assert states(view) == {"a": "succeeded", "b": "ready", "r": "succeeded"}
    assert (view["next"]["tool"], view["next"]["arguments"]) == ("run", {"run_id": run_id})
    assert (await app.run(str(view["plan_id"]))).wire()["status"] == "queued"  # found by its key, and not taken up
    assert stage.count("note") == 1
    done = (await app.run(run_id=run_id)).wire()
    assert (done["status"], done["replayed"]) == ("succeeded", False)
    assert stage.count("note") == 2


async def test_a_request_that_is_cancelled_before_its_run_is_made_makes_none(app: App, stage: Stage) -> None:
    name = await planned(app, step("a"))
    task = asyncio.create_task(app.run(name))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert count(app, "runs") == 0
    assert stage.calls == []


async def test_taking_up_a_run_renews_its_grant_with_the_scopes_of_now(
    app: App, stage: Stage, clock: HandClock
) -> None:
    view = await ran(app, step("a", "refund"), step("b", depends_on=["a"]))
    assert view["status"] == "awaiting_approval"
    clock.pass_(90_000)
    taken = (await app.run(run_id=view["run_id"], wait_s=0)).wire()
    assert taken["run_id"] == view["run_id"]
    with closing(sqlite3.connect(app.ledger.path)) as hand:
        until_, scopes = hand.execute("SELECT grant_expires_at, scopes FROM runs").fetchone()
    assert until_ == clock.now() + 86_400 * 1_000_000
    assert scopes == '["*"]'
    assert stage.calls == []


async def test_a_finished_run_that_is_taken_up_is_shown(app: App, stage: Stage) -> None:
    view = await ran(app, step("a"))
    again = (await app.run(run_id=view["run_id"])).wire()
    assert again == view
    assert stage.count("note") == 1


async def test_a_run_of_somebody_else_cannot_be_taken_up(app: App) -> None:
    view = await ran(app, step("a", "refund"))
    for who in (somebody(app, subject="bob"), somebody(app, tenant="other")):
        refused = await app.run(run_id=view["run_id"], principal=who)
        assert refused.error is not None
        assert refused.error.code == "not_found"
    assert (await app.runtime.status(app.local, run_id=view["run_id"])).wire()["version"] == view["version"]


async def test_a_plan_is_judged_again_by_the_rules_of_now_when_it_is_run(open_: OpenApp, stage: Stage) -> None:
    before = await open_()
    name, first = await planned(before, step("a"), step("b", "peek")), await planned(before, step("a"))
    done = await before.run(first)
    rule = '[[policy]]\nid = "no-notes"\nverdict = "deny"\ntool = "note"\nreason = "not now"\n'
    now = await open_(more=rule)
    view: Any = (await now.run(name)).wire()
    assert view["error"]["code"] == "plan_invalid"
    assert [one["step"] for one in view["errors"]] == ["a"]
    assert stage.count("note") == 1
    assert (await now.run(first)).run_id == done.run_id  # what is there is shown, whatever may be begun now


async def test_whoever_listens_is_told_of_changes_with_the_owner_of_the_run(app: App) -> None:
    told: list[tuple[str, Principal]] = []
    app.runtime.listen_to_runs(lambda run_id, owner: told.append((run_id, owner)))
    view = await ran(app, step("a"), step("b", depends_on=["a"]))
    await seen(app, view["run_id"], lambda _: bool(told))
    assert {run_id for run_id, _ in told} == {view["run_id"]}
    assert {(owner.tenant, owner.subject) for _, owner in told} == {(app.local.tenant, app.local.subject)}
