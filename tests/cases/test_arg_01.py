"""ARG-01: a misspelled argument is never dropped, so that a tool never runs with a default that nobody chose."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.bench import bench
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio


@pytest.mark.promise("ARG-01")
@pytest.mark.parametrize(
    ("arguments", "path", "nearest"),
    [
        ({"ref": "r", "olderthan": 30}, "/olderthan", "older_than"),
        ({"ref": "r", "which": {"older_thn": 30}}, "/which/older_thn", "older_than"),
        ({"reff": "r", "older_than": 30}, "/reff", "ref"),
    ],
)
async def test_an_unknown_field_is_refused_by_name_with_the_nearest_one(
    shop: Workshop, arguments: dict[str, Any], path: str, nearest: str
) -> None:
    async with bench(shop) as at:
        refused = await at.seat.call("more_purge", arguments)
        assert (refused["state"], refused["error"]["code"]) == ("refused", "invalid_arguments")
        problem = next(one for one in refused["error"]["details"]["problems"] if one["path"] == path)
        assert problem["nearest"] == nearest
        assert path.rsplit("/", maxsplit=1)[-1] in refused["error"]["message"]
        assert nearest in refused["error"]["message"]
        assert at.world.count("r") == 0
        _, directly = await at.seat.direct("more_purge", arguments)
        assert directly["error"]["code"] == "not_visible"
        assert [row["code"] for row in await at.refusals()] == ["invalid_arguments", "not_visible"]


@pytest.mark.promise("ARG-01")
async def test_the_schemas_that_are_shown_forbid_extra_fields_at_every_level(shop: Workshop) -> None:
    async with bench(shop) as at:
        (match,) = (await at.seat.ask("tool_search", names=["more_purge"]))["matches"]
        shown = match["input_schema"]
        assert shown["additionalProperties"] is False
        assert shown["$defs"]["Which"]["additionalProperties"] is False
        for name, tool in (await at.seat.tools()).items():
            assert tool.input_schema["additionalProperties"] is False, name


@pytest.mark.promise("ARG-01")
async def test_a_base_tool_refuses_an_unknown_field_of_its_own(shop: Workshop) -> None:
    async with bench(shop) as at:
        refused = await at.seat.ask("status", callid="call_1")
        assert refused["error"]["code"] == "invalid_arguments"
        assert refused["error"]["details"]["problems"][0]["nearest"] == "call_id"
