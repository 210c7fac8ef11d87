"""What the tests of the undoing of runs share: acts that fail, and looks at what has become of each effect."""

from __future__ import annotations

import asyncio
from typing import Any

from counterfoil import Outcome
from counterfoil.runtime.views import CallView
from tests.runtime.chain.running import CAROL, Runs, step
from tests.runtime.hands import Act, Stage

UNDO: dict[str, Any] = {"on_failure": "compensate"}


def refuse(_: Any) -> Outcome[Any]:
    return Outcome.permanent("no", sent="no")


def doubtful(_: Any) -> Outcome[Any]:
    return Outcome.permanent("it says error", sent="unknown")


def partly(_: Any) -> Outcome[Any]:
    return Outcome.partial({"ref": "half"}, "half of it")


def fails_later() -> tuple[asyncio.Event, Act]:
    """An act that fails once it is let go."""
    go = asyncio.Event()

    async def act(call: Any) -> Outcome[Any]:
        await go.wait()
        return refuse(call)

    return go, act


def fails(*after: str, tool: str = "peek") -> dict[str, Any]:
    return step("bad", tool, depends_on=list(after))


def acted(stage: Stage) -> list[tuple[str, str]]:
    return [effect for effect in stage.effects if not effect[0].startswith(("peek", "asked_happened"))]


async def view_of(runs: Runs, run_id: str) -> dict[str, Any]:
    view: Any = await runs.app.runtime.status(runs.app.local, run_id=run_id)
    found: dict[str, Any] = view.wire()
    return found


def fates(view: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    return [(one["step"], one["item"], one["state"]) for one in view["compensations"]]


async def reconciled(runs: Runs, run_id: str) -> dict[str, Any]:
    await runs.woken(run_id)
    await runs.app.runtime.reconcile(runs.app.local, run_id=run_id, wait_s=5)
    await runs.idle()
    return await view_of(runs, run_id)


async def word(runs: Runs, call_id: str, resolution: str, **more: Any) -> None:
    view = await runs.app.runtime.reconcile(
        runs.app.local, call_id=call_id, resolution=resolution, evidence="their list", person=CAROL, **more
    )
    assert isinstance(view, CallView), view
    assert view.error is None or view.state == "settled", view
