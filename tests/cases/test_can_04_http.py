"""CAN-04 for HTTP tools: neither adapter nor client tries anything again; what arrives is what the ledger has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from counterfoil.runtime.retry import time_budget
from tests.kit.bench import Bench, bench
from tests.kit.clock import SetClock
from tests.kit.http_far_side import Answer, FarSide
from tests.kit.seat import View
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
MICROSECOND: Final = 1_000_000
FEW: Final = "retry = { attempts = 3, backoff_s = 0.02, least_s = 0.01 }"
LOST: Final = Answer(then="drop")
WAITS: Final = Answer(429, headers={"Retry-After": "60"})
TOOL: Final = """
[tools.web_{name}]
description = "One request."
effect = "{effect}"
timeout_s = 5
input = {{ ref = "string" }}
{more}
[tools.web_{name}.http]
url = "{url}/{name}/{{ref}}"
{http}
"""


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSide]:
    with FarSide(tmp_path / "effects.db") as far:
        yield far


def described(far: FarSide) -> str:
    """A read, a read with little time, a write as it is by default, and one with a key."""

    def tool(name: str, effect: str, http: str, more: str = "") -> str:
        return TOOL.format(name=name, effect=effect, http=http, more=more, url=far.url)

    post = 'method = "POST"\njson = { a = 1 }\n'
    least = "retry = { attempts = 2, backoff_s = 0.02, least_s = 1_000 }"
    return (
        f'[http]\nallow_hosts = ["{far.host}"]\n'
        + tool("read", "read", 'method = "GET"', FEW)
        + tool("short", "read", 'method = "GET"', least)
        + tool("write", "write", post)
        + tool("keyed", "write", post + 'idempotency_header = "Idempotency-Key"', f'idempotency = "keyed"\n{FEW}')
    )


def asked(far: FarSide, tool: str) -> list[str | None]:
    """The key of each request that reached the far side."""
    return [one.headers.get("idempotency-key") for one in far.seen if one.target == f"/{tool.removeprefix('web_')}/r"]


async def same_count(at: Bench, far: FarSide, view: View) -> int:
    """How many requests there were, which the ledger, the view and the connections say too."""
    arrived = asked(far, view["tool"])
    assert await at.attempts(view["call_id"]) == len(arrived) == view["attempts"] == len(far.seen)
    return len(arrived)


async def ask(at: Bench, far: FarSide, tool: str, answer: Answer, **more: Any) -> View:
    far.script(f"/{tool.removeprefix('web_')}/r", answer)
    return await at.seat.call(tool, {"ref": "r"}, **{"wait_s": 20} | more)


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize(
    ("tool", "answer", "attempts", "outcome"),
    [
        ("web_read", Answer(503), 3, "retryable_failure"),
        ("web_read", LOST, 3, "retryable_failure"),
        ("web_write", Answer(503), 1, "ambiguous"),
        ("web_write", LOST, 1, "ambiguous"),
        ("web_write", Answer(429, headers={"Retry-After": "0"}), 1, "retryable_failure"),
        ("web_keyed", Answer(503), 3, "ambiguous"),
        ("web_keyed", LOST, 3, "ambiguous"),
        ("web_keyed", Answer(503, headers={"Retry-After": "0"}), 3, "retryable_failure"),
    ],
)
async def test_a_far_side_that_always_fails_is_asked_as_often_as_the_contract_says(
    shop: Workshop, far: FarSide, tool: str, answer: Answer, attempts: int, outcome: str
) -> None:
    async with bench(shop, described(far)) as at:
        view = await ask(at, far, tool, answer)
        assert view["outcome"] == outcome
        assert await same_count(at, far, view) == attempts
        keys = set(asked(far, tool))
        assert len(keys) == 1
        assert all(key.startswith("act_") for key in keys if key) is True
        assert (keys == {None}) is (tool != "web_keyed")
        if tool != "web_read":
            assert far.connections == attempts


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize("status", [400, 401, 422])
@pytest.mark.parametrize("tool", ["web_read", "web_write", "web_keyed"])
async def test_a_refusal_of_the_far_side_is_never_tried_again(
    shop: Workshop, far: FarSide, tool: str, status: int
) -> None:
    async with bench(shop, described(far)) as at:
        view = await ask(at, far, tool, Answer(status))
        assert (view["outcome"], view["error"]["retryable"]) == ("permanent_failure", False)
        assert await same_count(at, far, view) == 1


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize("tool", ["web_read", "web_keyed"])
async def test_a_far_side_that_wants_to_be_left_alone_is_left_alone_that_long(
    shop: Workshop, far: FarSide, tool: str
) -> None:
    async with bench(shop, described(far), server='visibility = "deferred"\ngrace_s = 0') as at:
        view = await ask(at, far, tool, WAITS, wait_s=0.5)
        assert (view["state"], view["outcome"], view["attempts"]) == ("queued", None, 1)
        retried = next(event for event in await at.events(view["call_id"]) if event["type"] == "retried")
        assert retried["not_before"] >= retried["at"] + 60 * MICROSECOND
        stopped = await at.seat.ask("cancel", call_id=view["call_id"])
        assert (stopped["state"], stopped["error"]["code"]) == ("settled", "cancelled")
        assert len(asked(far, tool)) == 1


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize("tool", ["web_read", "web_keyed", "web_write"])
async def test_a_wish_beyond_the_budget_of_time_ends_the_call_and_is_passed_on(
    shop: Workshop, far: FarSide, tool: str
) -> None:
    async with bench(shop, described(far)) as at:
        view = await ask(at, far, tool, Answer(429, headers={"Retry-After": "10000"}))
        assert (view["state"], view["outcome"]) == ("settled", "retryable_failure")
        assert view["error"]["details"]["retry_after_s"] == 10_000
        assert await same_count(at, far, view) == 1


@pytest.mark.promise("CAN-04")
async def test_no_attempt_starts_with_less_than_the_least_time_left(shop: Workshop, far: FarSide) -> None:
    async with bench(shop, described(far)) as at:
        view = await ask(at, far, "web_short", Answer(503))
        assert await same_count(at, far, view) == 1


@pytest.mark.promise("CAN-04")
@pytest.mark.parametrize("tool", ["web_read", "web_keyed"])
@pytest.mark.parametrize(("jump", "attempts"), [(0.0, 3), (1.0, 1)])
async def test_nothing_more_is_tried_when_the_one_budget_of_time_is_spent(
    shop: Workshop, far: FarSide, tool: str, jump: float, attempts: int
) -> None:
    clock = SetClock()
    async with bench(shop, described(far), clock=clock) as at:
        entry = at.app.catalogue.get(tool)
        assert entry is not None
        budget = time_budget(entry.contract.retry, entry.contract.limits.timeout_s)

        def jumping() -> float:
            clock.ahead_s += budget * jump
            return 0.0

        at.parts.chance = jumping
        view = await ask(at, far, tool, Answer(429))
        assert await same_count(at, far, view) == attempts
