"""What cannot become a tool is refused while it is decorated, by name and with the cure."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field

from counterfoil import Call, Probe, tool
from counterfoil.tools.errors import ToolDefinitionError

if TYPE_CHECKING:
    from decimal import Decimal


async def _takes_x(x: str) -> None: ...


def keys_of_y(y: str) -> list[str]:
    return [y]


def test_the_effect_must_be_stated() -> None:
    with pytest.raises(ToolDefinitionError, match=r"tool '.*f': state what it does to the world: effect='read'"):

        @tool()
        async def f() -> None: ...


def test_a_parameter_without_a_type_is_refused_by_name() -> None:
    with pytest.raises(ToolDefinitionError, match=r"tool '.*f': parameter 'x' has no type; write `x: str`"):

        @tool(effect="read")
        async def f(x) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001 (what is tested)


def test_a_type_that_json_cannot_carry_is_refused_by_parameter() -> None:
    with pytest.raises(ToolDefinitionError, match=r"the type of parameter 'x' cannot be JSON"):

        @tool(effect="read")
        async def f(ok: str, x: types.FrameType) -> None: ...


def test_a_default_that_json_cannot_carry_is_refused_by_parameter() -> None:
    with pytest.raises(ToolDefinitionError, match=r"the default of parameter 'x' cannot be JSON"):

        @tool(effect="read")
        async def f(x: str = object()) -> None: ...  # type: ignore[assignment] # what is tested


def test_an_annotation_that_is_only_there_for_type_checkers_is_refused_with_the_cure() -> None:
    with pytest.raises(ToolDefinitionError, match=r"annotation of 'x' names 'Decimal'.*import it at run time"):

        @tool(effect="read")
        async def f(x: Decimal) -> None: ...


def test_parameters_that_no_caller_can_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"parameter '\*args' has no name"):

        @tool(effect="read")
        async def f(*args: int) -> None: ...


def test_an_alias_is_refused_since_callers_use_the_parameters_name() -> None:
    with pytest.raises(ToolDefinitionError, match="parameter 'x' has an alias"):

        @tool(effect="read")
        async def f(x: Annotated[str, Field(alias="y")]) -> None: ...


def test_two_calls_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"\['a', 'b'\] are all a Call"):

        @tool(effect="read")
        async def f(a: Call, b: Call) -> None: ...


def test_a_generator_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="a generator gives many values"):

        @tool(effect="read")
        def f() -> Any:
            yield 1


def test_a_tool_that_returns_a_probe_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="only a probe returns a Probe"):

        @tool(effect="read")
        async def f() -> Probe:
            return Probe.unknown()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"effect": "reed"}, r"effect is one of read, write, destructive, not 'reed'"),
    ({"scopes": "a:b"}, r"scopes is a list of texts, not 'a:b'"),
    ({"timeout_s": 0}, r"timeout_s is a number of seconds above 0, not 0"),
    ({"timeout_s": float("nan")}, r"timeout_s is a number"),
    ({"rate": "5"}, r"rate is a count .* not '5'"),
    ({"retry": {"attempts": 0}}, r"retry.attempts is a whole number of at least 1, not 0"),
    ({"retry": {"atempts": 2}}, r"retry.atempts is no contract field; did you mean 'attempts'"),
    ({"idempotant": "keyed"}, r"idempotant is no contract field; did you mean 'idempotency'"),
    ({"sensitive": ["note"]}, r"JSON Pointers, as in '/note'"),
    ({"evidence": {"external_version": "etag"}}, r"names with JSON Pointers"),
    ({"resources": ["order:{y}"]}, r"names the argument 'y'; known are \['x'\]"),
    ({"resources": keys_of_y}, r"takes 'y', which is no argument; known are \['x'\]"),
    ({"name": "Not Good"}, r"1 to 64 characters"),
    ({"name": "tool_call"}, r"name of a base tool"),
    ({"effect": "destructive", "approval": "client"}, r"approval 'client' is for reversible writes"),
    ({"open_world": "no"}, r"open_world is True or False, not 'no'"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_a_field_that_cannot_be_right_is_refused_with_what_it_may_be(fields: dict[str, Any], message: str) -> None:
    async def f(x: str) -> None: ...

    stated: Any = {"effect": "write", **fields}
    with pytest.raises(ToolDefinitionError, match=r"tool '.*f': .*" + message):
        tool(**stated)(f)


def test_a_probe_may_only_take_arguments_of_its_tool() -> None:
    made = tool(effect="write")(_takes_x)
    with pytest.raises(ToolDefinitionError, match=r"probe '.*p': parameter 'y' is no argument of its tool.*\['x'\]"):

        @made.probe()
        async def p(y: str) -> Probe: ...  # type: ignore[empty-body] # refused before it could run


def test_a_probe_with_an_effect_or_another_return_type_is_refused() -> None:
    made = tool(effect="write")(_takes_x)
    with pytest.raises(ToolDefinitionError, match="a probe has effect 'read'"):

        @made.probe(effect="write")
        async def p(x: str) -> Probe: ...  # type: ignore[empty-body] # refused before it could run

    with pytest.raises(ToolDefinitionError, match="so write `-> Probe`"):

        @made.probe()
        async def q(x: str) -> bool: ...  # type: ignore[empty-body] # refused before it could run


def test_a_second_probe_is_refused() -> None:
    made = tool(effect="write")(_takes_x)

    @made.probe()
    async def first(x: str) -> Probe: ...  # type: ignore[empty-body] # never called

    with pytest.raises(ToolDefinitionError, match="has a probe already"):

        @made.probe()
        async def again(x: str) -> Probe: ...  # type: ignore[empty-body] # refused before it could run


def test_a_compensation_of_a_tool_with_an_argument_called_output_cannot_take_the_output() -> None:
    @tool(effect="write")
    async def store(output: str) -> str:
        return output

    with pytest.raises(ToolDefinitionError, match="both an argument of the tool and the first call's output"):

        @store.compensation()
        async def unstore(output: str) -> None: ...


def test_the_name_and_visibility_of_a_probe_cannot_be_stated() -> None:
    made = tool(effect="write")(_takes_x)
    wrong: Any = {"name": "other"}
    with pytest.raises(ToolDefinitionError, match="name is no contract field"):

        @made.probe(**wrong)
        async def p(x: str) -> Probe: ...  # type: ignore[empty-body] # refused before it could run
