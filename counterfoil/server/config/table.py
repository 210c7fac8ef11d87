"""What every table of the configuration has in common, and how its keys are spelled in the file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo


class Table(BaseModel):
    """What every table has in common: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def key_of(name: str, field: FieldInfo) -> str:
    """A field's key in the file: its alias where the key itself is a word of Python's or pydantic's (`in`, `json`)."""
    return field.alias or name
