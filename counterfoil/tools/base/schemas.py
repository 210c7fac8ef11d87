"""The schemas of the base tools, kept small: every word here is read by a model at the start of each conversation.

Input schemas forbid what they do not name and have no `oneOf` at the root, which common model APIs refuse.
Output schemas are shallow and open, require nothing and admit the error form, since one common client checks them
on errors too.
"""

from __future__ import annotations

from typing import Any, Final

from ...canonical import JsonObject

WAIT_MAX_S: Final = 45
LIMIT_MAX: Final = 20
NAMES_MAX: Final = 20

WHOLE_MAX: Final = 2**53 - 1
"""What every client's numbers hold exactly, and what the ledger's columns hold too."""

STRING: Final[JsonObject] = {"type": "string"}
WHOLE: Final[JsonObject] = {"type": "integer", "minimum": 0, "maximum": WHOLE_MAX}
WAIT: Final[JsonObject] = {"type": "number", "minimum": 0, "maximum": WAIT_MAX_S}


def arguments(required: list[str] | None = None, **properties: Any) -> JsonObject:  # noqa: ANN401 (schemas)
    """An input schema with these members and no others."""
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def text(description: str, longest: int) -> JsonObject:
    """A described text of bounded length."""
    return {"type": "string", "maxLength": longest, "description": description}


def short(longest: int) -> JsonObject:
    """A text of bounded length that its name explains."""
    return {"type": "string", "maxLength": longest}


def choice(*words: str) -> JsonObject:
    """One of these words."""
    return {"enum": list(words)}


def answer(**types: str) -> JsonObject:
    """An output schema: members with their types (`a|b` for two; `any`), an optional error, and whatever else."""
    shown = {name: _typed(words) for name, words in types.items()}
    return {"type": "object", "properties": {**shown, "error": _typed("object|null")}}


def _typed(words: str) -> JsonObject:
    kinds = words.split("|")
    if kinds == ["any"]:
        return {}
    return {"type": kinds[0] if len(kinds) == 1 else list(kinds)}


CALL_VIEW: Final = answer(
    call_id="string|null", state="string", outcome="string|null", sent="string", output="any", next="object|null"
)
FOLLOWED: Final = answer(state="string", status="string", next="object|null")
