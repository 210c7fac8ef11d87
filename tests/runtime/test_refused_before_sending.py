"""What fits a schema and cannot be sent is refused before policy, approval and dispatch: nothing of it is recorded
but the refusal, no person is asked, and no key is bound."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from counterfoil.registry.request import CallRequest
from counterfoil.runtime.views import CallView
from counterfoil.server.app import App
from tests.kit.rules import check_call_view
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage
from tests.runtime.talk import approve, until

pytestmark = pytest.mark.anyio

FAR: Final = """
[http]
allow_hosts = ["127.0.0.1:9"]
[tools.far]
description = "Delete at the far side."
effect = "destructive"
input = { id = "string", note = "string?" }
[tools.far.http]
method = "DELETE"
url = "http://127.0.0.1:9/orders/{id}"
headers = { X-Note = "{note}", Authorization = "env:NO_SUCH_SECRET" }
"""
NOTHING: Final = {"calls": 0, "attempts": 0, "approvals": 0}


def problems(view: CallView) -> list[dict[str, Any]]:
    """Of a refusal that keeps the table of design section 7."""
    check_call_view(view.wire())
    assert view.error is not None
    assert (view.state, view.outcome, view.sent) == ("refused", "invalid_request", "no")
    assert (view.error.code, view.attempts, view.approval) == ("invalid_arguments", 0, None)
    found = cast("list[dict[str, Any]]", view.error.details["problems"])
    assert found
    for one in found:
        assert one["expected"] in view.error.message
        assert one["got"] in view.error.message
    return found


def recorded(app: App) -> dict[str, int]:
    """How many rows the ledger has of what only a sent, or a proposed, call leaves."""
    path = app.config.path.with_name("ledger.db")
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as ledger:
        count = "select count(*) from {}"
        return {name: ledger.execute(count.format(name)).fetchone()[0] for name in ("calls", "attempts", "approvals")}


@pytest.mark.parametrize(
    ("arguments", "if_version", "path"),
    [
        ({"id": ".."}, None, "/id"),
        ({"id": "a/../b"}, None, "/id"),
        ({"id": ""}, None, "/id"),
        ({"id": "1", "note": "a\r\nX-Evil: 1"}, None, "/note"),
        ({"id": "1"}, "v1", "/if_version"),
    ],
)
async def test_what_an_http_request_cannot_hold_is_refused_before_anybody_is_asked(
    open_: OpenApp, arguments: dict[str, Any], if_version: str | None, path: str
) -> None:
    app = await open_(more=FAR)
    (one,) = problems(await app.call("far", arguments, if_version=if_version, idempotency_key="K"))
    assert one["path"] == path
    assert recorded(app) == NOTHING
    asked = await app.call("far", {"id": "1"}, idempotency_key="K")
    assert (asked.state, asked.replayed) == ("awaiting_approval", False)


@pytest.mark.parametrize("ref", ["forbidden", "changed", "failing", "quitting"])
async def test_what_a_tools_own_check_refuses_is_refused_before_anybody_is_asked(
    app: App, stage: Stage, ref: str
) -> None:
    request = CallRequest(principal=app.local, tool="picky", arguments={"ref": ref}, idempotency_key="K")
    for asked in (request, replace(request, dry_run=True)):
        (one,) = problems(await app.runtime.call(asked))
        assert one["path"] == ("/ref" if ref in {"forbidden", "changed"} else "")
    assert recorded(app) == NOTHING
    assert (await app.call("picky", {"ref": "1"}, idempotency_key="K")).state == "awaiting_approval"
    assert stage.calls == []


async def test_no_secret_among_the_arguments_is_quoted_by_a_refusal(app: App) -> None:
    view = await app.call("picky", {"ref": "1", "password": "correct-horse"})
    (one,) = problems(view)
    assert one["path"] == "/password"
    assert "correct-horse" not in str(view.wire())


async def test_a_check_that_has_become_stricter_refuses_an_approved_call_before_it_is_sent(
    app: App, stage: Stage
) -> None:
    asked = await app.call("picky", {"ref": "later"})
    stage.forbidden.add("later")
    await approve(app, asked)
    view = await until(app, asked.call_id, "refused", "settled")
    problems(view)
    assert stage.calls == []


async def test_a_call_that_was_made_is_still_answered_once_its_tools_check_has_become_stricter(
    app: App, stage: Stage
) -> None:
    asked = await app.call("picky", {"ref": "later"}, idempotency_key="K")
    await approve(app, asked)
    await until(app, asked.call_id, "settled")
    stage.forbidden.add("later")
    again = await app.call("picky", {"ref": "later"}, idempotency_key="K")
    assert (again.call_id, again.outcome, again.replayed) == (asked.call_id, "success", True)
    problems(await app.call("picky", {"ref": "later"}, idempotency_key="L"))
    assert stage.effects == [("picky", "later")]
