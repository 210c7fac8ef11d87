"""An HTTP request that asks what became of a call: signs over status and body decide, and doubt is `unknown`.

A sign that tests the body needs a JSON body, so that the page of a proxy or of a login never says that something is
not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...canonical import JsonObject, JsonValue
from ...registry.adapter import Call, NotReadyError
from ...registry.filling import FillError
from ...registry.outcome import Outcome, Probe
from ...registry.predicates import Op, Predicate, look_up, predicate
from ...registry.problem import Problem
from .body import BodyError, Content, read_content
from .meaning import at, evidence_of, is_success, retry_after
from .outbound import Outbound, OutboundError, Reply
from .sender import Made, Reveal, Sender
from .spec import HttpProbe, Sign


class HttpProbeAdapter:
    """One HTTP probe behind the `Adapter` port. `family`: see `Sender`.

    Raises:
        PredicateError: a sign's pointer, operator or operand that cannot be right.
    """

    def __init__(
        self, name: str, spec: HttpProbe, outbound: Outbound, secret: Reveal, family: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.spec = spec
        self.family = tuple(family)
        self._sender = Sender(spec.request, outbound, secret, family)
        self._happened = Test.of(spec.happened)
        self._pending = Test.of(spec.pending)
        self._absent = Test.of(spec.absent)

    @property
    def hard_deadline(self) -> bool:
        """True, as for a tool."""
        return True

    @property
    def blocking(self) -> bool:
        """False: it waits on the event loop."""
        return False

    async def ready(self) -> None:
        """As for a tool.

        Raises:
            NotReadyError: a secret has no value now.
        """
        await self._sender.ready()

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:  # noqa: ARG002 (a port's shape)
        """None: what cannot be asked is not known, and never a refusal."""
        return ()

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        """Ask once; whatever keeps it from an answer is `unknown`."""
        try:
            made = self._sender.made(arguments, call, extra)
            reply = await self._sender.send(made.message, call, None)
        except (FillError, NotReadyError, OutboundError):
            return Outcome[Any].success(Probe.unknown())
        return Outcome[Any].success(await self._answer(reply, made))

    async def _answer(self, reply: Reply, made: Made) -> Probe:
        try:
            content = await read_content(reply.headers.get("content-type", ""), reply.body)
        except BodyError:
            content = Content(None)
        tests = (self._happened, self._pending, self._absent)
        happened, pending, absent = (test is not None and test.holds(reply.status, content) for test in tests)
        if [happened, pending, absent].count(True) != 1:
            return Probe.unknown()
        if pending or absent:
            wish_s = retry_after(reply.headers, self._sender.outbound.now())
            return Probe.pending(wish_s) if pending else Probe.absent()
        evidence = evidence_of(self.spec.evidence, content.value, reply.headers)
        return Probe.happened(made.value(at(content.value, self.spec.output)), made.evidence(evidence))


@dataclass(frozen=True, slots=True)
class Test:
    """A sign, ready to be asked."""

    status: frozenset[int]
    tests: Sequence[Predicate]

    @classmethod
    def of(cls, sign: Sign | None) -> Test | None:
        """Check and build it.

        Raises:
            PredicateError: its pointer, an operator or an operand cannot be right.
        """
        if sign is None:
            return None
        return cls(sign.status, [predicate(sign.path, op, operand) for op, operand in sign.tests.items()])

    def holds(self, status: int, content: Content) -> bool:
        """Whether the answer shows it."""
        expected = status in self.status if self.status else is_success(status)
        if not expected or not self.tests:
            return expected and bool(self.status)
        return content.is_json and all(_holds(test, content.value) for test in self.tests)


def _holds(test: Predicate, body: JsonValue) -> bool:
    if test.op is Op.EXISTS and test.operand is False and not _can_tell(body, test.parts):
        return False
    return test.holds(body) is True


def _can_tell(body: JsonValue, parts: Sequence[str]) -> bool:
    """False where the path asks for an item of a list and something else stands in the list's place."""
    for index, part in enumerate(parts):
        found, value = look_up(body, parts[:index])
        if found and part.isdecimal() and not isinstance(value, list):
            return False
    return True
