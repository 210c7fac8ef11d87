"""A person's word about an unknown outcome: who may say it, what they are asked first, and what is made of the answer.

Over MCP nothing is taken from arguments: these only say what the person at that client is asked about. An answered form
is bound by its digest to exactly that word, about exactly that attempt, by exactly that person; what the word then does
is the reconciler's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..canonical import canonical, sha256_hex
from ..ledger.approving import decline_word
from ..ledger.errors import KeyMissingError, NoSuchPayloadError
from ..ledger.queries import DECLINED, WORDS
from ..ledger.states import UNRESOLVED
from ..registry.question import Question
from ..registry.vocabulary import Assurance, ErrorCode, JsonObject, JsonValue
from ..visible import masked, visible, visible_json
from .asking import CODE_LENGTH, client_of
from .clock import rfc3339
from .deciding import check_speaker, how_to_say, speaker_of
from .proposing import principal_of
from .refusal import RefusedError, refuse, refuse_arguments
from .word import RESOLUTIONS, Word

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.principal import Principal
    from ..registry.question import Said
    from .approvals import Approvals
    from .deciding import Decider
    from .parts import Parts
    from .reconciling import Reconciler
    from .refusing import Refusals
    from .viewing import Viewer

PURPOSE: Final = "word"
_SAYS: Final = {
    "happened": "it happened",
    "not_happened": "it did not happen",
    "still_unknown": "nobody can tell yet",
}
_UNSAID: Final = {
    "decline": "the person at this client, or the client itself, declined",
    "cancel": "the person at this client closed the form",
    "accept": "the person at this client said no",
}


@dataclass(frozen=True, slots=True)
class Stated:
    """What a person is to have said, as it was asked for and before anything of it is checked."""

    resolution: str
    evidence: str | None
    then: str | None = None
    output: JsonValue = None
    external_reference: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A word that a person stands for; or the question to be put to them first."""

    word: Word
    question: Question | None = None


class WrongCodeError(RefusedError):
    """The form came back without its code: nothing was recorded, and the person is asked once more."""

    def __init__(self, question: Question) -> None:
        expected = f"a decision (approve or reject) and the {CODE_LENGTH} characters shown in it"
        super().__init__(refuse(ErrorCode.APPROVAL_INVALID, f"No word was recorded: the form needs {expected}.").reason)
        self.question = question


