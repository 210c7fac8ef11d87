"""Grants: renewed by whoever asked, measured by what its subject may now, and good for nothing without one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from counterfoil import Outcome
from counterfoil.ledger.queries import CALL
from counterfoil.ledger.run_rows import RunRow, get_run
from counterfoil.ledger.runs import ask_stop
from counterfoil.registry.principal import Principal
from counterfoil.registry.request import RunRequest
from counterfoil.registry.vocabulary import ErrorCode
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App, settings_of
from counterfoil.server.authority import scopes_of
from counterfoil.server.config import load
from counterfoil.server.limits import budgets_of
from tests.runtime.bench import SECOND, HandClock
from tests.runtime.chain.running import step
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage, unsent
from tests.runtime.talk import CAROL, LIMIT_S, approve, until

pytestmark = pytest.mark.anyio
SHORT = "[runs]\nauthority_s = 800\n"
ANN = Principal("a", "ann", "desk", frozenset({"*"}), "token")


async def events(app: App, **of: Any) -> list[str]:
    view: dict[str, Any] = (await app.runtime.status(app.local, **of)).wire()
    return [event["type"] for event in view["events"]]


def approval_of(view: CallView) -> str:
    assert view.approval is not None
    return str(view.approval["approval_id"])


async def ends(app: App, call_id: str | None) -> int:
    (row,) = await app.ledger.reads.fetch(CALL, call_id=call_id)
    assert row.grant_expires_at is not None
    return row.grant_expires_at


@pytest.mark.parametrize(("passed", "renewed"), [(0, False), (99, False), (100, True), (799, True), (900, True)])
async def test_looking_renews_a_grant_of_which_an_eighth_is_used_and_writes_nothing_else(
    open_: OpenApp, clock: HandClock, passed: int, renewed: bool
) -> None:
    app = await open_(more=SHORT)
    asked = await app.call("refund", {"ref": "1"})
    was = await ends(app, asked.call_id)
    clock.pass_(passed)
    for _ in range(3):
        await app.runtime.confirm(app.local, approval_id=approval_of(asked))
    assert await ends(app, asked.call_id) == (was + passed * SECOND if renewed else was)
    assert (await events(app, call_id=asked.call_id)).count("grant_renewed") == int(renewed)


@pytest.mark.parametrize(("passed", "changed"), [(0, False), (400, False), (900, True)])
async def test_a_look_gives_a_call_other_scopes_only_where_its_grant_had_lapsed(
    open_: OpenApp, clock: HandClock, passed: int, changed: bool
) -> None:
    app = await open_(more=SHORT)
    asked = await app.call("refund", {"ref": "1"})
    clock.pass_(passed)
    now = replace(app.local, scopes=frozenset({"a", "b"}))
    for _ in range(2):
        await app.runtime.confirm(now, approval_id=approval_of(asked))
    (row,) = await app.ledger.reads.fetch(CALL, call_id=asked.call_id)
    assert row.scopes == ('["a", "b"]' if changed else '["*"]')
    assert (await events(app, call_id=asked.call_id)).count("grant_renewed") == int(passed > 0)


async def test_sessions_with_other_scopes_that_look_in_turn_change_no_scope_of_a_run_and_write_nothing(
    open_: OpenApp, clock: HandClock
) -> None:
    app = await open_(more=SHORT)
    run_id, approval_id = await waiting_run(app)
    poor = replace(app.local, scopes=frozenset({"nothing"}), client="other")
    for who in (poor, app.local, poor):
        await app.runtime.confirm(who, approval_id=approval_id)
    assert "grant_renewed" not in await events(app, run_id=run_id)
    clock.pass_(900)
    await app.runtime.confirm(poor, approval_id=approval_id)
    row = await run_row(app, run_id)
    assert (row.scopes, row.grant_expires_at) == ('["*"]', clock.at + 800 * SECOND)
    clock.pass_(900)
    await app.runtime.run(RunRequest(poor, run_id=run_id, wait_s=0))
    assert (await run_row(app, run_id)).scopes == '["nothing"]'


async def test_nobody_else_renews_a_grant(open_: OpenApp, clock: HandClock) -> None:
    app = await open_(more=SHORT)
    asked = await app.call("refund", {"ref": "1"})
    clock.pass_(900)
    carol = Principal(app.local.tenant, "carol", "desk", frozenset({"approve"}), "token")
    assert not (await app.runtime.confirm(carol, approval_id=approval_of(asked))).is_error
    assert "grant_renewed" not in await events(app, call_id=asked.call_id)


async def test_a_run_whose_grant_lapsed_goes_on_once_its_requester_looks_at_its_proposal(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more=SHORT)
    run_id, approval_id = await waiting_run(app)
    clock.pass_(900)
    await app.runtime.decide(approval_id, "approve", decider=CAROL)
    await rests(app, run_id, "queued", "authority_expired")
    assert stage.calls == []
    await app.runtime.confirm(app.local, approval_id=approval_id)
    await rests(app, run_id, "succeeded")
    assert (stage.count("refund"), (await events(app, run_id=run_id)).count("grant_renewed")) == (1, 1)


@pytest.mark.parametrize("by", ["confirm", "run"])
async def test_the_window_of_a_step_stood_still_while_the_grant_of_its_run_had_lapsed(
    open_: OpenApp, stage: Stage, clock: HandClock, by: str
) -> None:
    app = await open_(more=SHORT)
    run_id, approval_id = await waiting_run(app)
    clock.pass_(700)
    await app.ledger.record(lambda: ask_stop(run_id, "me", clock.at))
    await app.runtime.decide(approval_id, "approve", decider=CAROL)
    await rests(app, run_id, "queued", "stopped")
    clock.pass_(2_000)  # 100 s of its 900 were over when the grant lapsed
    if by == "confirm":
        await app.runtime.confirm(app.local, approval_id=approval_id)
    await app.runtime.run(RunRequest(app.local, run_id=run_id))
    await rests(app, run_id, "succeeded")
    assert stage.count("refund") == 1


async def test_the_window_stood_still_where_the_grant_was_renewed_before_anybody_met_that_it_had_lapsed(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    desk = await open_(role="cli", more=SHORT)  # decides, and carries nothing on
    asked = await desk.call("refund", {"ref": "1"})
    await approve(desk, asked)
    clock.pass_(5_000)
    await desk.runtime.confirm(desk.local, approval_id=approval_of(asked))
    app = await open_(more=SHORT)
    assert (await until(app, asked.call_id, "settled", "awaiting_approval")).outcome == "success"
    assert stage.count("refund") == 1


async def test_renewing_does_not_lift_a_stop(open_: OpenApp, stage: Stage, clock: HandClock) -> None:
    app = await open_(more=SHORT)
    run_id, approval_id = await waiting_run(app)
    await app.ledger.record(lambda: ask_stop(run_id, "me", clock.at))
    clock.pass_(900)
    await app.runtime.confirm(app.local, approval_id=approval_id)
    assert (await run_row(app, run_id)).grant_expires_at == clock.at + 800 * SECOND
    await app.runtime.decide(approval_id, "approve", decider=CAROL)
    await rests(app, run_id, "queued", "stopped")
    assert stage.calls == []


async def waiting_run(app: App) -> tuple[str, str]:
    """A run whose one step waits for a person."""
    view: dict[str, Any] = (await app.run({"goal": "Refund", "steps": [step("a", "refund")]})).wire()
    return str(view["run_id"]), str(view["pending"][0]["approval_id"])


async def run_row(app: App, run_id: str) -> RunRow:
    row = await app.ledger.record(lambda: get_run(run_id))
    assert row is not None
    return row


async def rests(app: App, run_id: str, status: str, reason: str | None = None) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            row = await run_row(app, run_id)
            if row.status == status and reason in {None, row.reason}:
                return
            await asyncio.sleep(0.02)


async def test_a_key_that_comes_again_acts_under_the_grant_of_now(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more=SHORT)
    stage.then("keyed", unsent)
    first = await app.call("keyed", {"ref": "1"}, idempotency_key="k")
    clock.pass_(900)
    again = await app.call("keyed", {"ref": "1"}, idempotency_key="k")
    assert (again.call_id, again.outcome, stage.count("keyed")) == (first.call_id, "success", 2)


def may(app: App, scopes: frozenset[str] | None) -> None:
    """From now on every subject has these scopes; None if nobody is known."""
    limits = budgets_of(app.config.budgets)
    app.runtime.take(app.policy, settings_of(app.config, serves=True), limits, lambda _: scopes)


async def test_a_scope_that_was_withdrawn_after_the_decision_is_missing_at_the_dispatch(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    asked = await app.call("vault", {"ref": "1"})
    may(app, frozenset({"other"}))
    await approve(app, asked)
    view = await until(app, asked.call_id, "refused", "settled")
    assert view.error is not None
    assert (view.error.code, view.error.details["missing_scopes"]) == (ErrorCode.INSUFFICIENT_SCOPE, ["vault"])
    assert (view.sent, stage.calls) == ("no", [])
    assert (await app.runtime.approval(approval_of(asked))).wire()["state"] == "revoked"


async def test_a_scope_that_came_since_is_in_no_grant_from_before(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more=SHORT)
    asked = await app.call("vault", {"ref": "1"}, principal=replace(app.local, scopes=frozenset({"vault"})))
    clock.pass_(810)
    await app.runtime.confirm(replace(app.local, scopes=frozenset({"other"})), approval_id=approval_of(asked))
    may(app, frozenset({"*"}))
    await approve(app, asked)
    view = await until(app, asked.call_id, "refused", "settled")
    assert view.error is not None
    assert (view.error.code, stage.calls) == (ErrorCode.INSUFFICIENT_SCOPE, [])


async def test_nothing_is_sent_in_the_name_of_somebody_who_is_not_known_any_more(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    asked = await app.call("refund", {"ref": "1"})
    may(app, None)
    await approve(app, asked)
    view = await until(app, asked.call_id, "refused", "settled")
    assert view.error is not None
    assert (view.error.code, view.outcome, stage.calls) == (ErrorCode.AUTHORITY_EXPIRED, "denied", [])


async def test_a_run_of_somebody_who_is_not_known_any_more_waits_and_nothing_of_it_fails(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    run_id, approval_id = await waiting_run(app)
    may(app, None)
    await app.runtime.decide(approval_id, "approve", decider=CAROL)
    await rests(app, run_id, "queued", "authority_expired")
    assert stage.calls == []
    may(app, frozenset({"*"}))
    await app.runtime.run(RunRequest(app.local, run_id=run_id))
    await rests(app, run_id, "succeeded")
    assert stage.count("refund") == 1


async def test_a_run_on_its_way_sends_no_further_step_once_its_subject_is_not_known_any_more(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    begun, go = stage.hold("book")
    plan: dict[str, Any] = {"goal": "Two", "steps": [step("a"), step("b", "note", depends_on=["a"])]}
    view: dict[str, Any] = (await app.run(plan, wait_s=0)).wire()
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    may(app, None)
    go.set()
    await rests(app, str(view["run_id"]), "queued", "authority_expired")
    assert [call[0] for call in stage.calls] == ["book"]


async def test_nothing_is_undone_in_the_name_of_somebody_who_is_not_known_any_more(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    begun, go = stage.hold("book")
    steps = [step("a", "ship"), step("b", depends_on=["a"]), step("c", "note", depends_on=["b"])]
    plan: dict[str, Any] = {"goal": "Undo", "on_failure": "compensate", "steps": steps}
    run_id = str((await app.run(plan, wait_s=0)).wire()["run_id"])
    await asyncio.wait_for(begun.wait(), LIMIT_S)

    def goes(_: object) -> Outcome[Any]:
        may(app, None)
        return Outcome.permanent("no")

    stage.then("note", goes)
    go.set()
    await rests(app, run_id, "queued", "authority_expired")
    assert stage.count("unship") == 0
    may(app, frozenset({"*"}))
    await app.runtime.run(RunRequest(app.local, run_id=run_id))
    await rests(app, run_id, "failed")
    assert stage.count("unship") == 1


async def test_a_step_whose_scope_was_withdrawn_fails_and_names_it(open_: OpenApp, stage: Stage) -> None:
    app = await open_()
    begun, go = stage.hold("book")
    plan: dict[str, Any] = {"goal": "Two", "steps": [step("a"), step("b", "vault", depends_on=["a"])]}
    started: dict[str, Any] = (await app.run(plan, wait_s=0)).wire()
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    may(app, frozenset())
    go.set()
    await rests(app, str(started["run_id"]), "failed")
    view: dict[str, Any] = (await app.runtime.status(app.local, run_id=str(started["run_id"]))).wire()
    assert view["steps"][1]["error"]["code"] == "insufficient_scope"
    assert stage.count("vault") == 0


TOKENS = """
[auth]
mode = "tokens"
[[auth.tokens]]
token = "env:A"
tenant = "a"
subject = "ann"
client = "desk"
scopes = ["vault", "x"]
[[auth.tokens]]
token = "env:B"
tenant = "a"
subject = "ann"
client = "other"
scopes = ["y"]
[[auth.tokens]]
token = "env:C"
tenant = "a"
subject = "ann"
client = "desk"
scopes = ["z"]
"""


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (ANN, {"vault", "x", "z"}),
        (replace(ANN, client="other"), {"y"}),
        (replace(ANN, client="gone"), {"vault", "x", "y", "z"}),
        (replace(ANN, subject="bob"), None),
        (replace(ANN, tenant="b"), None),
        (Principal("local", "me", "anything"), {"*"}),
        (Principal("local", "somebody", "anything", frozenset({"*"})), None),
        (replace(ANN, proof=None), None),
    ],
)
async def test_a_configuration_knows_the_local_principal_and_whoever_has_a_token(
    open_: OpenApp, tmp_path: Any, who: Principal, expected: set[str] | None
) -> None:
    (tmp_path / "counterfoil.toml").write_text(f'[principals.local]\nsubject = "me"\n{TOKENS}')
    assert scopes_of(load(tmp_path / "counterfoil.toml"))(who) == expected


async def test_a_server_that_starts_with_another_configuration_measures_what_waits_by_that(
    open_: OpenApp, stage: Stage
) -> None:
    desk = await open_(role="cli", more=TOKENS)
    asked = await desk.call("vault", {"ref": "1"}, principal=ANN)
    other = await desk.call("vault", {"ref": "2"}, principal=replace(ANN, client="other", scopes=frozenset({"vault"})))
    for view in (asked, other):
        await approve(desk, view)
    ann = replace(await open_(role="serve", more=TOKENS), local=ANN)
    assert (await until(ann, asked.call_id, "settled", "refused")).outcome == "success"
    view = await until(ann, other.call_id, "settled", "refused")
    assert view.error is not None
    assert (view.error.code, stage.count("vault")) == (ErrorCode.INSUFFICIENT_SCOPE, 1)
