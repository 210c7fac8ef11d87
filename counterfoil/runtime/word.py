"""A person's word about an unknown outcome, as a value, and what of it is kept. Who may say it is decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..ledger.redact import hide_values, redact_text
from ..registry.vocabulary import JsonObject, JsonValue

RESOLUTIONS: Final = ("happened", "not_happened", "still_unknown")


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says happened, on what evidence, and how it is known who said it."""

    resolution: str
    evidence: str
    by: str
    strength: str
    via: str
    then: str = "fail"
    output: JsonValue = None
    external_reference: str | None = None


def kept(word: Word, secrets: tuple[str, ...]) -> JsonObject:
    """A word as its event tells it, with no secret of the call's arguments."""
    return {
        "resolution": word.resolution,
        "evidence": redact_text(str(hide_values(word.evidence, secrets))),
        "by": word.by,
        "strength": word.strength,
        "via": word.via,
        "then": word.then if word.resolution == "not_happened" else None,
        "external_reference": hide_values(word.external_reference, secrets),
    }
