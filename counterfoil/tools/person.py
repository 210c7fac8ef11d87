"""The hands of a tool that a person performs: none of ours.

It sends nothing. The attempt is on record before this is asked, and what came of it is not known until that person, or
one who saw it, says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from ..canonical import JsonObject
from ..registry.adapter import Call
from ..registry.outcome import Outcome
from ..registry.problem import Problem
from ..registry.vocabulary import OutcomeClass, Sent

OwnChecks: TypeAlias = Callable[[JsonObject, str | None], Sequence[Problem]]
WAITS: Final = "A person performs this. What came of it is known once they have said so, with their evidence."


class PersonAdapter:
    """A person behind the `Adapter` port. `checks` are the author's own, where the arguments have any."""

    def __init__(self, checks: OwnChecks | None = None) -> None:
        self._checks = checks

    @property
    def hard_deadline(self) -> bool:
        """False: a person has no deadline."""
        return False

    @property
    def blocking(self) -> bool:
        """False: nothing runs."""
        return False

    def ready(self) -> None:
        """Nothing has to be made ready."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:
        """What the author's own validators refuse."""
        return self._checks(arguments, if_version) if self._checks is not None else ()

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        """Leave it to the person."""
        del arguments, call, extra  # the record has them, and the person is shown that
        return Outcome(OutcomeClass.AMBIGUOUS, message=WAITS, sent=Sent.UNKNOWN, details={"reason": "manual"})
