"""What an approval is bound to: one keyed digest over everything that was shown, and the row that carries it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..canonical import canonical
from ..ledger.approval_rows import ApprovalRow
from ..ledger.rows import CallRow
from ..registry.contract import Contract
from ..registry.policy import Decision
from ..registry.vocabulary import JsonObject

PURPOSE: Final = "approval"
PURPOSE_OF_SEVERAL: Final = "approval of several"


if TYPE_CHECKING:
    from .gathering import Wish


@dataclass(frozen=True, slots=True)
class Terms:
    """What a decision was asked for: the assurance, by which rule, until when (microseconds)."""

    assurance: str
    rule_id: str | None
    expires_at: int


def document(row: CallRow, contract: Contract, args_digest: str, terms: Terms) -> bytes:
    """The exact proposal as canonical bytes; change one field and the digest is another one."""
    bound: JsonObject = {
        "tenant": row.tenant,
        "requester": row.subject,
        "client": row.client,
        "run": row.run_id,
        "step": row.step,
        "call": row.call_id,
        "tool": contract.name,
        "version": contract.version,
        "schema_digest": contract.schema_digest,
        "arguments": args_digest,
        "if_version": row.if_version,
        "assurance": terms.assurance,
        "rule": terms.rule_id,
        "expires_at": terms.expires_at,
    }
    return canonical(bound)


def is_about(approval: ApprovalRow, row: CallRow, contract: Contract) -> bool:
    """True if what a person was shown is what would be sent: the digest binds the call, of which these are copies."""
    shown = (
        approval.tenant, approval.requester, approval.client, approval.run_id, approval.step,
        approval.tool, approval.version, approval.schema_digest, approval.effect,
    )  # fmt: skip
    now = (
        row.tenant, row.subject, row.client, row.run_id, row.step, row.tool, row.version, row.schema_digest, row.effect,
    )  # fmt: skip
    return shown == now and row.schema_digest == contract.schema_digest


def new_approval(
    approval_id: str,
    row: CallRow,
    contract: Contract,
    decision: Decision,
    digest: str,
    at: int,
    valid: int,
    within: int,
) -> ApprovalRow:
    """The row of a fresh proposal. `valid` and `within` are microseconds."""
    return ApprovalRow(
        approval_id=approval_id,
        call_id=row.call_id,
        run_id=row.run_id,
        step=row.step,
        tenant=row.tenant,
        requester=row.subject,
        client=row.client,
        tool=contract.name,
        version=contract.version,
        schema_digest=contract.schema_digest,
        effect=contract.gate.effect.value,
        digest=digest,
        assurance=decision.assurance.value,
        rule_id=decision.rule_id,
        reason=decision.reason,
        approvers=json.dumps(list(decision.approvers)),
        over_mcp=int(decision.over_mcp),
        state="pending",
        requested_at=at,
        expires_at=at + valid,
        execute_within=within,
        execute_until=None,
        decided_at=None,
        decided_by=None,
        strength=None,
        via=None,
        note=None,
        superseded_by=None,
        proof=row.proof,
    )


def strictest(decisions: Sequence[Decision]) -> Decision:
    """What one proposal for all of these asks for: the strictest assurance, whoever may decide each of them."""
    first = max(decisions, key=lambda decision: decision.assurance.strength)
    over_mcp = all(decision.over_mcp for decision in decisions)
    return replace(first, approvers=_who_may_decide(decisions) or (), over_mcp=over_mcp)


def decided_together(wishes: Sequence[Wish]) -> list[list[Wish]]:
    """One group where somebody may decide all of them; else one for each list of those who may."""
    if not wishes:
        return []
    if _who_may_decide([wish.decision for wish in wishes]) is not None:
        return [list(wishes)]
    groups: dict[tuple[str, ...], list[Wish]] = {}
    for wish in wishes:
        groups.setdefault(wish.decision.approvers, []).append(wish)
    return list(groups.values())


def _who_may_decide(decisions: Sequence[Decision]) -> tuple[str, ...] | None:
    """Those whom every restricted one of them names, nobody in particular if none is; None if nobody may."""
    restricted = [decision.approvers for decision in decisions if decision.approvers]
    if not restricted:
        return ()
    common = tuple(who for who in restricted[0] if all(who in others for others in restricted[1:]))
    return common or None
