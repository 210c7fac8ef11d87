"""Budgets and rule limits of direct calls: counted in T1, given back where nothing was sent, with honest resets."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from counterfoil import Outcome, Probe
from counterfoil.ledger.budgeting import CounterRow, list_counters
from counterfoil.registry.principal import Principal
from counterfoil.registry.request import CallRequest
from counterfoil.registry.vocabulary import ErrorCode
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.kit.rules import DRY_RUN
from tests.runtime.bench import HandClock
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Act, Stage, lose, unsent
from tests.runtime.talk import approve, say, until

pytestmark = pytest.mark.anyio
THREE = "[budgets.tenant]\nwindow_s = 3600\ncalls = 3\n"
ENDS = "2026-09-21T15:00:00.000000Z"
"""The end of the hour in which the tests' clock stands."""


async def used(app: App) -> dict[tuple[str, str], int]:
    rows: list[CounterRow] = await app.ledger.record(lambda: list_counters(0))
    return {(row.scope, row.kind): row.used for row in rows}


def refused(view: CallView, code: ErrorCode = ErrorCode.BUDGET_EXHAUSTED) -> dict[str, Any]:
    assert view.error is not None, view
    assert (view.state, view.outcome, view.sent) == (
        "refused", "retryable_failure" if code is ErrorCode.RATE_LIMITED else "denied", "no",
    )  # fmt: skip
    assert view.error.code is code, view.error
    return dict(view.error.details)


async def test_a_tenants_budget_is_spent_exactly_by_calls_that_come_at_once(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=THREE)
    views = await asyncio.gather(*(app.call("book", {"ref": str(n)}) for n in range(12)))
    assert sum(view.outcome == "success" for view in views) == len(stage.effects) == 3
    details = [refused(view) for view in views if view.error]
    assert details[0] == {
        "scope": "tenant", "kind": "calls", "limit": 3, "used": 3, "resets_at": ENDS, "retry_after_s": 2800.0,
    }  # fmt: skip
    assert await used(app) == {("tenant:local", "calls"): 3}


async def test_what_everybody_used_together_is_told_to_nobody(open_: OpenApp) -> None:
    app = await open_(more="[budgets.server]\nwindow_s = 3600\ncalls = 1\n")
    await app.call("note", {"ref": "a"})
    view = await app.call("note", {"ref": "b"})
    assert refused(view) == {
        "scope": "server", "kind": "calls", "limit": 1, "resets_at": ENDS, "retry_after_s": 2800.0,
    }  # fmt: skip
    assert view.error is not None
    assert "0 calls left" not in view.error.message


async def test_two_servers_on_one_ledger_share_one_budget(open_: OpenApp, stage: Stage) -> None:
    apps = [await open_(more=THREE), await open_(more=THREE)]
    views = await asyncio.gather(*(apps[n % 2].call("note", {"ref": str(n)}) for n in range(16)))
    assert sum(view.outcome == "success" for view in views) == len(stage.effects) == 3


async def test_a_budget_is_full_again_when_its_window_ends_and_not_before(open_: OpenApp, clock: HandClock) -> None:
    app = await open_(more=THREE)
    for n in range(3):
        assert (await app.call("peek", {"ref": str(n)})).outcome == "success"
    clock.pass_(2799.999)
    assert refused(await app.call("peek", {"ref": "x"}))["retry_after_s"] == 0.001
    clock.pass_(0.001)
    assert (await app.call("peek", {"ref": "x"})).outcome == "success"


async def test_asking_for_what_is_used_up_is_never_blocked_beyond_its_reset(open_: OpenApp) -> None:
    app = await open_(more="[budgets.server]\nwindow_s = 3600\nwrites = 1\n")
    await app.call("book", {"ref": "first"})
    for _ in range(8):
        assert refused(await app.call("book", {"ref": "a"}))["scope"] == "server"
    assert (await app.call("peek", {"ref": "a"})).outcome == "success"


async def test_what_fits_into_no_window_is_not_told_to_wait_for_one(open_: OpenApp) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\nwrites = 0\n")
    view = await app.call("book", {"ref": "a"})
    assert refused(view) == {"scope": "tenant", "kind": "writes", "limit": 0, "used": 0}
    assert view.error is not None
    assert "Waiting does not help: have [budgets.tenant] raised" in view.error.message