class Words:
    """Takes people's words about the calls of one ledger."""

    def __init__(
        self, parts: Parts, viewer: Viewer, reconciler: Reconciler, approvals: Approvals, refusals: Refusals
    ) -> None:
        self._parts = parts
        self._viewer = viewer
        self._reconciler = reconciler
        self._approvals = approvals
        self._refusals = refusals

    async def of_person(self, row: CallRow, stated: Stated, person: Decider) -> Word:
        """The word of somebody who was seen where they said it, such as at the command line.

        Raises:
            RefusedError: this person may not say it, or it cannot be meant.
        """
        check_speaker(row, await self._assurance(row), person)
        return _word(row, stated, person)

    async def at_client(
        self, principal: Principal, row: CallRow, stated: Stated, said: Said | None, *, asks: bool
    ) -> Heard:
        """The word of the person at this client, or the question that they are asked before it is one.

        Raises:
            RefusedError: this person may not say it here, or said no; `WrongCodeError` if the form was not filled in.
        """
        try:
            assurance = await self._assurance(row)
            speaker = speaker_of(row, principal, assurance)
            word = _word(row, stated, speaker)
            await self._reconciler.require_sayable(row, word)
            if not asks:
                raise refuse(
                    ErrorCode.DENIED,
                    "A person's word is not taken from tool arguments, and this client shows no forms. "
                    + how_to_say(row, assurance),
                )
            return await self._asked(principal, row, word, said)
        except RefusedError as error:
            self._refusals.record(principal, "reconcile", None, error.reason, self._parts.clock.now())
            raise

    async def _asked(self, principal: Principal, row: CallRow, word: Word, said: Said | None) -> Heard:
        digest = await self._digest(principal, row, word)
        key, client = f"word:{row.call_id}:{digest}", client_of(principal)
        if await self._parts.ledger.reads.fetch(DECLINED, approval_id=key, client=client):
            raise refuse(
                ErrorCode.DENIED,
                "No word was recorded: exactly this was declined at this client, which is not asked about it again. "
                + how_to_say(row, await self._assurance(row)),
            )
        if said is None or said.key != key:
            return Heard(word, await self._question(row, word, key, digest))
        if said.action == "accept":
            if said.decision not in {"approve", "reject"} or _typed(said) != digest[:CODE_LENGTH]:
                raise WrongCodeError(await self._question(row, word, key, digest))
            if said.decision == "approve":
                return Heard(word)
        if said.action != "cancel":
            at = self._parts.clock.now()
            told: JsonObject = {"word": digest, "saying": word.resolution}
            await self._parts.ledger.record(lambda: decline_word(row.call_id, key, client, principal.subject, at, told))
        why = _UNSAID.get(said.action, _UNSAID["cancel"])
        raise refuse(ErrorCode.DENIED, f"No word was recorded: {why}. How the call stands is unchanged.")

    async def _digest(self, principal: Principal, row: CallRow, word: Word) -> str:
        """Binds an answer to one word: change anything of it, or let another one be said first, and it is another."""
        before = await self._parts.ledger.reads.fetch(WORDS, run_id=row.run_id, call_id=row.call_id)
        bound: JsonObject = {
            "call": row.call_id,
            "attempt": row.generation,
            "words_before": before[0].n,
            "by": [principal.tenant, principal.subject, principal.client],
            "resolution": word.resolution,
            "then": _then(word),
            "evidence": word.evidence,
            "external_reference": word.external_reference,
            "output": sha256_hex(canonical(word.output)),
        }
        return self._parts.ledger.mac(PURPOSE, canonical(bound))

    async def _question(self, row: CallRow, word: Word, key: str, digest: str) -> Question:
        entry = self._parts.catalogue.get(row.tool, row.version)
        if entry is None:
            raise refuse(
                ErrorCode.UNAVAILABLE,
                f"This server has no {row.tool} {row.version}, so nobody can be shown here what was sent. "
                "Ask at a server that has it.",
            )
        arguments = masked(await self._approvals.whole(row), entry.contract.gate.sensitive)
        shown = await self._reconciler.without_secrets(row, word)
        lines = [
            f"{visible(row.subject)} asked for {visible(row.tool)} (effect: {row.effect}).",
            f"Attempt {row.generation} was sent at {rfc3339(row.dispatched_at)}. Nobody knows whether it took effect:",
            visible_json(arguments),
            f"What would be recorded as your word: {_SAYS[word.resolution]}.",
            f"On this evidence: {shown.evidence}",
        ]
        if shown.external_reference is not None:
            lines.append(f"Under the far side's own reference: {shown.external_reference}")
        if word.resolution == "happened" and shown.output is not None:
            lines += ["With this as its output:", visible_json(shown.output)]
        lines += [
            f"What approving does: {_consequence(row, word, again=await self._reconciler.sends_again(row, word))}",
            "Look into the other side's own records before you answer; this text was not checked against them.",
            f"Type the code {digest[:CODE_LENGTH]} with your decision.",
        ]
        return Question(key, "\n".join(lines), digest[:CODE_LENGTH], self._parts.settings.proposal_valid_s)

    async def _assurance(self, row: CallRow) -> str:
        """The stricter of what the call was decided with and of what the policy asks for it now."""
        approval = await self._viewer.approval(row.approval_id)
        decided = Assurance.NONE if approval is None else Assurance(approval.assurance)
        return max(decided, await self._asked_now(row), key=lambda assurance: assurance.strength).value

    async def _asked_now(self, row: CallRow) -> Assurance:
        """What the policy of now asks for this call: the strictest that it can where its arguments are gone."""
        entry, policy, who = self._parts.catalogue.get(row.tool, row.version), self._parts.policy, principal_of(row)
        if entry is None:
            return Assurance.NONE
        try:
            arguments = json.loads(await self._parts.ledger.open_payload(row.args_payload))
        except (NoSuchPayloadError, KeyMissingError):
            return policy.bounds(entry.contract, {}, who, [()])[1].assurance
        return policy.decide(entry.contract, arguments, who).assurance


def require_resolution(resolution: str | None, told: Sequence[JsonValue]) -> None:
    """Refuse what belongs to a word where none is said: it must not be dropped in silence.

    Raises:
        RefusedError: there is something, and no resolution.
    """
    if resolution is None and any(one is not None for one in told):
        raise refuse_arguments("/resolution", f"one of {', '.join(RESOLUTIONS)}, which the rest belongs to", "none")


def _word(row: CallRow, stated: Stated, person: Decider) -> Word:
    if stated.resolution not in RESOLUTIONS:
        raise refuse_arguments("/resolution", ", ".join(RESOLUTIONS), repr(stated.resolution[:30]))
    if stated.then not in {None, "retry", "fail"}:
        raise refuse_arguments("/then", "retry or fail", repr(str(stated.then)[:30]))
    if not (stated.evidence or "").strip():
        rests = "what the word rests on, such as a reference in the far side's own records"
        raise refuse_arguments("/evidence", rests, "nothing")
    if row.state not in UNRESOLVED:
        raise refuse(
            ErrorCode.VERSION_CONFLICT, f"The call is {row.state}; only an unresolved one is settled by a word."
        )
    return Word(
        stated.resolution,
        stated.evidence or "",
        person.by,
        person.strength,
        person.via,
        stated.then or "fail",
        stated.output,
        stated.external_reference,
    )


def _then(word: Word) -> str | None:
    return word.then if word.resolution == "not_happened" else None


def _typed(said: Said) -> str:
    return (said.code or "").strip().lower()


def _consequence(row: CallRow, word: Word, *, again: bool) -> str:
    """What follows from the word, as the reconciler will have it."""
    if word.resolution == "still_unknown":
        return "it is noted, and nothing is settled or sent."
    if word.resolution == "happened":
        return "it is settled as a success. Nothing is sent again."
    if again:
        if row.approval_id is not None:
            return "it is to be SENT AGAIN, after a fresh decision about that."
        return "it is SENT AGAIN at once."
    return "it is settled as failed, without effect. Nothing is sent again."
