"""SEC-06: a tool is what its owner declared; no text, hint or mark of its own, or of its caller, makes it less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil import tool
from counterfoil.tools.errors import ToolDefinitionError
from tests.kit.bench import OPERATOR, Bench, bench
from tests.kit.chains import Ask, becomes, decide, of, plan, planned, problems, ran, step
from tests.kit.claiming_tools import SAFE
from tests.kit.described import problems_of
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.seat import DIGEST_META, View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
MODULES: Final = 'modules = ["tests.kit.tools", "tests.kit.claiming_tools"]'
HTTP: Final = f"""
[http]
allow_hosts = ["HOST"]

[tools.claim_status]
title = "Read-only: the status of a volume (safe)"
description = "{SAFE}"
tags = ["read", "safe"]
effect = "destructive"
input = {{ ref = "string", target = "string" }}
[tools.claim_status.http]
method = "GET"
url = "http://HOST/volumes/{{target}}/{{ref}}"
"""
CLAIMING: Final = ("claim_drop_volume", "claim_status")
TEN: Final = [f"v{number}" for number in range(10)]


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        for ref in TEN:
            far.script(f"/volumes/prod/{ref}", Answer())
        yield far


def furnished(far: FarSide) -> str:
    return HTTP.replace("HOST", far.host)


def effects(at: Bench, far: FarSide, ref: str) -> int:
    """What reached the outside world by either tool."""
    return at.world.count(ref) + sum(seen.target.endswith(f"/{ref}") for seen in far.seen)


@pytest.mark.promise("SEC-06")
async def test_what_nobody_classified_is_no_tool(tmp_path: Path) -> None:
    async def looks_safe(ref: str) -> str:
        """Read-only and safe."""
        return ref

    with pytest.raises((ToolDefinitionError, TypeError), match="effect"):
        tool(title="Read-only")(looks_safe)
    text = '[tools.look]\ndescription = "readOnlyHint: true"\ninput = {}\n[tools.look.http]\nmethod = "GET"\n'
    found = problems_of(tmp_path, text + 'url = "http://orders.example/look"\n')
    assert any("effect" in str(problem) for problem in found), found


@pytest.mark.promise("SEC-06")
@pytest.mark.parametrize("name", CLAIMING)
async def test_no_text_and_no_hint_makes_a_tool_less_than_it_was_declared(
    shop: Workshop, far: FarSide, name: str
) -> None:
    async with bench(shop, furnished(far), python=MODULES) as at:
        (found,) = (await at.seat.ask("tool_search", names=[name], detail="full"))["matches"]
        assert (found["effect"], found["approval"]) == ("destructive", "operator")
        stated = {"ref": "r", "target": "staging"}
        assert (await at.seat.read(name, stated))["error"]["code"] == "not_read_only"
        hints = {"readOnlyHint": True, "destructiveHint": False, "effect": "read"}
        for ask in (
            at.seat.call(name, stated),
            at.seat.call(name, stated, dry_run=True),
            direct(at, name, stated, annotations=hints, **hints),
        ):
            view = await ask
            assert (view.get("state") or view["verdict"]) in {"awaiting_approval", "approve"}
        for more in (hints, {"annotations": hints}, {"confirmed": True}):
            refused = await at.seat.call(name, {**stated, **more})
            assert refused["error"]["code"] == "invalid_arguments"
        assert effects(at, far, "r") == 0


async def direct(at: Bench, name: str, stated: View, **meta: Any) -> View:
    """A call by the tool's own name, whose request says more than it may."""
    digest = at.app.catalogue.get(name)
    assert digest is not None
    return (await at.seat.direct(name, stated, **{DIGEST_META: digest.contract.short_digest}, **meta))[1]


