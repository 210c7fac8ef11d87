"""What the person at an MCP client may be asked, and what is made of the answer.

A client is trusted with its own user's word about reversible writes, and with nothing more unless a rule says
`over_mcp`. Nothing that a model can say or see decides: the answer comes from the client's own form, is checked against
the proposal as it stands, and is recorded with the strength that it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..ledger.approving import decline
from ..ledger.errors import LedgerError
from ..ledger.queries import DECLINED
from ..registry.question import Question
from ..registry.vocabulary import ErrorCode, JsonObject
from ..visible import masked, visible, visible_json
from .answers import not_found, refusal_of, refusal_view
from .clock import MICROSECOND, rfc3339
from .deciding import decider_of, is_own, may_see
from .refusal import RefusedError, refuse
from .views import ApprovalView, PlainView, how_to_decide

if TYPE_CHECKING:
    from ..ledger.approval_rows import ApprovalRow
    from ..registry.principal import Principal
    from ..registry.question import Said
    from .approvals import Approvals
    from .parts import Parts
    from .viewing import Viewer

CODE_LENGTH: Final = 6


class Asking:
    """Puts proposals to people at clients."""

    def __init__(self, parts: Parts, viewer: Viewer, approvals: Approvals) -> None:
        self._parts = parts
        self._viewer = viewer
        self._approvals = approvals

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        """The first of these proposals that this client's own user may decide; None if there is none.

        One that its client declined to show is not put to it again.
        """
        for approval_id in approval_ids:
            row = await self._viewer.approval(approval_id)
            if row is not None and is_own(row, principal) and self._is_open(row):
                question = await self._put(row, principal)
                if question is not None:
                    return question
        return None

    async def put_to(self, principal: Principal, row: ApprovalRow) -> Question:
        """The question to a person who was named by `confirm`.

        Raises:
            RefusedError: this person may not decide it here, or this client declined to ask.
        """
        decider_of(row, principal)
        question = await self._put(row, principal)
        if question is None:
            how = how_to_decide(row)
            raise refuse(ErrorCode.DENIED, f"This client declined to ask about it, and is not asked again. {how}")
        return question

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> ApprovalView | PlainView:
        """Record what a person decided in a form, or that the client declined; anything else decides nothing."""
        try:
            row = await self._viewer.approval(said.key)
            if row is None or not may_see(row, principal):
                raise not_found(said.key)
            if row.state != "pending":
                return await self._undecided(principal, row, f"it is {row.state} already")
            decider = decider_of(row, principal)
            if said.action == "decline":
                at, client = self._parts.clock.now(), client_of(principal)
                await self._parts.ledger.record(lambda: decline(said.key, client, principal.subject, at))
            if said.action != "accept":
                return await self._approvals.view(row)
            if said.decision not in {"approve", "reject"} or (said.code or "").strip().lower() != code_of(row):
                expected = f"a decision (approve or reject) and the first {CODE_LENGTH} characters of the digest"
                return await self._undecided(principal, row, f"the form needs {expected}")
            return await self._approvals.decide(
                row.approval_id, said.decision, decider=decider, digest=row.digest, note=note
            )
        except RefusedError as error:
            self._approvals.note_refusal(principal, None, error)
            return refusal_view(error)
        except LedgerError as error:
            return refusal_view(error)

    async def _undecided(self, principal: Principal, row: ApprovalRow, why: str) -> ApprovalView:
        """An answer that decides nothing: told with the proposal, and on record."""
        error = refuse(ErrorCode.APPROVAL_INVALID, f"Nothing was decided: {why}.")
        self._approvals.note_refusal(principal, row.digest, error)
        return await self._approvals.view(row, refusal_of(error))

    def _is_open(self, row: ApprovalRow) -> bool:
        return row.state == "pending" and self._parts.clock.now() <= row.expires_at

    async def _put(self, row: ApprovalRow, principal: Principal) -> Question | None:
        client = client_of(principal)
        if await self._parts.ledger.reads.fetch(DECLINED, approval_id=row.approval_id, client=client):
            return None
        view = await self._approvals.view(row, whole=True)
        if view.error is not None:
            return None
        lasts_s = max(0, row.expires_at - self._parts.clock.now()) / MICROSECOND
        return Question(row.approval_id, self._message(row, view), code_of(row), lasts_s)

    def _message(self, row: ApprovalRow, view: ApprovalView) -> str:
        entry = self._parts.catalogue.get(row.tool, row.version)
        sensitive = entry.contract.gate.sensitive if entry is not None else ()
        undo = entry.contract.recovery.compensation if entry is not None else None
        several = bool(view.items) and isinstance(view.arguments, list)
        each = view.arguments if several and isinstance(view.arguments, list) else [view.arguments]
        shown = [visible_json(masked(arguments, sensitive)) for arguments in each]
        lines = [
            f"{visible(row.requester)} asks for {visible(row.tool)} (effect: {row.effect}), {_times(len(each))}.",
            *shown,
            *_preview_lines(view.preview),
            f"Why you are asked: {visible(row.reason)}",
            f"Undone by: {visible(undo) if undo else 'nothing'}. It can be decided until {rfc3339(row.expires_at)}.",
            f"Approve sends exactly this, once. Type the code {code_of(row)} with your decision.",
        ]
        return "\n".join(lines)


def _preview_lines(preview: JsonObject | None) -> list[str]:
    """What a read showed, set apart from what is decided; its texts were made visible when they were kept."""
    if preview is None:
        return []
    heading = f"For information, from {visible(str(preview['tool']))} at {preview['at']}, no part of what is decided:"
    items, error = preview.get("items"), preview["error"]
    if items is not None:
        return [heading, *([visible(str(error))] if error is not None else []), visible_json(items)]
    return [
        heading,
        visible_json(preview["output"]) if error is None else f"There is no preview: {visible(str(error))}",
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times, each as listed"


def code_of(row: ApprovalRow) -> str:
    """What a person types, to tie the decision to what was shown."""
    return row.digest[:CODE_LENGTH]


def client_of(principal: Principal) -> str:
    """The client that is asked: tenant, subject and client."""
    return json.dumps([principal.tenant, principal.subject, principal.client])
