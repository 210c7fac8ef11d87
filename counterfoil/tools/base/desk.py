"""What base tools ask of the runtime. It implements `Desk` by shape; neither room imports the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ...canonical import JsonObject, JsonValue
from ...registry.principal import Principal
from ...registry.question import Question, Said
from ...registry.request import CallRequest, RunRequest
from .answer import Answer, Asked


class View(Protocol):
    """A call, run, approval or overview as it stands."""

    @property
    def is_error(self) -> bool:
        """True exactly when `error` is set, its code is not `in_progress`, and it is the error of what was asked."""
        ...

    @property
    def delivers(self) -> tuple[str, ...]:
        """The calls whose settled state this shows, so that the transport can say that it was written."""
        ...

    @property
    def pending(self) -> tuple[str, ...]:
        """The undecided proposals that it waits for."""
        ...

    @property
    def question(self) -> Question | None:
        """What the person at this client is to be asked, where that was asked for."""
        ...

    def wire(self) -> JsonObject:
        """The view as design section 7 gives it."""
        ...


class Desk(Protocol):
    """The doors of the runtime. Refusals are views; none of these raises for what a caller did."""

    async def call(self, request: CallRequest) -> View:
        """The one call path."""
        ...

    async def plan(self, principal: Principal, document: JsonValue) -> View:
        """Check a plan, keep it, run nothing; every problem at once."""
        ...

    async def run(self, request: RunRequest) -> View:
        """Start a run, find the one with this key, or take up a parked one; and wait for it.

        A wait that is cancelled stops the run before its next effect, unless the message is `NOBODY_WAITS`.
        """
        ...

    async def status(
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        after_seq: int | None,
        offset: int | None,
        wait_s: float,
    ) -> View:
        """A call or run with its events after `after_seq`; without an id the principal's overview."""
        ...

    async def cancel(
        self, principal: Principal, *, call_id: str | None, run_id: str | None, reason: str | None
    ) -> View:
        """Ask one call or run to stop."""
        ...

    async def confirm(  # noqa: PLR0913 (the fields of the base tool)
        self,
        principal: Principal,
        *,
        approval_id: str | None,
        run_id: str | None,
        decision: str | None,
        digest: str | None,
        note: str | None,
        wait_s: float,
        wait_given: bool,
        asks: bool,
    ) -> View:
        """Report a proposal and wait for it; with a decision, have the person at that client asked."""
        ...

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        """What the user of this very client may be asked of these proposals."""
        ...

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> View:
        """Check and record what came back from a form."""
        ...

    async def follow(self, principal: Principal, call_id: str, wait_s: float, *, for_decision: bool = False) -> View:
        """A call as the answer of its own request."""
        ...

    async def reconcile(  # noqa: PLR0913 (the fields of the base tool)
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        resolution: str | None,
        evidence: str | None,
        output: JsonValue,
        external_reference: str | None,
        then: str | None,
        expected_version: int | None,
        wait_s: float,
        said: Said | None,
        asks: bool,
    ) -> View:
        """Establish what happened: by probe, or by the word that the person at that client said when asked."""
        ...


def shown(view: View) -> Answer:
    """A view as an answer."""
    return Answer(view.wire(), view.is_error, view.delivers, view.question)


async def shown_or_asked(desk: Desk, view: View, asked: Asked) -> Answer:
    """A view as an answer, with the question to the client's own user that it waits for, if there is one.

    Whoever declined or dismissed a form is not shown it again by the same request.
    """
    answer = shown(view)
    if not (asked.can_ask and view.pending) or (asked.said is not None and asked.said.action != "accept"):
        return answer
    return replace(answer, question=await desk.question(asked.principal, view.pending))


async def decided(desk: Desk, asked: Asked, said: Said, wait_s: float) -> View:
    """The call of a proposal that a person has just decided, or not, as the answer of its own request."""
    told = await desk.answer(asked.principal, said)
    call_id = told.wire().get("call_id")
    return await desk.follow(asked.principal, call_id, wait_s) if isinstance(call_id, str) else told