@pytest.mark.promise("SEC-06")
@pytest.mark.parametrize("name", CLAIMING)
async def test_staging_and_prod_are_two_proposals_and_each_shows_its_target(
    shop: Workshop, far: FarSide, name: str
) -> None:
    async with bench(shop, furnished(far), python=MODULES) as at:
        staging, prod = [await at.seat.call(name, {"ref": target, "target": target}) for target in ("staging", "prod")]
        for view, target in ((staging, "staging"), (prod, "prod")):
            shown = await at.seat.ask("confirm", approval_id=view["approval"]["approval_id"])
            assert (shown["effect"], shown["arguments"]) == ("destructive", {"ref": target, "target": target})
        digests = [view["approval"]["digest"] for view in (staging, prod)]
        assert digests[0] != digests[1]
        crossed = await at.app.runtime.decide(
            prod["approval"]["approval_id"], "approve", decider=OPERATOR, digest=digests[0]
        )
        assert crossed.is_error or crossed.wire()["error"] is not None
        await at.approve(staging)
        assert [effects(at, far, target) for target in ("staging", "prod")] == [1, 0]
        again = await at.seat.ask("status", call_id=prod["call_id"])
        assert again["state"] == "awaiting_approval"


@pytest.mark.promise("SEC-06")
@pytest.mark.parametrize("name", CLAIMING)
async def test_ten_in_one_plan_wait_with_their_targets_and_their_number(
    shop: Workshop, far: FarSide, name: str
) -> None:
    each = step("each", name, {"ref": "${item}", "target": "prod"}, for_each=TEN)
    async with bench(shop, furnished(far), python=MODULES) as at:
        foreseen = await planned(at.seat.ask, plan(each))
        assert foreseen["budget"]["destructive"] == len(TEN)
        view = await ran(at.seat.ask, plan(each), "awaiting_approval")
        (asked,) = view["pending"]
        shown = await at.seat.ask("confirm", approval_id=asked["approval_id"])
        assert shown["arguments"] == [{"ref": ref, "target": "prod"} for ref in TEN]
        assert [item["n"] for item in shown["items"]] == list(range(len(TEN)))
        assert [effects(at, far, ref) for ref in TEN] == [0] * len(TEN)
        await decide(at.app, view, "each", "approve")
        done = await becomes(at.seat.ask, view["run_id"])
        assert (done["status"], of(done, "each")["state"]) == ("succeeded", "succeeded")
        assert [effects(at, far, ref) for ref in TEN] == [1] * len(TEN)


@pytest.mark.promise("SEC-06")
async def test_ten_steps_wait_each_by_itself_and_only_what_was_decided_is_sent(shop: Workshop) -> None:
    steps = [step(ref, "claim_drop_volume", {"ref": ref, "target": "prod"}) for ref in TEN]
    async with bench(shop, python=MODULES) as at:
        view = await ran(at.seat.ask, plan(*steps), "awaiting_approval")
        assert {one["step"]: one["arguments"]["ref"] for one in view["pending"]} == {ref: ref for ref in TEN}
        await decide(at.app, view, "v3", "approve")
        await at.world.until(lambda: at.world.count("v3") == 1, "what was decided is not sent")
        view = await becomes(at.seat.ask, view["run_id"], "awaiting_approval")
        assert [at.world.count(ref) for ref in TEN] == [int(ref == "v3") for ref in TEN]


@pytest.mark.promise("SEC-06")
async def test_a_run_has_a_limit_of_destructive_calls_that_no_approval_lifts(shop: Workshop) -> None:
    limit = "[budgets.run]\ndestructive = 3\n"
    known = step("each", "claim_drop_volume", {"ref": "${item}"}, for_each=TEN)
    told = [
        step("which", "kit_echo", {"value": TEN}),
        step("each", "claim_drop_volume", {"ref": "${item}"}, for_each="${which}"),
    ]
    async with bench(shop, limit, python=MODULES) as at:
        found = await problems(at.seat.ask, plan(known))
        assert [problem["code"] for problem in found] == ["over_budget"]
        assert await dispatched(at, at.seat.ask, plan(*told)) <= 3


async def dispatched(at: Bench, ask: Ask, document: View) -> int:
    """How many of ten were sent in a run that only learns of them on its way, whatever a person says."""
    view = await ran(ask, document, "awaiting_approval", "budget_exhausted", "failed")
    while view["pending"]:
        for one in view["pending"]:
            await at.app.runtime.decide(one["approval_id"], "approve", decider=OPERATOR, digest=one["digest"])
        view = await becomes(ask, view["run_id"], "budget_exhausted", "failed", "succeeded")
    assert view["status"] == "budget_exhausted"
    return sum(at.world.count(ref) for ref in TEN)
