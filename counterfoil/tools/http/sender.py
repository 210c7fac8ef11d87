"""What a tool and a probe have in common: their secrets resolved, one message made and sent, one reply read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...canonical import JsonObject, JsonValue
from ...ledger.redact import hide_values
from ...registry.adapter import Call, Guard, NotReadyError
from ...registry.filling import ABSENT, FillError, Values
from ...registry.outcome import Outcome
from ...registry.secret_places import LEAST
from ...registry.vocabulary import ErrorCode, OutcomeClass, Sent
from .message import SecretValueError, holes_of, message_of, references, sendable
from .outbound import Message, Outbound, Reply, Terms
from .spec import Request

LEAST_PART = 8
"""Shorter parts of a secret, such as the word before a token, are in too many texts to be hidden."""

SOME_ID: Final = "call_00000000000000000000000000"
"""Stands for the ids that a call has not been given yet."""

Reveal = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Made:
    """A message, and the secret texts that no answer of ours may show."""

    message: Message
    hidden: tuple[str, ...] = field(repr=False, default=())

    def shown(self, text: str) -> str:
        """A text without the secrets."""
        return str(self.value(text))

    def value(self, value: JsonValue) -> JsonValue:
        """A value without the secrets."""
        return hide_values(value, self.hidden)

    def evidence(self, found: JsonObject) -> JsonObject:
        """Evidence without the secrets."""
        hidden = self.value(found)
        return hidden if isinstance(hidden, dict) else {}


class Sender:
    """Sends one kind of request. `reveal` gives a reference's value, and may raise whatever says that it has none.

    `family` are the references of the tool that it belongs to, of its probe and its undoing: each of them may be
    answered with what another one has sent, so the secrets of all are hidden.
    """

    def __init__(self, request: Request, outbound: Outbound, reveal: Reveal, family: Sequence[str] = ()) -> None:
        self.request = request
        self.outbound = outbound
        self._reveal = reveal
        self._family = family
        self._needs_output = any(hole.root == "output" for hole in holes_of(request))

    async def ready(self) -> None:
        """Load the client, and see that each secret has a value now.

        Raises:
            NotReadyError: one has none.
        """
        await self.outbound.start()
        for reference in references(self.request):
            self._secret(reference)

    def tried(self, arguments: JsonObject) -> Message | None:
        """The message of a call as far as arguments decide it, without secrets; None if more than they do.

        Raises:
            FillError: a value that cannot be sent.
        """
        if self._needs_output:
            return None
        return message_of(self.request, Values(arguments, SOME_ID, SOME_ID, callback=SOME_ID), lambda _: "")

    def made(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Made:
        """The message of one call.

        Raises:
            FillError: a value that cannot be sent.
            NotReadyError: a secret has no value now.
        """
        values = Values(arguments, call.id, call.action_id, extra.get("output", ABSENT), call.callback_url)
        texts: list[str] = []

        def reveal(reference: str) -> str:
            texts.append(self._secret(reference))
            return texts[-1]

        message = message_of(self.request, values, reveal)
        for reference in self._family:
            with suppress(NotReadyError):  # what has no value now has sent nothing
                texts.append(self._secret(reference))
        return Made(message, _hidden(texts))

    def _secret(self, reference: str) -> str:
        """Nothing of what `reveal` raises is passed on: it may quote the value."""
        try:
            return sendable(reference, self._reveal(reference))
        except SecretValueError as error:
            raise NotReadyError(str(error)) from None
        except Exception:  # noqa: BLE001 (as the docstring says)
            raise NotReadyError(f"{reference}: it has no value now; set it where the server is started") from None

    async def send(self, message: Message, call: Call, guard: Guard | None, left: int | None = None) -> Reply:
        """Send it; a read follows redirects, and what has an effect asks its guard.

        Raises:
            OutboundError: no whole answer came.
        """
        return await self.outbound.send(message, Terms(call.deadline, guard, follow=guard is None, body_bytes=left))


def with_header(message: Message, name: str | None, value: str) -> Message:
    """The message with one more header, in place of one of the same name."""
    if name is None:
        return message
    others = {known: text for known, text in message.headers.items() if known.lower() != name.lower()}
    return replace(message, headers=others | {name: value})


def refused(error: FillError) -> Outcome[Any]:
    """Arguments that cannot be sent; nothing was."""
    return Outcome(
        OutcomeClass.INVALID_REQUEST,
        message=str(error),
        sent=Sent.NO,
        code=ErrorCode.INVALID_ARGUMENTS,
        details={"problems": [error.problem.as_json()]},
    )


def _hidden(texts: Sequence[str]) -> tuple[str, ...]:
    parts = {part for text in texts for part in text.split() if len(part) >= LEAST_PART}
    return tuple(sorted(parts | {text for text in texts if len(text) >= LEAST}, key=len, reverse=True))
