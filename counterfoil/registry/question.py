"""What a person at a client is asked, and what came back: values that cross the rooms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """One question: `key` names what it is about, `code` is what is to be typed; it can be answered for `lasts_s`."""

    key: str
    message: str
    code: str
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Said:
    """What came back from a client's form, unchecked. `action` is the protocol's: accept, decline or cancel."""

    key: str
    action: str
    decision: str | None = None
    code: str | None = None
