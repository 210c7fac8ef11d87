"""An HTTP request as the hands of a tool: it is sent once, and its answer becomes an outcome.

What has an effect is sent right after its guard, and fails only where nothing left or the far side refused; a read may
follow redirects and pages. Whether it is tried again is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ...canonical import JsonObject
from ...registry.adapter import Call, NotReadyError
from ...registry.filling import FillError
from ...registry.outcome import Outcome
from ...registry.problem import Problem
from ...registry.vocabulary import OutcomeClass, Sent
from .body import BodyError, Content, read_content
from .meaning import Meaning, at, evidence_of, meaning_of, retry_after, said
from .message import header_value
from .outbound import LostError, NotSentError, Outbound, OutboundError, RedirectError, Reply
from .paging import Paging
from .sender import Made, Reveal, Sender, refused, with_header
from .spec import HttpTool

_TAKEN: Final = frozenset({Meaning.SUCCESS, Meaning.NO_RESULT, Meaning.ACCEPTED})
NO_VERSION: Final = "a call without if_version, since this tool cannot make sure of a version"


class HttpAdapter:
    """One HTTP tool behind the `Adapter` port.

    `secret` gives the value of a reference (`env:NAME`, `file:PATH`) at the moment of a call; what it raises means that
    there is none. `family`: see `Sender`.
    """

    def __init__(
        self,
        name: str,
        spec: HttpTool,
        outbound: Outbound,
        secret: Reveal,
        *,
        is_read: bool,
        family: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.spec = spec
        self.family = tuple(family)
        self._is_read = is_read
        self._sender = Sender(spec.request, outbound, secret, family)

    @property
    def hard_deadline(self) -> bool:
        """True: the time is checked before each write, and at the deadline the connection is closed.

        What is under way in the network then is what the contract's `settle_s` is for.
        """
        return True

    @property
    def blocking(self) -> bool:
        """False: it waits on the event loop."""
        return False

    async def ready(self) -> None:
        """Load the client and see that each secret has a value.

        Raises:
            NotReadyError: one has none; the message has its reference alone.
        """
        await self._sender.ready()

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:
        """What cannot stand where the request would put it."""
        try:
            self._version_header(if_version)
            message = self._sender.tried(arguments)
            if message is not None and self.spec.pages is not None and self._is_read:
                Paging(self.spec.pages, message, arguments)
        except FillError as error:
            return (error.problem,)
        return ()

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        """Send it once.

        Raises:
            CallStoppedError: the guard's; nothing was sent.
        """
        try:
            made = self._made(arguments, call, extra)
            if self.spec.pages is not None and self._is_read:
                return await self._pages(made, Paging(self.spec.pages, made.message, arguments), call)
        except FillError as error:
            return refused(error)
        except NotReadyError as error:
            return Outcome[Any].unavailable(f"{self.name} cannot be reached now: {error}")
        outcome, _ = await self._once(made, call)
        return outcome

    def _made(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Made:
        made = self._sender.made(arguments, call, extra)
        message = with_header(made.message, self.spec.key_header, call.action_id)
        version = self._version_header(call.if_version)
        if version is not None:
            message = with_header(message, self.spec.precondition_header, version)
        return replace(made, message=message)

    def _version_header(self, if_version: str | None) -> str | None:
        if if_version is None:
            return None
        if self.spec.precondition_header is None:
            raise FillError("/if_version", NO_VERSION, "a version")
        return header_value(if_version, "/if_version")

    async def _once(self, made: Made, call: Call, left: int | None = None) -> tuple[Outcome[Any], Reply | None]:
        try:
            reply = await self._sender.send(made.message, call, None if self._is_read else call.guard, left)
        except OutboundError as error:
            return self._failed(error, made), None
        return await self._outcome(reply, made), reply

    async def _pages(self, made: Made, paging: Paging, call: Call) -> Outcome[Any]:
        """Page after page, until there is no other one or enough have been read; one that fails fails the read."""
        message, left, outbound = paging.first, self._sender.outbound.body_bytes, self._sender.outbound
        while True:
            outcome, reply = await self._once(replace(made, message=message), call, left)
            if outcome.kind is not OutcomeClass.SUCCESS or reply is None:
                return outcome
            left -= len(reply.body)
            try:
                content = await read_content(reply.headers.get("content-type", ""), reply.body)
                following = paging.take(content, reply, outbound)
            except ValueError as error:
                return self._failure(made, f"page {paging.count}: {error}", Outcome[Any].permanent(""))
            if following is None or left <= 0:
                return replace(outcome, output=made.value(paging.output()))
            message = following

    def _failed(self, error: OutboundError, made: Made) -> Outcome[Any]:
        """No answer that could be read; the message names the host."""
        text = made.shown(f"{self.name}: {error}.")
        if isinstance(error, NotSentError):
            return Outcome[Any].unavailable(text)
        if not self._is_read:
            return replace(Outcome[Any].ambiguous(text), details={"reason": "connection"})
        if isinstance(error, LostError):
            return replace(Outcome[Any].retryable(text, "unknown"), details={"reason": "connection"})
        reason = "redirect" if isinstance(error, RedirectError) else "unreadable"
        return replace(Outcome[Any].permanent(text), details={"reason": reason})

    async def _outcome(self, reply: Reply, made: Made) -> Outcome[Any]:
        meaning = meaning_of(self.spec, reply.status, reply.headers, is_read=self._is_read)
        if meaning not in _TAKEN:
            return self._no_success(meaning, reply, made)
        try:
            content = await read_content(reply.headers.get("content-type", ""), reply.body)
        except BodyError as error:
            if meaning is Meaning.SUCCESS:
                kind = Outcome[Any].permanent("") if self._is_read else Outcome[Any].ambiguous("")
                return self._failure(made, f"status {reply.status} and {error}", kind, reason="unreadable")
            content = Content(None)
        body = content.value
        evidence = made.evidence(evidence_of(self.spec.evidence, body, reply.headers))
        if meaning is Meaning.NO_RESULT:
            return Outcome[Any].no_result(evidence)
        if meaning is Meaning.ACCEPTED:
            text = made.shown(f"{self.name}: {made.message.url.host} accepted it with status {reply.status}.")
            wish_s = retry_after(reply.headers, self._sender.outbound.now())
            return Outcome[Any].accepted(text, evidence, after_s=wish_s)
        return Outcome[Any].success(made.value(at(body, self.spec.output)), evidence)

    def _no_success(self, meaning: Meaning, reply: Reply, made: Made) -> Outcome[Any]:
        words = said(reply)
        text = f"status {reply.status}" + (f": {words}" if words else "")
        evidence = made.evidence(evidence_of(self.spec.evidence, None, reply.headers))
        kind = Outcome[Any].permanent("")
        if meaning is Meaning.AGAIN:
            kind = Outcome[Any].retryable("", "yes", retry_after(reply.headers, self._sender.outbound.now()))
        elif meaning is Meaning.UNKNOWN:
            kind = replace(Outcome[Any].ambiguous(""), details={"reason": "status"})
        return self._failure(made, text, replace(kind, evidence=evidence), status=reply.status)

    def _failure(self, made: Made, text: str, kind: Outcome[Any], **details: Any) -> Outcome[Any]:  # noqa: ANN401 (JSON)
        host = made.message.url.host
        message = made.shown(f"{self.name}: {host} answered with {text}.")
        sent = Sent.UNKNOWN if kind.kind is OutcomeClass.AMBIGUOUS else Sent.YES
        return replace(kind, message=message, sent=sent, details=kind.details | details)
