"""Establish what happened to a dispatched attempt without settlement: by late evidence, a probe, a person's word.

One pass follows the order of design section 4 once. What it may lead to is settled, queued to be sent again, or parked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ledger.admission import owner_lives
from ..ledger.dispatching import undisturbed
from ..ledger.errors import KeyMissingError, NoSuchPayloadError
from ..ledger.evidence import DOUBTED, is_known
from ..ledger.external import Again, accept_after_probe, stop_waiting
from ..ledger.hindering import hindrance
from ..ledger.proposals import Hindered, repropose
from ..ledger.queries import ATTEMPTS
from ..ledger.recovering import get_attempt, note_probe, note_word, resend, resolve, rule_out
from ..ledger.redact import hide_values, redact_text
from ..ledger.rows import get_call
from ..ledger.run_rows import get_run
from ..ledger.settling import Settlement, take_late
from ..ledger.states import UNRESOLVED, CallState
from ..ledger.undoing import COMPENSATION
from ..registry.outcome import Outcome, ProbeAnswer
from ..registry.request import CallRequest
from ..registry.secret_places import secret_texts
from ..registry.vocabulary import ErrorCode, JsonObject, JsonValue, Route
from ..visible import visible
from .by_hand import require_fitting
from .clock import rfc3339
from .hindered import hindered
from .polling import acceptance, next_poll
from .proposing import principal_of
from .recovery import Advice, Situation, Step, advise, last_effect_at, settles_at, stops_waiting
from .refusal import refuse
from .settlement import settlement_of
from .word import Word, kept

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..ledger.rows import AttemptRow, CallRow
    from ..registry.contract import Contract
    from .parts import Parts
    from .views import CallView

AskProbe = Callable[[CallRequest, "CallRow"], Awaitable["CallView"]]


class Reconciler:
    """Follows up unresolved calls of this ledger."""

    def __init__(self, parts: Parts, ask: AskProbe, propose: Callable[[CallRow, Contract, JsonObject], Any]) -> None:
        self._parts = parts
        self._ask = ask
        self._propose = propose
        self._busy: dict[str, asyncio.Lock] = {}

    async def follow(self, row: CallRow, *, repeatable_here: bool = False, compensating: bool = False) -> CallRow:
        """Follow the order once. The row that it leads to; unchanged where only a person can tell.

        A read that is not repeated here is settled as interrupted. While its run is `compensating`, what is known not
        to have happened is not sent again.
        """
        if row.is_read and not repeatable_here:
            return await self._interrupted(row)
        async with self._alone(row.call_id):
            at = self._parts.clock.now()
            late = await self._parts.ledger.record(lambda: take_late(row.call_id, at))
            if late is not None:
                return late
            call_id = row.call_id
            now = await self._parts.ledger.record(lambda: get_call(call_id))
            row = now if now is not None else row
            entry = self._parts.catalogue.get(row.tool, row.version)
            if entry is None or row.state not in UNRESOLVED:
                return row
            if row.state == CallState.AWAITING_EXTERNAL and entry.contract.recovery.probe is None:
                return row  # its contract had one when it was accepted
            attempt, first = await self._attempt(row), await self._attempt(row, 1)
            case = Situation(
                contract=entry.contract,
                now=at,
                first_dispatched_at=first.dispatched_at if first else row.created_at,
                hard_deadline_at=last_effect_at(attempt.hard_deadline_at if attempt else None, row.external_until),
                repeatable_here=repeatable_here,
                undisturbed=await self._parts.ledger.record(lambda: undisturbed(row)),
                compensating=compensating or await self._is_undone(row),
            )
            advice = advise(case)
            if advice.step is Step.ASK:
                row, case, said = await self._probe(row, entry.contract, case)
                return await self._act(row, entry.contract, advise(case), said)
            return await self._act(row, entry.contract, advice, {})

    async def _is_undone(self, row: CallRow) -> bool:
        """True for an accepted step of a run whose effects are undone: whoever asks about it need not know of that."""
        if row.state != CallState.AWAITING_EXTERNAL or not row.in_run or row.route == COMPENSATION:
            return False
        run = await self._parts.ledger.record(lambda: get_run(row.run_id))
        return run is not None and run.verdict is not None

    async def _interrupted(self, row: CallRow) -> CallRow:
        settlement = Settlement(
            outcome="retryable_failure",
            sent="unknown",
            at=self._parts.clock.now(),
            by="recovery",
            code=ErrorCode.TOOL_FAILED.value,
            message="The server that read it stopped before it had the answer.",
            retryable=True,
            details={"reason": "interrupted", "effect": "none"},
        )
        done = await self._parts.ledger.record(lambda: resolve(row.call_id, row.revision, settlement))
        return done or row

    async def say(self, row: CallRow, word: Word) -> CallRow:
        """Take a person's word.

        Raises:
            RefusedError: the word cannot be taken, or not yet.
        """
        contract = self._contract(row)
        await self.require_sayable(row, word)
        secrets = await self._secrets(row, contract)
        said = kept(word, secrets)
        async with self._alone(row.call_id):
            done = await self._take(row, contract, word, said, secrets)
        if done is None:
            raise refuse(
                ErrorCode.VERSION_CONFLICT, "The call moved while you spoke. Look at it again.", call_id=row.call_id
            )
        return done

    async def require_sayable(self, row: CallRow, word: Word) -> None:
        """Raise as `say` where the word cannot be taken yet."""
        contract = self._contract(row)
        by_hand = contract is not None and contract.gate.manual
        if word.resolution == "not_happened" and not by_hand:  # nothing of ours may still act for a person
            await self._not_yet(row, contract)
        if word.resolution == "happened" and contract is not None and by_hand:
            require_fitting(contract, word.output)

    async def sends_again(self, row: CallRow, word: Word) -> bool:
        """True where the word has the call sent again: nothing that it belongs to was to stop meanwhile."""
        if word.resolution != "not_happened" or word.then != "retry" or row.cancel_requested_at is not None:
            return False
        if not row.in_run or row.route == COMPENSATION:
            return True
        run = await self._parts.ledger.record(lambda: get_run(row.run_id))
        return run is None or run.cancel_requested_at is None

    async def without_secrets(self, row: CallRow, word: Word) -> Word:
        """A word in which no secret of the call's arguments stands, to be shown."""
        secrets = await self._secrets(row, self._contract(row))
        reference = word.external_reference
        return replace(
            word,
            evidence=redact_text(visible(str(hide_values(word.evidence, secrets)))),
            external_reference=None if reference is None else visible(str(hide_values(reference, secrets))),
            output=hide_values(word.output, secrets),
        )

    async def _take(
        self, row: CallRow, contract: Contract | None, word: Word, said: JsonObject, secrets: tuple[str, ...]
    ) -> CallRow | None:
        parts, at = self._parts, self._parts.clock.now()
        if word.resolution == "still_unknown":
            return await parts.ledger.record(lambda: note_word(row.call_id, row.revision, said, at))
        if await self.sends_again(row, word):
            if row.approval_id is not None and (found := await parts.ledger.record(lambda: hindrance(row, at))):
                raise hindered(found, row)  # before anything of the word is recorded: it can be said again then
            noted = await parts.ledger.record(lambda: note_word(row.call_id, row.revision, said, at))
            if noted is not None and noted.state == CallState.AWAITING_EXTERNAL:
                noted = await self._stop_waiting(noted, "A person says that it did not happen.")
            noted = await self._rule_out(noted) if noted is not None else None
            why = "a person says that it did not happen"
            return await self._send_again(noted, contract, why, fresh=True) if noted is not None else None
        settlement = self._person_settlement(row, contract, word, secrets, at)
        return await parts.ledger.record(lambda: resolve(row.call_id, row.revision, settlement, word=said))

    def _person_settlement(
        self, row: CallRow, contract: Contract | None, word: Word, secrets: tuple[str, ...], at: int
    ) -> Settlement:
        if word.resolution == "not_happened":
            return did_not_happen("person", "A person established that it did not happen.", at)
        reference = hide_values(word.external_reference, secrets)
        evidence = {"external_reference": reference} if reference else {}
        outcome: Outcome[JsonValue] = Outcome.success(word.output, evidence)
        if contract is None:
            return Settlement(outcome="success", sent="yes", at=at, by="person", evidence=dict(evidence))
        return self._settlement(row, contract, outcome, secrets, at, "person")

    async def _not_yet(self, row: CallRow, contract: Contract | None) -> None:
        """`not_happened` cannot be said while an attempt may still act."""
        for attempt in await self._parts.ledger.reads.fetch(ATTEMPTS, call_id=row.call_id):
            answered = attempt.outcome == DOUBTED and attempt.handler_ended_at is not None  # it acts no more
            if not answered and is_known(attempt, is_read=row.is_read) is not False:
                await self._may_not_act(row, contract, attempt)

    async def _may_not_act(self, row: CallRow, contract: Contract | None, attempt: AttemptRow) -> None:
        lives = await self._parts.ledger.record(lambda: owner_lives(attempt.owner_id))
        ends = last_effect_at(attempt.hard_deadline_at, row.external_until)
        until = settles_at(contract, ends) if contract is not None else None
        unbounded = until is None and lives
        if row.state == CallState.AWAITING_EXTERNAL:  # the far side has said itself that it still works on it
            until = max(until or 0, row.external_until or 0)
        running = lives and attempt.handler_ended_at is None
        early = until is not None and self._parts.clock.now() < until
        if running or early or unbounded:
            raise refuse(
                ErrorCode.IN_PROGRESS,
                "Its attempt may still act, so nobody can say yet that it did not happen"
                + (f"; ask after {rfc3339(until)}." if early else "; the server that sent it must have ended first."),
                call_id=row.call_id,
                earliest=rfc3339(until),
            )

    async def _probe(self, row: CallRow, contract: Contract, case: Situation) -> tuple[CallRow, Situation, JsonObject]:
        """Ask the far side, as a governed call of its own."""
        name = contract.recovery.probe
        assert name is not None, "asked for without a probe"
        arguments = await self._arguments(row)
        request = CallRequest(
            principal=principal_of(row), tool=name, arguments=arguments, route=Route.PROBE, parent_call_id=row.call_id
        )
        view = await self._ask(request, row)
        said = await self._said(view)
        answer = _answer_in(said)
        at, probe_id = self._parts.clock.now(), view.call_id or ""
        again = Again(
            next_poll(contract, row.external_until or at, at, _wish(said), self._parts.chance()), row.not_before
        )
        noted = await self._parts.ledger.record(
            lambda: note_probe(row.call_id, row.revision, answer.value, probe_id, at, again=again)
        )
        if noted is None:
            raise refuse(ErrorCode.VERSION_CONFLICT, "The call moved while it was asked about.", call_id=row.call_id)
        asked = Situation(
            contract=contract,
            now=at,
            first_dispatched_at=case.first_dispatched_at,
            hard_deadline_at=case.hard_deadline_at,
            answer=answer,
            asked=True,
            compensating=case.compensating,
        )
        return noted, asked, said

    async def _said(self, view: CallView) -> JsonObject:
        """What a probe answered, also where its output is too large to be shown."""
        output = view.output
        if view.truncated is not None:
            whole: JsonValue = json.loads(await self._parts.ledger.open_payload(view.truncated.payload_id))
            output = whole
        if isinstance(output, dict):
            return output
        nothing: JsonObject = {}
        return nothing

    async def _act(self, row: CallRow, contract: Contract, advice: Advice, said: JsonObject) -> CallRow:
        parts, at = self._parts, self._parts.clock.now()
        if advice.step is Step.SETTLE_HAPPENED:
            outcome: Outcome[Any] = Outcome.success(said.get("output"), _evidence(row, said))
            secrets = await self._secrets(row, contract)
            settlement = self._settlement(row, contract, outcome, secrets, at, "probe")
            done = await parts.ledger.record(lambda: resolve(row.call_id, row.revision, settlement))
            return done or row
        if advice.step is Step.SETTLE_ABSENT:
            absent = did_not_happen("probe", "The far side does not have it, and it can no longer appear.", at)
            return await parts.ledger.record(lambda: resolve(row.call_id, row.revision, absent)) or row
        if _answer_in(said) is ProbeAnswer.PENDING and row.state == CallState.AWAITING_RECONCILIATION:
            how = acceptance(contract, at, _wish(said))
            return await parts.ledger.record(lambda: accept_after_probe(row.call_id, row.revision, how, at)) or row
        if row.state == CallState.AWAITING_EXTERNAL:
            row = await self._wait_on(row, said)
        if advice.step is Step.RESEND and row.cancel_requested_at is None and row.state != CallState.AWAITING_EXTERNAL:
            ruled_out = await self._rule_out(row) if advice.ruled_out else row
            return (await self._send_again(ruled_out, contract, advice.why) if ruled_out else None) or row
        return row

    async def _wait_on(self, row: CallRow, said: JsonObject) -> CallRow:
        """An accepted call that was asked about: it is waited for on, or no longer."""
        why = stops_waiting(_answer_in(said), row.external_until, self._parts.clock.now())
        if why is None:
            return row
        return await self._stop_waiting(row, why) or row

    async def _stop_waiting(self, row: CallRow, why: str) -> CallRow | None:
        owner_id, at = self._parts.ledger.owner_id, self._parts.clock.now()
        return await self._parts.ledger.record(lambda: stop_waiting(row.call_id, row.revision, owner_id, why, at))

    async def _rule_out(self, row: CallRow) -> CallRow | None:
        at = self._parts.clock.now()
        return await self._parts.ledger.record(lambda: rule_out(row.call_id, row.revision, at))

    async def _send_again(
        self, row: CallRow, contract: Contract | None, why: str, *, fresh: bool = False
    ) -> CallRow | None:
        """Queue it, or propose it anew where its approval does not cover another sending.

        What somebody asked to stop is sent again only on a person's word.

        Raises:
            RefusedError: a decision is needed, and it is not the only thing that is missing.
        """
        parts, at = self._parts, self._parts.clock.now()
        if row.cancel_requested_at is not None and not fresh:
            return None
        if contract is not None and row.approval_id is not None:
            approval = await self._propose(row, contract, {"why": why, "fresh": fresh})
            if approval is not None:
                done = await parts.ledger.record(lambda: repropose(row.call_id, approval, why, at))
                if isinstance(done, Hindered):
                    raise hindered(done.by, row)
                return done.row if done is not None else None
        owner_id = parts.ledger.owner_id
        return await parts.ledger.record(lambda: resend(row.call_id, row.revision, owner_id, at, {"why": why}))

    def _settlement(
        self, row: CallRow, contract: Contract, outcome: Outcome[Any], secrets: tuple[str, ...], at: int, by: str
    ) -> Settlement:
        keeper = self._parts.keeper(row.call_id, row.tenant, secrets)
        return settlement_of(contract, outcome, keeper, at, self._parts.settings.output_bytes, by).settlement

    async def _secrets(self, row: CallRow, contract: Contract | None) -> tuple[str, ...]:
        """The secrets of its arguments; none where these can be read no more."""
        try:
            arguments = await self._arguments(row)
        except (NoSuchPayloadError, KeyMissingError):
            return ()
        return secret_texts(arguments, contract.gate.sensitive if contract is not None else ())

    async def _arguments(self, row: CallRow) -> JsonValue:
        value: JsonValue = json.loads(await self._parts.ledger.open_payload(row.args_payload))
        return value

    async def _attempt(self, row: CallRow, number: int | None = None) -> AttemptRow | None:
        wanted = row.generation if number is None else number
        found: AttemptRow | None = await self._parts.ledger.record(lambda: get_attempt(row.call_id, wanted))
        return found

    def _contract(self, row: CallRow) -> Contract | None:
        entry = self._parts.catalogue.get(row.tool, row.version)
        return entry.contract if entry is not None else None

    @asynccontextmanager
    async def _alone(self, call_id: str) -> AsyncGenerator[None]:
        """One follow-up of a call at a time in this process; between processes the revision decides."""
        lock = self._busy.setdefault(call_id, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._busy.pop(call_id, None)
            self._parts.passing.stir()  # what nobody knew may be known now, and no longer in anybody's way


def did_not_happen(by: str, message: str, at: int) -> Settlement:
    """An attempt of which nobody knew is established to have had no effect."""
    code = ErrorCode.TOOL_FAILED.value
    return Settlement("permanent_failure", "unknown", at, by, code, message, details={"effect": "none"})


def _answer_in(said: JsonObject) -> ProbeAnswer:
    return ProbeAnswer(str(said.get("answer", "unknown")))


def _wish(said: JsonObject) -> float | None:
    """How long the far side would rather not be asked again, in seconds."""
    wish = said.get("after_s")
    return wish if isinstance(wish, int | float) and not isinstance(wish, bool) else None


def _evidence(row: CallRow, said: JsonObject) -> JsonObject:
    """What the probe found to prove it, beside what was known when the far side accepted it."""
    known: JsonObject = json.loads(row.evidence) if row.evidence else {}
    found = said.get("evidence")
    return known | (found if isinstance(found, dict) else {})
