"""The text form of references: what can be read, and what is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.runtime.plan.references import UNSET, Reference, ReferenceSyntaxError, parse, spelled, whole


def test_a_text_is_read_into_literals_and_references_in_order() -> None:
    assert parse("a ${x.y} $${z} ${input.q ?? 1}b") == (
        "a ",
        Reference("x", ("y",), None, UNSET, "${x.y}"),
        " ${z} ",
        Reference("input", ("q",), None, 1, "${input.q}"),
        "b",
    )


@pytest.mark.parametrize("text", ['${a-b_1.c-d[10]["e.f"]}', "${a}", "${a.$evidence.request_id}", '${a ?? {"b": [1]}}'])
def test_a_string_can_be_one_whole_reference(text: str) -> None:
    assert whole(parse(text)) is not None


def test_a_fact_of_the_evidence_is_apart_from_members_of_the_output() -> None:
    fact, member = whole(parse("${a.$evidence.request_id}")), whole(parse('${a["$evidence"].request_id}'))
    assert fact == Reference("a", (), "request_id", UNSET, "${a.$evidence.request_id}")
    assert member is not None
    assert (member.path, member.evidence) == (("$evidence", "request_id"), None)


@pytest.mark.parametrize("text", ["${a} ", "${a}${b}", "$${a}", "a", ""])
def test_other_strings_are_texts(text: str) -> None:
    assert whole(parse(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "${", "${}", "${.a}", "${a", "${a.}", "${a..b}", "${a[}", "${a[-1]}", "${a[01]}", "${a['b']}", '${a["b}',
        "${a b}",
        "${a ?? }", "${a ?? nope}", "${a ?? NaN}", "${a ?? 1e999}", '${a ?? {"b": 1, "b": 2}}', "${a ?? 1",
        "${a ?? ${b}}",
        "${a.$evidence}", "${a.$evidence.other}", "${a.$evidence.request_id.x}", "${a.b.$evidence.request_id}",
        "${a.$x}",
        "${a | upper}", "${a + 1}", "${a()}", '${a["\\ud800"]}', "${a ?? " + "[" * 100 + "]" * 100 + "}",
    ],
)  # fmt: skip
def test_anything_else_after_a_dollar_brace_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ReferenceSyntaxError, match=r"at character \d+ a reference is broken: ") as caught:
        parse("secret " + text)
    assert "secret" not in str(caught.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        pieces = parse(text)
    except ReferenceSyntaxError:
        return
    if all(isinstance(piece, str) for piece in pieces):
        assert "".join(map(str, pieces)) == text.replace("$${", "${")


@given(st.lists(st.integers(0, 999) | st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_a_reference_is_spelled_as_it_can_be_read_again(path: list[str | int]) -> None:
    written = spelled("step", tuple(path))
    found = whole(parse(written))
    assert found is not None
    assert (found.root, found.path, found.text) == ("step", tuple(path), written)