async def test_each_subject_has_its_own_budget_below_the_tenants(open_: OpenApp) -> None:
    app = await open_(more=THREE + "[budgets.subject]\nwindow_s = 3600\ncalls = 2\n")
    ann, bob = (Principal("local", name, scopes=frozenset({"*"})) for name in ("ann", "bob"))
    for n in range(2):
        assert (await app.call("peek", {"ref": str(n)}, principal=ann)).outcome == "success"
    assert refused(await app.call("peek", {"ref": "2"}, principal=ann))["scope"] == "subject"
    assert (await app.call("peek", {"ref": "2"}, principal=bob)).outcome == "success"
    assert refused(await app.call("peek", {"ref": "3"}, principal=bob))["scope"] == "tenant"
    assert (await used(app))["tenant:local", "calls"] == 3


async def test_of_several_that_are_used_up_the_last_to_be_reset_is_named(open_: OpenApp) -> None:
    more = "[budgets.server]\nwindow_s = 60\ncalls = 1\n[budgets.tenant]\nwindow_s = 3600\ncalls = 1\n"
    app = await open_(more=more)
    await app.call("peek", {"ref": "1"})
    assert refused(await app.call("peek", {"ref": "2"}))["resets_at"] == ENDS


async def test_a_call_that_was_never_sent_costs_nothing(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=THREE)
    stage.then("book", unsent)
    view = await app.call("book", {"ref": "a"}, idempotency_key="k")
    assert (view.outcome, view.sent) == ("retryable_failure", "no")
    assert await used(app) == {("tenant:local", "calls"): 0}
    again = await app.call("book", {"ref": "a"}, idempotency_key="k")
    assert (again.outcome, again.call_id, again.attempts) == ("success", view.call_id, 2)
    assert await used(app) == {("tenant:local", "calls"): 1}


async def test_a_call_counts_once_whatever_its_attempts_and_also_where_its_outcome_is_unknown(
    open_: OpenApp, stage: Stage
) -> None:
    app = await open_(more=THREE)
    stage.then("stubborn", unsent, unsent)
    assert (await app.call("stubborn", {"ref": "a"})).attempts == 3
    assert await used(app) == {("tenant:local", "calls"): 1}
    stage.then("note", lose)
    lost = await app.call("note", {"ref": "b"})
    assert lost.outcome == "ambiguous"
    await say(app, lost.call_id, "happened")
    assert await used(app) == {("tenant:local", "calls"): 2}


