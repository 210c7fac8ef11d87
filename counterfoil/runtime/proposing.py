"""A proposal in place of a call: made, made anew when it lapsed, and redeemed when a person has said yes.

Nothing is sent here. What an approval is bound to is checked before T1, which consumes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ..ledger.approval_rows import ApprovalRow
from ..ledger.approvals import window_ends
from ..ledger.dispatching import Moved
from ..ledger.errors import CannotRecordError
from ..ledger.proposals import Hindered, ProposeResult, TooManyPending, Waiter, find_hindered, propose
from ..ledger.proposals import Proposed as Made
from ..ledger.rows import CallRow
from ..registry.contract import Contract
from ..registry.policy import Decision
from ..registry.principal import Principal
from ..registry.vocabulary import Assurance, ErrorCode, Route, Verdict
from .case import Case
from .clock import micros
from .gathering import Wish, given_up
from .limiting import charges, limit_details, require_budget
from .not_sent import NeedsProposalError, NotSentError
from .parts import Parts
from .previewing import APPROVAL_NEEDED, Ask, Preview, Previewer, Proposed
from .proposal import PURPOSE, PURPOSE_OF_SEVERAL, Terms, decided_together, document, is_about, new_approval, strictest
from .refusal import RefusedError, refuse
from .sending import Sender, cannot_record
from .viewing import Viewer
from .views import CallView
from .writing import digest_of, first_record, neighbours


class Proposer:
    """Makes proposals and holds calls to them."""

    def __init__(self, parts: Parts, viewer: Viewer, sender: Sender, ask: Ask) -> None:
        self._parts = parts
        self._viewer = viewer
        self._sender = sender
        self._previewer = Previewer(parts, ask)

    async def propose(self, case: Case) -> CallView:
        """Its first record is a proposal; nothing else is held while a person decides."""
        return await self._meet(Wish(case, case.known.decision))

    async def propose_again(self, case: Case, old: ApprovalRow | None) -> CallView:
        """The proposal of a call that needs another decision than the one it has."""
        assert case.row is not None, "only a call with a row is proposed again"
        why = _why_again(old, case.known.decision, self._parts.clock.now())
        return await self._meet(Wish(case, _as_asked(case.known.decision, old), why))

    async def _meet(self, wish: Wish) -> CallView:
        within, request = wish.case.within, wish.case.request
        if request is not None and request.route is Route.PREVIEW:
            raise refuse(ErrorCode.DENIED, APPROVAL_NEEDED)
        if within is not None and within.gathering is not None:
            return await within.gathering.meet(within.item, wish, self._propose)
        (answer,) = await self._propose([wish])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _propose(self, wishes: Sequence[Wish]) -> list[CallView | Exception]:
        """One proposal for all of them, as far as one person may decide them; an answer for each."""
        answers: dict[Wish, CallView | Exception] = {}
        able: list[Wish] = []
        for wish in wishes:
            try:
                await self._require_room(wish.case)
                able.append(wish)
            except (NotSentError, RefusedError) as error:
                answers[wish] = error
        for group in decided_together(able):
            answers |= await self._propose_group(group)
        return [answers[wish] for wish in wishes]

    async def _propose_group(self, group: list[Wish]) -> dict[Wish, CallView | Exception]:
        """One proposal; whoever is hindered gets its own answer, and the others are proposed without it."""
        answers = await self._hindered_before(group)
        group = [wish for wish in group if wish not in answers]
        previews = await self._previewer.of([_proposed(wish.case) for wish in group])
        while group:
            if previews and (left := next((wish for wish in group if wish.case.unwanted), None)) is not None:
                answers[left] = given_up(left.case)
                group = [wish for wish in group if wish is not left]
                continue
            result = await self._record(group, previews)
            if isinstance(result, Made):
                for wish, row in zip(group, result.rows, strict=True):
                    wish.case.record(row)
                    answers[wish] = await self._viewer.view(row, approval=result.approval)
                break
            if isinstance(result, TooManyPending):
                answers |= dict.fromkeys(group, _too_many(result))
                break
            hindered = next(wish for wish in group if wish.case.call_id == result.call_id)
            answers[hindered] = await self._hindered(hindered.case, result)
            group = [wish for wish in group if wish is not hindered]
        return answers

    async def _hindered_before(self, group: list[Wish]) -> dict[Wish, CallView | Exception]:
        """The answers of those that cannot be proposed now: a preview, which is a call of its own, is not for them."""
        if group[0].case.known.contract.gate.preview is None:
            return {}
        parts, at = self._parts, self._parts.clock.now()
        waiters, owner_id = [self._unsigned(wish.case, at) for wish in group], parts.ledger.owner_id
        found = await parts.ledger.reads.look(lambda: find_hindered(waiters, owner_id, at))
        wishes = {wish.case.call_id: wish for wish in group}
        return {wishes[one.call_id]: await self._hindered(wishes[one.call_id].case, one) for one in found}

    async def _require_room(self, case: Case) -> None:
        """Nobody is asked about what no budget is there for."""
        parts = self._parts
        at = parts.clock.now()
        if case.row is None and charges(parts, case, at):
            await self._sender.look(case, neighbours(case, at, parts.settings.duplicate_window_s))
        if case.row is None or case.row.charges is None:
            await require_budget(parts, case)

    async def _record(self, group: list[Wish], previews: dict[str, Preview]) -> ProposeResult:
        parts = self._parts
        at, most = parts.clock.now(), parts.settings.pending_max
        decision = strictest([wish.decision for wish in group])
        why = next((wish.why for wish in group if wish.why is not None), None)
        if why is not None:
            decision = replace(decision, reason=f"{decision.reason} Asked again: {why}.")
        until = at + micros(parts.settings.proposal_valid_s)
        terms = Terms(decision.assurance.value, decision.rule_id, until)
        waiters = [self._waiter(wish.case, terms, at) for wish in group]
        approval = self._approval(
            waiters[0].row, group[0].case.known.contract, decision, at, [waiter.digest for waiter in waiters]
        )._replace(preview=self._previewer.kept([_proposed(wish.case) for wish in group], previews))
        carried = parts.take_deliveries()
        try:
            return await parts.ledger.record(
                lambda: propose(
                    waiters,
                    approval,
                    pending_max=most,
                    owner_id=parts.ledger.owner_id,
                    why=why,
                    deliveries=carried,
                )
            )
        except CannotRecordError as error:
            parts.deliveries.extend(carried)
            raise cannot_record(error) from None

    def _waiter(self, case: Case, terms: Terms, at: int) -> Waiter:
        waiter = self._unsigned(case, at)
        return waiter._replace(digest=self._digest(waiter.row, case.known.contract, terms))

    def _unsigned(self, case: Case, at: int) -> Waiter:
        if case.row is not None:
            return Waiter(case.row, "")
        first = first_record(case, self._parts, at)
        return Waiter(first.row, "", first.who, first.arguments)

    async def _hindered(self, case: Case, found: Hindered) -> CallView | Exception:
        if isinstance(found.by, Moved):
            row = await self._viewer.row(case.call_id) or case.row
            assert row is not None, "what moved has a row"
            return await self._viewer.view(row)
        try:
            self._sender.stop(case, found.by)
        except (NotSentError, RefusedError) as error:
            return error
        raise AssertionError(f"{type(found.by).__name__} neither proposes nor stops")

    async def proposal_for(self, row: CallRow, contract: Contract, *, fresh: bool) -> ApprovalRow | None:
        """The fresh proposal that another sending of this call needs; None if its approval still covers it."""
        approval = await self._viewer.approval(row.approval_id)
        at = self._parts.clock.now()
        covered = approval is not None and approval.execute_until is not None and at <= approval.execute_until
        if approval is None or (covered and not fresh):
            return None
        arguments = json.loads(await self._parts.ledger.open_payload(row.args_payload))
        decision = self._parts.policy.decide(contract, arguments, principal_of(row))
        if decision.verdict is Verdict.DENY:
            raise refuse(ErrorCode.DENIED, decision.reason, rule_id=decision.rule_id, rule=decision.rule_id)
        again = Proposed(row.call_id, row.action_id, contract, arguments, principal_of(row))
        preview = self._previewer.kept([again], await self._previewer.of([again]))
        return self._approval(row, contract, _as_asked(decision, approval), self._parts.clock.now())._replace(
            preview=preview
        )

    def redeem(self, case: Case, row: CallRow, approval: ApprovalRow | None) -> str | None:
        """What the approval must be bound to now; a stricter verdict or a changed contract needs a fresh proposal."""
        known = case.known
        if known.decision.verdict is Verdict.DENY:
            rule_id, limit = known.decision.rule_id, limit_details(self._parts, case)
            raise refuse(ErrorCode.DENIED, known.decision.reason, rule_id=rule_id, rule=rule_id, **limit)
        needed = known.decision.assurance.strength if known.decision.verdict is Verdict.APPROVE else 0
        if approval is None:
            if needed:
                raise NeedsProposalError(None)
            return None
        if Assurance(approval.assurance).strength < needed or not is_about(approval, row, known.contract):
            raise NeedsProposalError(approval)
        terms = Terms(approval.assurance, approval.rule_id, approval.expires_at)
        return self._digest(row, known.contract, terms, digest_of(known.arguments.digest, row.if_version))

    def _digest(self, row: CallRow, contract: Contract, terms: Terms, args_digest: str | None = None) -> str:
        return self._parts.ledger.mac(PURPOSE, document(row, contract, args_digest or row.args_digest, terms))

    def _approval(
        self, row: CallRow, contract: Contract, decision: Decision, at: int, digests: Sequence[str] = ()
    ) -> ApprovalRow:
        """The proposal for this call; for several, whose parts have these digests, the first of which is this one."""
        parts = self._parts
        valid = micros(parts.settings.proposal_valid_s)
        terms = Terms(decision.assurance.value, decision.rule_id, at + valid)
        digest = self._digest(row, contract, terms)
        if len(digests) > 1:
            digest = parts.ledger.mac(PURPOSE_OF_SEVERAL, "\n".join(digests).encode())
        within = micros(parts.settings.execute_within_s)
        return new_approval(parts.ids.new("apr_"), row, contract, decision, digest, at, valid, within)


def _proposed(case: Case) -> Proposed:
    known, item = case.known, None if case.within is None else case.within.item
    return Proposed(case.call_id, case.action_id, known.contract, known.arguments.value, case.principal, item, case)


def _why_again(old: ApprovalRow | None, decision: Decision, at: int) -> str:
    """Why what was decided does not cover what would be sent now, for whoever is asked again."""
    if old is None:
        return "a decision is needed now"
    ends = window_ends(old, at)
    if ends is not None and at > ends:
        return "the decision was not carried out in its window"
    if decision.verdict is Verdict.APPROVE and decision.assurance.strength > Assurance(old.assurance).strength:
        return "the rules ask for a stronger decision by now"
    return "the tool has changed since the decision"


def _too_many(found: TooManyPending) -> RefusedError:
    return refuse(
        ErrorCode.RATE_LIMITED,
        f"{found.pending} of your proposals wait for a decision already; have some decided first.",
        pending=found.pending,
    )


def _as_asked(decision: Decision, old: ApprovalRow | None) -> Decision:
    """The rule that a fresh proposal names: today's, or that of the old one where today's asks for nobody."""
    if old is None or decision.verdict is not Verdict.ALLOW:
        return decision
    return replace(decision, assurance=Assurance(old.assurance), rule_id=old.rule_id or "")


def principal_of(row: CallRow) -> Principal:
    """The grant of a recorded call: who asked, with the scopes of the submission."""
    return Principal(row.tenant, row.subject, row.client, frozenset(json.loads(row.scopes)), row.proof)
