"""Who may see a proposal or an unknown outcome, who may decide or settle it, and how strong that is. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..registry.vocabulary import ErrorCode
from .refusal import refuse
from .views import how_to_decide

if TYPE_CHECKING:
    from ..ledger.approval_rows import ApprovalRow
    from ..ledger.rows import CallRow
    from ..registry.principal import Principal

PROVEN: Final = frozenset({"token", "oidc", "passkey"})
"""How an identity is proven to be another than the requester's."""
ATTESTED: Final = "client_attested"
VIA: Final = "mcp"


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides, and how it is known."""

    by: str
    strength: str
    via: str


def may_see(row: ApprovalRow, principal: Principal) -> bool:
    """Its requester, or somebody of its tenant who may decide it: whom its rule names, else who holds `approve`."""
    if row.tenant != principal.tenant:
        return False
    if row.requester == principal.subject:
        return True
    approvers = json.loads(row.approvers)
    return principal.subject in approvers if approvers else principal.holds("approve")


def is_own(row: ApprovalRow, principal: Principal) -> bool:
    """True for what the user of the requesting client itself may decide."""
    mine = (row.tenant, row.requester, row.client) == (principal.tenant, principal.subject, principal.client)
    approvers = json.loads(row.approvers)
    return mine and row.assurance == "client" and (not approvers or principal.subject in approvers)


def decider_of(row: ApprovalRow, principal: Principal) -> Decider:
    """Who decides over MCP, and how strong that is.

    Raises:
        RefusedError: this principal may not, with the reason and where a person decides.
    """
    if is_own(row, principal):
        return Decider(principal.subject, ATTESTED, VIA)
    how = how_to_decide(row)
    if (row.tenant, row.requester) == (principal.tenant, principal.subject):
        raise refuse(ErrorCode.DENIED, f"Nobody approves their own call over MCP. {how}")
    if not principal.holds("approve"):
        raise refuse(
            ErrorCode.INSUFFICIENT_SCOPE, f"Deciding needs the scope approve. {how}", missing_scopes=["approve"]
        )
    if not row.over_mcp:
        raise refuse(ErrorCode.DENIED, f"No rule lets this one be decided over MCP (over_mcp). {how}")
    if row.assurance == "second_person" and not {row.proof, principal.proof} <= PROVEN:
        raise refuse(ErrorCode.DENIED, f"This needs two proven identities, the requester's and yours. {how}")
    if principal.proof is None:
        raise refuse(ErrorCode.DENIED, f"Nothing proves that you are another person than the requester. {how}")
    return Decider(principal.subject, principal.proof, VIA)


def may_settle(row: CallRow, principal: Principal) -> bool:
    """True for whom an unknown outcome exists: the call's requester, and whoever holds `reconcile` in its tenant."""
    if row.tenant != principal.tenant:
        return False
    return row.subject == principal.subject or principal.holds("reconcile")


def speaker_of(row: CallRow, principal: Principal, assurance: str) -> Decider:
    """Whose word it is that the person at a client gives about a call of this assurance, and how strong that is.

    Raises:
        RefusedError: this principal may not, with the reason and where a person says it.
    """
    how = how_to_say(row, assurance)
    if not principal.holds("reconcile"):
        raise refuse(
            ErrorCode.INSUFFICIENT_SCOPE,
            f"A person's word needs the scope reconcile. {how} Call reconcile without a resolution to have it probed.",
            missing_scopes=["reconcile"],
        )
    if row.tenant != principal.tenant or row.subject == principal.subject:
        raise refuse(ErrorCode.DENIED, f"Nobody says over MCP what became of their own call. {how}")
    speaker = Decider(principal.subject, principal.proof or ATTESTED, VIA)
    check_speaker(row, assurance, speaker)
    return speaker


def check_speaker(row: CallRow, assurance: str, person: Decider) -> None:
    """Raise unless this person's word is enough for a call of this assurance."""
    other = {person.strength, row.proof} <= PROVEN and person.by != row.subject
    if assurance == "second_person" and not other:
        raise refuse(
            ErrorCode.DENIED,
            "What became of this call is said by another person than its requester, and both have to be proven. "
            + how_to_say(row, assurance),
        )


def how_to_say(row: CallRow, assurance: str) -> str:
    """Where a person says what became of a call, in a sentence or two."""
    another = "Another person with the scope reconcile is asked at their client when they call reconcile with this"
    if assurance != "second_person":
        command = f"counterfoil reconcile {row.call_id} --resolution ... --evidence ..."
        return f"{another}; or a person says it in a terminal with: {command}"
    proven = f"{another}, proven by such as a token of [[auth.tokens]]"
    if row.proof in PROVEN:
        return f"{proven}."
    return f"{proven}; {row.subject} is not proven, so only the far side can settle it: reconcile without a resolution."
