"""What is known of an attempt at its end, as a value. How it becomes state is said in `settling`."""

from __future__ import annotations

from dataclasses import dataclass

from ..canonical import JsonObject
from .evidence import HAPPENED
from .external import Acceptance
from .sealing import Sealed


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is known of an attempt at its end. `details` and `evidence` are redacted already; `output` is sealed.

    `by` says how it is known: execution, late, probe, person or recovery. `accepted` is set where the far side has it
    and still works: such an outcome is `ambiguous`, and the call is waited for.
    """

    outcome: str
    sent: str
    at: int
    by: str = "execution"
    code: str | None = None
    message: str | None = None
    retryable: bool = False
    details: JsonObject | None = None
    evidence: JsonObject | None = None
    output: Sealed | None = None
    accepted: Acceptance | None = None

    @property
    def happened(self) -> bool | None:
        """Whether the effect took place, or None if this does not say."""
        if self.outcome in HAPPENED:
            return True
        if self.outcome == "ambiguous" or (self.details or {}).get("effect") == "unknown":
            return None
        return False
