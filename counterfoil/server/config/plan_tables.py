"""The table of a stored plan: `[plans.NAME]`. Plain values; the plan itself is read and checked where the tools are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .kinds import Name
from .table import Table
from .tool_kinds import Argument, ShortType, Texts


class PlanTable(Table):
    """A chain with a name, found by the search and run by that name."""

    file: Annotated[str, Field(min_length=1, max_length=4_096)]
    """Its file in JSON, relative to this one; `input` in there holds defaults."""
    description: Annotated[str, Field(min_length=1, max_length=8_000)] | None = None
    """What it does, as people and models read it; else its goal."""
    tags: Texts | None = None
    """Categories of the search."""
    input: dict[Argument, ShortType] | None = None
    """What a run is given, in the short form of a tool's `input`."""
    input_schema: dict[Name, Any] | None = None
    """The same in full, as JSON Schema 2020-12, instead of `input`."""
