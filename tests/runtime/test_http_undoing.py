"""What a described tool says of its undoing: people and programs are shown it, and nothing runs it by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.runtime.deciding import Decider
from counterfoil.server.app import open_app
from counterfoil.server.cli import main
from tests.kit.http_far_side import Answer, FarSide

CONFIG: Final = """
[server]
grace_s = 0
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
[policy_defaults]
write = "allow"
[http]
allow_hosts = ["HOST"]
[tools.order_refund]
description = "Refund an order."
effect = "write"
resources = ["order:{order_id}"]
input = { order_id = "string", amount = "number" }
output = { refund_id = "string" }
[tools.order_refund.http]
method = "POST"
url = "http://HOST/orders/{order_id}/refunds"
json = { amount = "{amount}" }
[tools.order_refund.compensation]
tool = "order_charge"
arguments = { order_id = "{arguments.order_id}", amount = "{amount}", why = "undo of {output.refund_id}" }
[tools.order_charge]
description = "Charge an order again."
effect = "write"
input = { order_id = "string", amount = "number", why = "string" }
[tools.order_charge.http]
method = "POST"
url = "http://HOST/orders/{order_id}/charges"
json = { amount = "{amount}" }
[tools.order_charge.compensation]
method = "DELETE"
url = "http://HOST/charges/{output.charge_id}"
"""
TEMPLATE: Final = {"order_id": "{arguments.order_id}", "amount": "{amount}", "why": "undo of {output.refund_id}"}
PERSON: Final = Decider("os:carol", "same_user", "cli")


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


@pytest.fixture
def config(tmp_path: Path, far: FarSide) -> str:
    (tmp_path / "counterfoil.toml").write_text(CONFIG.replace("HOST", far.host))
    return str(tmp_path / "counterfoil.toml")


def shown(capfd: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(line) == 0
    return capfd.readouterr().out


def test_a_tool_is_shown_with_the_tool_that_undoes_it_and_the_arguments_that_are_made_for_that(
    config: str, capfd: pytest.CaptureFixture[str]
) -> None:
    card = "".join(shown(capfd, "tools", "show", "order_refund", "--config", config).split())
    facts = json.loads(shown(capfd, "tools", "show", "order_refund", "--config", config, "--json"))
    inline = json.loads(shown(capfd, "tools", "show", "order_charge", "--config", config, "--json"))

    assert "undonebyorder_charge" in card
    assert "undonewith" + "".join(json.dumps(TEMPLATE).split()) in card
    assert (facts["compensation"], facts["compensation_arguments"]) == ("order_charge", TEMPLATE)
    assert (inline["compensation"], inline["compensation_arguments"]) == ("order_charge__undo", None)


def test_a_search_finds_the_tool_that_undoes_and_never_an_undoing_without_a_contract_of_its_own(
    config: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(shown(capfd, "tools", "search", "undo charge order", "--config", config, "--json"))
    names: list[Any] = [match["name"] for match in found["matches"]]
    assert "order_charge" in names
    assert not [name for name in names if name.endswith("__undo")]


@pytest.mark.anyio
async def test_nothing_undoes_anything_by_itself(config: str, far: FarSide) -> None:
    far.script("/orders/o2/refunds", Answer(then="drop", commit=True))
    far.script("/orders/o3/refunds", Answer(422))
    async with open_app(config) as app:
        done, unknown, refused = [
            await app.call("order_refund", {"order_id": order, "amount": 5}) for order in ("o1", "o2", "o3")
        ]
        assert [done.outcome, unknown.outcome, refused.outcome] == ["success", "ambiguous", "permanent_failure"]
        for view in (done, unknown, refused):
            await app.runtime.cancel(app.local, call_id=view.call_id)
    async with open_app(config) as app:
        said = await app.runtime.reconcile(
            app.local, call_id=unknown.call_id, person=PERSON, resolution="happened", evidence="their books"
        )
        assert said.wire()["state"] == "settled"
        direct = await app.call("order_charge__undo", {"order_id": "o1", "amount": 5, "why": "w"})
        assert (direct.state, direct.outcome, direct.attempts) == ("refused", "denied", 0)
    assert [(one.method, one.target) for one in far.seen] == [("POST", f"/orders/o{n}/refunds") for n in (1, 2, 3)]
