"""Validators may refuse an argument and never change it; what is only another form of the same value is no change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr, StringConstraints

from counterfoil.tools import signature
from counterfoil.tools.errors import ChangedArgumentsError


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    sku: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(alias="article/no")
    units: int = 1


@dataclass
class Place:
    row: Annotated[int, AfterValidator(abs)]


async def order(  # noqa: PLR0913, PLR0917 (one argument of each kind)
    at: datetime,
    price: Decimal,
    colour: Colour,
    where: Path,
    secret: SecretStr,
    lines: list[Line],
    place: Place | None = None,
    weight: float = 1.0,
    note: str | None = None,
) -> None: ...


GIVEN: dict[str, Any] = {
    "at": "2026-01-01T00:00:00Z", "price": "1.50", "colour": "red", "where": "/a/../b", "secret": "s3cret",
    "lines": [{"article/no": "a"}], "place": {"row": 1}, "weight": 3, "note": None,
}  # fmt: skip


def parse(**changed: Any) -> dict[str, Any]:
    return signature.arguments_of(signature.read(order, {})).parse(GIVEN | changed)


def test_another_form_of_the_same_value_and_an_unstated_default_are_no_change() -> None:
    assert parse()["weight"] == 3.0


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"lines": [{"article/no": "a"}, {"article/no": " b"}]}, "/lines/1/article~1no"),
        ({"place": {"row": -1}}, "/place/row"),
        ({"weight": 2**53 + 1}, "/weight"),
    ],
)
def test_a_changed_value_is_named_by_its_place(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(ChangedArgumentsError) as error:
        parse(**changed)
    assert error.value.paths == [path]
