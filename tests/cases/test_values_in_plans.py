"""Values between steps: whole, typed, expanded once, and taken from what is stored, not from what a model was shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.chains import View, chained, of, plan, planned, problems, ran, step
from tests.kit.workshop import Workshop

pytestmark = pytest.mark.anyio
SOURCE: dict[str, Any] = {
    "number": 725653563933458433,
    "text": "ten ${input.secret} and $${x}",
    "flag": True,
    "none": None,
    "list": [{"a b": 1}, {"a b": [2, "three"]}],
    "say ${run.id}": "odd",
}


def echoes(**values: Any) -> list[View]:
    return [step(name, "kit_echo", {"value": value}) for name, value in values.items()]


async def given(shop: Workshop, source: Any = SOURCE, input: View | None = None, **values: Any) -> View:  # noqa: A002 (a plan's own word)
    """The outputs of steps that give back a template each."""
    shop.world.arm("source", payload=json.dumps(source))
    document = plan(
        step("source", "kit_emit", {"ref": "source"}), *echoes(**values), input=input or {"secret": "s3cr3t", "n": 2}
    )
    async with chained(shop) as (_, ask):
        view = await ran(ask, document)
        assert view["status"] == "succeeded", view
        outputs: View = view["outputs"]
        return outputs


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_whole_reference_keeps_its_type_and_one_inside_a_text_is_text(shop: Workshop) -> None:
    outputs = await given(
        shop,
        whole="${source}", number="${source.number}", flag="${source.flag}", none="${source.none}",
        second="${source.list[1]}", deep='${source.list[1]["a b"][1]}', inside="n=${source.number}, ${source.flag}.",
        two="${source.number}${source.number}", many=["${source.flag}", {"k": "${input.n}"}], plain="no reference",
    )  # fmt: skip
    assert outputs["whole"] == SOURCE
    assert outputs["number"] == SOURCE["number"]
    assert outputs["flag"] is True
    assert outputs["none"] is None
    assert outputs["second"] == SOURCE["list"][1]
    assert outputs["deep"] == "three"
    assert outputs["inside"] in {"n=725653563933458433, true.", "n=725653563933458433, True."}
    assert outputs["two"] == "725653563933458433" * 2
    assert outputs["many"] == [True, {"k": 2}]
    assert outputs["plain"] == "no reference"


@pytest.mark.promise("CHAIN-VALUES")
async def test_what_looks_like_a_reference_in_data_is_data(shop: Workshop) -> None:
    trap = "${source.number} ${input.secret} ${run.id} $${x}"
    outputs = await given(
        shop,
        {"trap": trap, "list": [trap]},
        {"secret": "s3cr3t", "trap": trap},
        output="${source.trap}", within="<${source.trap}>", list="${source.list}", taken="${input.trap}",
        again="${output}", literal="$${source.trap}", mixed="$${a} ${source.trap}",
        dollar="$5 and $$ and ${input.secret}$",
    )  # fmt: skip
    assert outputs["output"] == outputs["again"] == outputs["taken"] == trap
    assert outputs["within"] == f"<{trap}>"
    assert outputs["list"] == [trap]
    assert outputs["literal"] == "${source.trap}"
    assert outputs["mixed"] == "${a} " + trap
    assert outputs["dollar"] == "$5 and $$ and s3cr3t$"


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_default_stands_in_for_what_is_missing_and_for_nothing_else(shop: Workshop) -> None:
    outputs = await given(
        shop,
        number="${source.gone ?? 7}", text='${source.gone ?? "none"}', null="${source.gone ?? null}",
        there="${source.number ?? 1}", false='${source.list[0]["a b"] ?? 9}', inside="<${source.gone.x ?? 0}>",
        unstated="${input.gone ?? true}",
    )  # fmt: skip
    assert outputs["number"] == 7
    assert (outputs["text"], outputs["null"]) == ("none", None)
    assert (outputs["there"], outputs["false"]) == (SOURCE["number"], 1)
    assert outputs["inside"] == "<0>"
    assert outputs["unstated"] is True


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_step_gets_the_whole_value_where_the_view_has_a_part_of_it(shop: Workshop) -> None:
    document = plan(
        step("big", "more_text", {"size": 200_000, "lead": "<"}),
        step("rows", "more_rows", {"count": 2_000}),
        step("behind", "kit_echo", {"value": "${rows.rows[1999]}"}),
        step("s", "kit_write", {"ref": "r", "note": "${big}", "amount": "${rows.total}"}),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert view["status"] == "succeeded"
        (made,) = at.world.effects("r")
        assert made == {"amount": 2_000, "note": "<" + "é" * 200_000}
        assert view["outputs"]["behind"] == "y" * 100
        assert len(json.dumps(view)) < 200_000
        shown = await ask("status", call_id=of(view, "big")["call_id"])
        assert (shown["output"], shown["truncated"]["bytes"] > 400_000) == (None, True)


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_saved_name_the_run_and_the_evidence_can_be_referred_to(shop: Workshop) -> None:
    document = plan(
        step("page", "chain_versioned", {"ref": "p"}, save_as="saved"),
        step("s", "chain_guarded", {"ref": "${saved.ref}"}, if_version="${page.$evidence.external_version}"),
        step("id", "kit_echo", {"value": "${run.id}"}),
        step("nothing", "chain_none", {"ref": "n"}),
        step("of_nothing", "kit_echo", {"value": {"is": "${nothing}"}}),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert view["status"] == "succeeded", view
        assert at.world.effects("p") == [{"if_version": 'W/"7"'}]
        assert view["outputs"]["id"] == view["run_id"]
        assert view["outputs"]["saved"] == view["outputs"]["page"] == {"ref": "p"}
        assert view["outputs"]["of_nothing"] == {"is": None}
        assert (of(view, "nothing")["state"], of(view, "nothing")["outcome"]) == ("succeeded", "no_result")


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_reference_that_cannot_be_read_is_refused_before_anything_runs(shop: Workshop) -> None:
    bad = (
        "${", "${}", "${source", "${source.}", "${source[}", "${source[x]}", "${source.a b}", "${source ?? }",
        "${item}", "${run.secret}", "${env.HOME}", "text ${nobody.x}",
    )  # fmt: skip
    async with chained(shop) as (_, ask):
        for template in bad:
            found = await problems(ask, plan(step("source", "kit_emit", {"ref": "r"}), *echoes(s=template)))
            assert {one["step"] for one in found} == {"s"}, template
            assert {one["code"] for one in found} <= {"bad_reference", "unknown_step", "invalid_arguments"}, template
    assert shop.book.calls() == []


@pytest.mark.promise("CHAIN-VALUES")
async def test_every_item_of_a_list_is_a_call_of_its_own_and_outputs_come_in_their_order(shop: Workshop) -> None:
    document = plan(
        step("order", "chain_order", {"order_id": "o", "people": 3}),
        step(
            "tell", "kit_write", {"ref": "${item.email}", "note": "of ${order.order_id}"}, for_each="${order.contacts}"
        ),
        step("none", "kit_write", {"ref": "${item}"}, for_each=[]),
        step("sum", "kit_echo", {"value": "${tell[2].ref}"}),
    )
    async with chained(shop) as (at, ask):
        assert (await planned(ask, document))["warnings"]
        view = await ran(ask, document)
        assert view["status"] == "succeeded", view
        refs = [f"p{n}@shop.example" for n in range(3)]
        assert [one["ref"] for one in view["outputs"]["tell"]] == refs
        assert [(one["n"], one["state"]) for one in of(view, "tell")["items"]] == [(n, "succeeded") for n in range(3)]
        assert len({one["call_id"] for one in of(view, "tell")["items"]}) == 3
        assert (view["outputs"]["none"], of(view, "none")["state"], of(view, "none")["items"]) == ([], "succeeded", [])
        assert view["outputs"]["sum"] == refs[2]
        assert [at.world.effects(ref) for ref in refs] == [[{"amount": 10, "note": "of o"}]] * 3


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_step_fails_if_an_item_does_and_only_after_all_have_ended(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="not you")
    document = plan(
        step("each", "kit_write", {"ref": "${item}"}, for_each=["bad", "good", "best"]),
        step("behind", "kit_write", {"ref": "behind"}, after=["each"]),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert (view["status"], of(view, "each")["state"]) == ("failed", "failed")
        assert [one["state"] for one in of(view, "each")["items"]] == ["failed", "succeeded", "succeeded"]
        assert of(view, "behind")["state"] == "not_run"
        assert [at.world.count(ref) for ref in ("bad", "good", "best", "behind")] == [0, 1, 1, 0]


@pytest.mark.promise("CHAIN-VALUES")
@pytest.mark.parametrize("value", ['"text"', '{"a": 1}', "7", "null"])
async def test_a_for_each_over_anything_but_a_list_fails_its_step_and_sends_nothing(shop: Workshop, value: str) -> None:
    shop.world.arm("source", payload=value)
    document = plan(
        step("source", "kit_emit", {"ref": "source"}), step("s", "kit_write", {"ref": "r"}, for_each="${source}")
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert (view["status"], of(view, "s")["state"], at.world.count("r")) == ("failed", "failed", 0)


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_for_each_beyond_its_bound_is_refused_or_fails_and_sends_nothing(shop: Workshop) -> None:
    shop.world.arm("source", payload=json.dumps(list(range(4))))
    each = step("s", "kit_write", {"ref": "r", "amount": "${item}"}, for_each="${source}")
    async with chained(shop, limits="for_each = 3") as (at, ask):
        (found, *_) = await problems(ask, plan(step("s", "kit_write", {"ref": "r"}, for_each=[1, 2, 3, 4])))
        assert (found["step"], found["code"]) == ("s", "too_large")
        view = await ran(ask, plan(step("source", "kit_emit", {"ref": "source"}), each))
        assert (view["status"], of(view, "s")["state"], at.world.count("r")) == ("failed", "failed", 0)


@pytest.mark.promise("CHAIN-VALUES")
@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("${source.flag}", True),
        ({"ref": "${source.number}", "eq": 725653563933458433}, True),
        ({"ref": "${source.number}", "ne": 725653563933458433}, False),
        ({"ref": "${source.n}", "gt": 2}, True),
        ({"ref": "${source.n}", "ge": 3}, True),
        ({"ref": "${source.n}", "lt": 3}, False),
        ({"ref": "${source.n}", "le": 2}, False),
        ({"ref": "${source.word}", "in": ["a", "late"]}, True),
        ({"ref": "${source.gone}", "exists": True}, False),
        ({"ref": "${source.gone}", "exists": False}, True),
        ({"ref": "${source.none}", "exists": True}, True),
    ],
)
async def test_a_condition_is_a_boolean_and_decides(shop: Workshop, when: Any, *, runs: bool) -> None:
    shop.world.arm("source", payload=json.dumps(SOURCE | {"n": 3, "word": "late"}))
    document = plan(
        step("source", "kit_emit", {"ref": "source"}), step("s", "kit_write", {"ref": "r"}, when=when),
        step("behind", "kit_write", {"ref": "behind"}, after=["s"]),
    )  # fmt: skip
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert (view["status"], of(view, "s")["state"]) == ("succeeded", "succeeded" if runs else "skipped")
        assert (at.world.count("r"), at.world.count("behind")) == ((1, 1) if runs else (0, 0))


@pytest.mark.promise("CHAIN-VALUES")
@pytest.mark.parametrize(
    "when", ["${source.number}", "${source.text}", "${source.none}", "${source.list}", "${source.gone}"]
)
async def test_a_condition_that_is_no_boolean_fails_its_step(shop: Workshop, when: str) -> None:
    shop.world.arm("source", payload=json.dumps(SOURCE))
    document = plan(step("source", "kit_emit", {"ref": "source"}), step("s", "kit_write", {"ref": "r"}, when=when))
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert (view["status"], of(view, "s")["state"], at.world.count("r")) == ("failed", "failed", 0)


@pytest.mark.promise("CHAIN-VALUES")
@pytest.mark.parametrize("end", ["failed", "continued", "skipped", "not_run"])
async def test_a_step_that_needs_settled_runs_after_any_end_of_what_is_before_it(shop: Workshop, end: str) -> None:
    shop.world.arm("bad", refuse="no")
    first = {
        "failed": [step("s", "kit_write", {"ref": "bad"})],
        "skipped": [
            step("o", "chain_order", {"order_id": "o", "late": False}),
            step("s", "kit_write", {"ref": "x"}, when="${o.late}"),
        ],
        "continued": [step("s", "kit_write", {"ref": "bad"}, on_failure="continue")],
        "not_run": [step("z", "kit_write", {"ref": "bad"}), step("s", "kit_write", {"ref": "x"}, after=["z"])],
    }[end]
    document = plan(
        *first,
        step("cleanup", "kit_write", {"ref": "cleanup"}, after=["s"], needs="settled"),
        step("told", "kit_echo", {"value": '${s.number ?? "nothing"}'}, needs="settled"),
        step("strict", "kit_write", {"ref": "strict"}, after=["s"]),
    )
    async with chained(shop) as (at, ask):
        view = await ran(ask, document)
        assert (of(view, "cleanup")["state"], at.world.count("cleanup")) == ("succeeded", 1)
        assert view["outputs"]["told"] == "nothing"
        assert (of(view, "strict")["state"], at.world.count("strict")) == ("not_run", 0)
        assert view["status"] == ("succeeded" if end in {"skipped", "continued"} else "failed")


@pytest.mark.promise("CHAIN-VALUES")
async def test_a_step_that_may_fail_lets_the_run_succeed_with_a_reason(shop: Workshop) -> None:
    shop.world.arm("bad", refuse="no")
    document = plan(
        step("s", "kit_write", {"ref": "bad"}, on_failure="continue"),
        step("behind", "kit_write", {"ref": "behind"}, after=["s"]),
        step("beside", "kit_write", {"ref": "beside"}),
    )
    async with chained(shop) as (_, ask):
        view = await ran(ask, document)
        assert view["status"] == "succeeded"
        assert view["reason"]
        assert [one["state"] for one in view["steps"]] == ["failed", "not_run", "succeeded"]
