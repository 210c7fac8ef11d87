"""A proposal in place of a call: made, made anew when it lapsed, and redeemed when a person has said yes.

Nothing is sent here. What an approval is bound to is checked before T1, which consumes it.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ..ledger.approval_rows import ApprovalRow
from ..ledger.approving import Proposed, TooManyPending, propose, repropose
from ..ledger.errors import CannotRecordError
from ..ledger.rows import CallRow
from ..registry.contract import Contract
from ..registry.policy import Decision
from ..registry.principal import Principal
from ..registry.vocabulary import Assurance, ErrorCode, Verdict
from .case import Case
from .clock import micros
from .limiting import limit_details, require_budget
from .not_sent import NeedsProposalError
from .parts import Parts
from .proposal import PURPOSE, Terms, document, new_approval
from .refusal import refuse
from .sending import Sender, cannot_record
from .viewing import Viewer
from .views import CallView
from .writing import digest_of, first_record, neighbours


class Proposer:
    """Makes proposals and holds calls to them."""

    def __init__(self, parts: Parts, viewer: Viewer, sender: Sender) -> None:
        self._parts = parts
        self._viewer = viewer
        self._sender = sender

    async def propose(self, case: Case) -> CallView:
        """Its first record is a proposal; nothing else is held while a person decides."""
        parts = self._parts
        at = parts.clock.now()
        if parts.limits_calls:
            await self._sender.look(case, neighbours(case, at, parts.settings.duplicate_window_s))
            await require_budget(parts, case)
        first = first_record(case, parts, at)
        approval = self._approval(first.row, case.known.contract, case.known.decision, at)
        carried, most = parts.take_deliveries(), parts.settings.pending_max
        try:
            result = await parts.ledger.record(
                lambda: propose(
                    first.row,
                    first.who,
                    first.arguments,
                    approval,
                    pending_max=most,
                    owner_id=parts.ledger.owner_id,
                    deliveries=carried,
                )
            )
        except CannotRecordError as error:
            parts.deliveries.extend(carried)
            raise cannot_record(error) from None
        if isinstance(result, Proposed):
            case.record(result.row)
            return await self._viewer.view(result.row, approval=result.approval)
        if isinstance(result, TooManyPending):
            raise refuse(
                ErrorCode.RATE_LIMITED,
                f"{result.pending} of your proposals wait for a decision already; have some decided first.",
                pending=result.pending,
            )
        self._sender.stop(case, result)
        raise AssertionError(f"{type(result).__name__} neither proposes nor stops")

    async def propose_again(self, case: Case, old: ApprovalRow | None) -> CallView:
        """The proposal of a call that needs another decision than the one it has."""
        parts, row = self._parts, case.row
        assert row is not None, "only a call with a row is proposed again"
        at = parts.clock.now()
        decision = _as_asked(case.known.decision, old)
        approval = self._approval(row, case.known.contract, decision, at)
        why = "the decision was not carried out in its window" if old is not None else "a decision is needed now"
        done = await parts.ledger.record(lambda: repropose(row.call_id, approval, why, at))
        if done is None:
            return await self._viewer.view(await self._viewer.row(row.call_id) or row)
        case.record(done.row)
        return await self._viewer.view(done.row, approval=done.approval)

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
        return self._approval(row, contract, _as_asked(decision, approval), at)

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
        if Assurance(approval.assurance).strength < needed:
            raise NeedsProposalError(approval)
        terms = Terms(approval.assurance, approval.rule_id, approval.expires_at)
        digest = self._parts.ledger.mac(
            PURPOSE, document(row, known.contract, digest_of(known.arguments.digest, row.if_version), terms)
        )
        if digest != approval.digest:
            raise NeedsProposalError(approval)
        return digest

    def _approval(self, row: CallRow, contract: Contract, decision: Decision, at: int) -> ApprovalRow:
        parts = self._parts
        valid = micros(parts.settings.proposal_valid_s)
        terms = Terms(decision.assurance.value, decision.rule_id, at + valid)
        digest = parts.ledger.mac(PURPOSE, document(row, contract, row.args_digest, terms))
        within = micros(parts.settings.execute_within_s)
        return new_approval(parts.ids.new("apr_"), row, contract, decision, digest, at, valid, within)


def _as_asked(decision: Decision, old: ApprovalRow | None) -> Decision:
    """The rule that a fresh proposal names: today's, or that of the old one where today's asks for nobody."""
    if old is None or decision.verdict is not Verdict.ALLOW:
        return decision
    return replace(decision, assurance=Assurance(old.assurance), rule_id=old.rule_id or "")


def principal_of(row: CallRow) -> Principal:
    """The grant of a recorded call: who asked, with the scopes of the submission."""
    return Principal(row.tenant, row.subject, row.client, frozenset(json.loads(row.scopes)))
