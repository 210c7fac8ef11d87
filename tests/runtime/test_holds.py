"""Holds: what an operator holds is not sent, says so, and is sent again after the release; each leaves its event."""

from __future__ import annotations

import pytest

from counterfoil.ledger.chain import head_of
from counterfoil.ledger.holding import CHAIN, HoldRow, lift_hold, list_holds, set_hold
from counterfoil.registry.vocabulary import ErrorCode
from tests.runtime.conftest import OpenApp
from tests.runtime.hands import Stage

pytestmark = pytest.mark.anyio
AT = 1_790_000_000_000_000


@pytest.mark.parametrize(("kind", "name"), [("all", ""), ("tool", "book"), ("tenant", "local"), ("subject", "")])
async def test_what_is_held_is_not_sent_until_it_is_released(
    kind: str, name: str, open_: OpenApp, stage: Stage
) -> None:
    app = await open_()
    name = app.local.subject if kind == "subject" else name
    await app.ledger.record(lambda: set_hold(kind, name, "alex", "an incident", AT))
    view = await app.call("book", {"ref": "a"})
    assert view.error is not None
    assert (view.error.code, view.sent, stage.effects) == (ErrorCode.HELD, "no", [])
    assert (view.error.details["kind"], view.error.details["name"]) == (kind, name)
    await app.ledger.record(lambda: lift_hold(kind, name, "alex", AT + 1))
    assert (await app.call("book", {"ref": "a"})).outcome == "success"


@pytest.mark.parametrize(("kind", "name"), [("tool", "note"), ("tenant", "x"), ("subject", "x"), ("run", "x")])
async def test_a_hold_of_something_else_is_in_nobodys_way(kind: str, name: str, open_: OpenApp) -> None:
    app = await open_()
    await app.ledger.record(lambda: set_hold(kind, name, "alex", "an incident", AT))
    assert (await app.call("book", {"ref": "a"})).outcome == "success"


async def test_a_hold_set_or_lifted_twice_is_recorded_once(open_: OpenApp) -> None:
    app = await open_()
    for reason in ("first", "second"):
        made = await app.ledger.record(lambda reason=reason: set_hold("all", "", "alex", reason, AT))  # type: ignore[misc]  # a default binds the loop's value
        assert made == HoldRow("all", "", "alex", "first", AT)
    assert await app.ledger.record(list_holds) == [HoldRow("all", "", "alex", "first", AT)]
    for _ in range(2):
        await app.ledger.record(lambda: lift_hold("all", "", "alex", AT))
    assert await app.ledger.record(list_holds) == []
    assert (await app.ledger.record(lambda: head_of(CHAIN))).seq == 2
