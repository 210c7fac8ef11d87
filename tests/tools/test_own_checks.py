"""Which types can refuse or change what fits their schema, and so are asked before a call is admitted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, field_validator

from counterfoil.tools.own_checks import has_own_checks


class Plain(BaseModel):
    type: str
    n: Annotated[int, Field(ge=1, description="post_init")] = 1
    more: list[Plain] = []


class Validated(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _same(cls, n: int) -> int:
        return n


class Prepared(BaseModel):
    n: int

    def model_post_init(self, _: Any) -> None:
        self.n += 1


class Stripping(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    text: str


@dataclass
class PlainRecord:
    custom_init: str


@dataclass
class PreparedRecord:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


@pytest.mark.parametrize(
    "made", [int, str | None, Literal["date", "function-after"], dict[str, list[float]], Plain, PlainRecord | None, Any]
)
def test_plain_types_take_what_fits_as_it_is(made: Any) -> None:
    assert not has_own_checks(TypeAdapter(made).core_schema)


@pytest.mark.parametrize(
    "made",
    [
        Annotated[int, AfterValidator(abs)],
        Annotated[str, StringConstraints(strip_whitespace=True)],
        Annotated[str, StringConstraints(to_lower=True)],
        date, set[int], Validated, Prepared, Stripping, PreparedRecord,
        dict[str, list[Validated] | None],
    ],
)  # fmt: skip
def test_whatever_may_refuse_or_change_a_value_is_asked(made: Any) -> None:
    assert has_own_checks(TypeAdapter(made).core_schema)
