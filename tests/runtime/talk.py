"""How the runtime's tests talk to an open application: wait for a state, decide, say what happened."""

from __future__ import annotations

import asyncio
from typing import Any

from counterfoil.runtime.deciding import Decider
from counterfoil.runtime.views import ApprovalView, CallView
from counterfoil.server.app import App

CAROL = Decider("os:carol", "same_user", "cli")
LIMIT_S = 20.0


async def until(app: App, call_id: str | None, *states: str) -> CallView:
    """The call once it is in one of these states."""
    assert call_id is not None
    async with asyncio.timeout(LIMIT_S):
        while True:
            view = await app.runtime.status(app.local, call_id=call_id)
            assert isinstance(view, CallView), view
            if view.state in states:
                return view
            await asyncio.sleep(0.02)


async def proposal(app: App, view: CallView) -> ApprovalView:
    assert view.approval is not None
    found = await app.runtime.approval(str(view.approval["approval_id"]))
    assert isinstance(found, ApprovalView)
    return found


async def approve(app: App, view: CallView, decision: str = "approve", decider: Decider = CAROL) -> Any:
    return await app.runtime.decide((await proposal(app, view)).approval_id, decision, decider=decider)


async def say(app: App, call_id: str | None, resolution: str, then: str | None = None) -> Any:
    return await app.runtime.reconcile(
        app.local, call_id=call_id, resolution=resolution, evidence="the far side's own list", then=then, person=CAROL
    )