async def test_a_probe_is_never_charged(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ncalls = 1\n")
    stage.then("probed", lose)
    lost = await app.call("probed", {"ref": "a"})
    await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert await used(app) == {("tenant:local", "calls"): 1}


async def test_what_comes_late_or_is_found_by_a_probe_is_added_too(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\noutput_bytes = 1000\nelapsed_s = 1000\n")

    def slow(_: object) -> None:
        clock.pass_(2)
        raise ConnectionError("the reply was lost")

    stage.then("probed", slow)
    stage.then("probe", lambda _: Probe.happened({"ref": "a"}))
    lost = await app.call("probed", {"ref": "a"})
    assert await used(app) == {("tenant:local", "elapsed_s"): 2_000_000}
    await app.runtime.reconcile(app.local, call_id=lost.call_id)
    assert await used(app) == {("tenant:local", "elapsed_s"): 2_000_000, ("tenant:local", "output_bytes"): 11}


async def test_windows_long_past_are_forgotten_and_running_ones_never(open_: OpenApp, clock: HandClock) -> None:
    app = await open_(more=THREE + "[budgets.subject]\nwindow_s = 315360000\nwrites = 9\n")
    await app.call("note", {"ref": "a"})
    for days, kept in ((6, {"tenant:local", "subject:local/me"}), (2, {"subject:local/me"})):
        clock.pass_(days * 86_400)
        await app.runtime._sweeper.sweep()
        assert {scope for scope, _ in await used(app)} == kept


async def test_the_record_of_a_dispatch_says_what_it_took(open_: OpenApp) -> None:
    app = await open_(more=THREE)
    view = await app.call("note", {"ref": "a"})
    shown: Any = (await app.runtime.status(app.local, call_id=view.call_id)).wire()
    assert shown["events"][0]["data"]["charges"] == {"tenant:local#calls": 1}


async def test_a_replay_costs_nothing_and_is_answered_when_nothing_is_left(open_: OpenApp) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ncalls = 1\n")
    first = await app.call("note", {"ref": "a"}, idempotency_key="k")
    again = await app.call("note", {"ref": "a"}, idempotency_key="k")
    assert (again.replayed, again.call_id) == (True, first.call_id)


async def test_a_direct_call_is_a_run_of_one(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more="[budgets.run]\ncalls = 5\nwrites = 0\n")
    assert (await app.call("peek", {"ref": "a"})).outcome == "success"
    details = refused(await app.call("book", {"ref": "a"}))
    assert details == {"scope": "run", "kind": "writes", "limit": 0, "used": 0}
    assert refused(await app.call("refund", {"ref": "a"}))["kind"] == "writes"
    assert [call[0] for call in stage.calls] == ["peek"]


@pytest.mark.parametrize("kind", ["calls", "writes", "destructive", "cost", "output_bytes", "elapsed_s"])
async def test_of_nothing_nothing_is_sent_and_nobody_is_asked(open_: OpenApp, stage: Stage, kind: str) -> None:
    app = await open_(more=f"[budgets.run]\n{kind} = 0\n")
    tool = "refund" if kind == "destructive" else "costly"
    view = await app.call(tool, {"ref": "a"})
    assert refused(view) == {"scope": "run", "kind": kind, "limit": 0, "used": 0}
    assert view.error is not None
    assert "have [budgets.run] raised" in view.error.message
    assert (stage.calls, await app.runtime.approvals()) == ([], [])


async def test_output_bytes_and_time_are_added_after_a_call_which_needs_something_left(
    open_: OpenApp, stage: Stage, clock: HandClock
) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\noutput_bytes = 12\nelapsed_s = 100\n")

    def slow(_: object) -> None:
        clock.pass_(2.5)

    stage.then("note", slow)
    await app.call("note", {"ref": "a"})
    assert await used(app) == {("tenant:local", "output_bytes"): 11, ("tenant:local", "elapsed_s"): 2_500_000}
    await app.call("note", {"ref": "b"})
    details = refused(await app.call("note", {"ref": "c"}))
    assert (details["kind"], details["used"], details["limit"]) == ("output_bytes", 22, 12)


async def test_nobody_is_asked_about_what_no_budget_is_there_for(open_: OpenApp) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ndestructive = 1\n")
    first, second = [await app.call("refund", {"ref": ref}) for ref in "ab"]
    await approve(app, first)
    await until(app, first.call_id, "settled")
    assert refused(await app.call("refund", {"ref": "c"}))["kind"] == "destructive"
    await approve(app, second)  # it was proposed while there was budget, and waits for the next window
    assert (await until(app, second.call_id, "queued")).attempts == 0


async def test_what_a_person_approves_counts_at_its_dispatch_and_not_before(open_: OpenApp) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ndestructive = 9\n")
    asked = [await app.call("refund", {"ref": ref}) for ref in "ab"]
    assert await used(app) == {}
    await approve(app, asked[0])
    await until(app, asked[0].call_id, "settled")
    await approve(app, asked[1], "reject")
    assert await used(app) == {("tenant:local", "destructive"): 1}


async def test_used_is_the_number_of_calls_that_were_sent_whatever_comes_of_them(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more="[budgets.tenant]\nwindow_s = 3600\ncalls = 30\n")
    chance = random.Random(7)
    acts: list[Act] = [lambda _: None, unsent, lose, lambda _: Outcome.permanent("no")]
    views: list[CallView] = []
    for n in range(40):
        stage.then("put", chance.choice(acts))
        views.append(await app.call("put", {"ref": str(n)}))
        stage.script["put"].clear()
    sent = sum(view.sent != "no" for view in views)
    assert await used(app) == {("tenant:local", "calls"): sent}
    assert sent <= 30


# Limits of rules.

DENY_BEYOND = """
[[policy]]
id = "few-notes"
tool = "note"
verdict = "deny"
limit = { per = "subject", window_s = 3600, calls = 2 }
"""
ASK_BEYOND = """
[[policy]]
id = "small-sums"
tool = "paced"
verdict = "approve"
assurance = "operator"
limit = { per = "tenant", window_s = 3600, sum = "/n", max = 10 }
"""


async def test_beyond_its_limit_a_deny_rule_matches_and_says_when_it_ends(open_: OpenApp, clock: HandClock) -> None:
    app = await open_(more=DENY_BEYOND)
    for n in range(2):
        assert (await app.call("note", {"ref": str(n)})).outcome == "success"
    details = [refused(await app.call("note", {"ref": "x"}), ErrorCode.DENIED) for _ in range(7)][-1]
    assert details["rule"] == "few-notes"
    assert (details["used"], details["limit"], details["resets_at"]) == (2, 2, ENDS)
    assert (await app.call("book", {"ref": "x"})).outcome == "success"
    other = Principal("local", "ann", scopes=frozenset({"*"}))
    assert (await app.call("note", {"ref": "x"}, principal=other)).outcome == "success"
    clock.pass_(2800)
    assert (await app.call("note", {"ref": "x"})).outcome == "success"


async def test_a_deny_rules_limit_lets_exactly_so_many_calls_through_that_come_at_once(
    open_: OpenApp, stage: Stage
) -> None:
    apps = [await open_(more=DENY_BEYOND), await open_(more=DENY_BEYOND)]
    views = await asyncio.gather(*(apps[n % 2].call("note", {"ref": str(n)}) for n in range(10)))
    assert len(stage.effects) == 2
    assert {view.error.code for view in views if view.error} == {ErrorCode.DENIED}


async def test_beyond_its_sum_an_approve_rule_asks_and_what_is_approved_counts_too(open_: OpenApp) -> None:
    app = await open_(more=ASK_BEYOND)
    assert (await app.call("paced", {"ref": "a", "n": 9})).outcome == "success"
    beyond = await app.call("paced", {"ref": "b", "n": 2})
    assert beyond.state == "awaiting_approval"
    assert beyond.approval is not None
    assert beyond.approval["rule_id"] == "small-sums"
    assert "9 of 10" in str(beyond.approval["reason"])
    assert (await app.call("paced", {"ref": "c", "n": 1})).outcome == "success"
    await approve(app, beyond)
    await until(app, beyond.call_id, "settled")
    assert await used(app) == {("rule:small-sums/tenant:local", "sum"): 12_000_000}


async def test_calls_at_once_that_reach_the_sum_become_proposals(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=ASK_BEYOND)
    views = await asyncio.gather(*(app.call("paced", {"ref": str(n), "n": 8}) for n in range(3)))
    assert sorted(view.state for view in views) == ["awaiting_approval", "awaiting_approval", "settled"]
    assert len(stage.effects) == 1


async def test_what_cannot_be_added_up_counts_against_the_caller(open_: OpenApp) -> None:
    app = await open_(more=ASK_BEYOND)
    assert (await app.call("paced", {"ref": "a", "n": -5})).state == "awaiting_approval"
    assert await used(app) == {}


async def test_a_dry_run_shows_how_the_limits_stand_and_counts_nothing(open_: OpenApp) -> None:
    app = await open_(more=DENY_BEYOND)
    for n in range(2):
        await app.call("note", {"ref": str(n)})
    request = CallRequest(principal=app.local, tool="note", arguments={"ref": "x"}, dry_run=True)
    shown = (await app.runtime.call(request)).wire()
    assert (shown["verdict"], shown["rule_id"]) == ("deny", "few-notes")
    assert shown.keys() == DRY_RUN | {"limits"}
    assert shown["limits"] == [
        {"rule_id": "few-notes", "kind": "calls", "used": 2, "limit": 2, "resets_at": ENDS, "beyond": True}
    ]
    assert await used(app) == {("rule:few-notes/subject:local/me", "calls"): 2}


async def test_a_call_that_was_never_sent_is_taken_off_a_rules_limit(open_: OpenApp, stage: Stage) -> None:
    app = await open_(more=DENY_BEYOND)
    stage.then("note", unsent, unsent)
    for n in range(4):
        view = await app.call("note", {"ref": str(n)})
        assert view.error is None or view.error.code is not ErrorCode.DENIED
    assert refused(await app.call("note", {"ref": "x"}), ErrorCode.DENIED)["used"] == 2


# Rates.


async def test_a_start_that_comes_too_early_is_told_when_the_next_one_is_free(open_: OpenApp) -> None:
    app = await open_()
    for n in range(3):
        await app.call("paced", {"ref": str(n)})
    details = refused(await app.call("paced", {"ref": "x"}), ErrorCode.RATE_LIMITED)
    assert 0 < details["retry_after_s"] <= 60
    assert details["resets_at"].startswith("2026-09-21T14:14:1")
