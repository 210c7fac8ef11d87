from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError

from counterfoil import Call, Outcome, Probe, tool
from counterfoil.registry.adapter import Adapter, CallStoppedError
from counterfoil.registry.outcome import ProbeAnswer
from counterfoil.registry.vocabulary import ErrorCode, JsonObject, OutcomeClass, Sent
from counterfoil.tools.decorator import Tool
from counterfoil.tools.errors import HandlerExitError, HandlerResultError
from counterfoil.tools.threads import Threads
from tests.kit.rules import PROBLEM

pytestmark = pytest.mark.anyio
MakeCall = Callable[..., Call]
LIMIT_S = 20


class Refund(BaseModel):
    refund_id: str
    amount: float


class Counted(BaseModel):
    n: int


class Colour(Enum):
    RED = "red"


@dataclass
class Parcel:
    weight: int


def adapter_of(made: Tool[..., Any], ending: str = "", threads: Threads | None = None) -> Adapter:
    return next(a for c, a in made.registrations(threads) if c.name == made.contract.name + ending)


async def invoke(made: Tool[..., Any], call: Call, arguments: JsonObject | None = None) -> Outcome[Any]:
    async with asyncio.timeout(LIMIT_S):
        return await adapter_of(made).invoke(arguments or {}, call, {})


async def test_an_async_function_is_called_with_typed_values_and_its_call(make_call: MakeCall) -> None:
    seen: list[Any] = []

    @tool(effect="write")
    async def keep(
        n: int, at: datetime, colour: Colour, parcel: Parcel, ratio: float, call: Call, extra: int = 7
    ) -> None:
        seen.extend([n, at, colour, parcel, ratio, call.action_id, extra])

    arguments: JsonObject = {
        "n": 725653563933458432,
        "at": "2026-01-02T03:04:05Z",
        "colour": "red",
        "parcel": {"weight": 2},
        "ratio": 1,
    }
    outcome = await invoke(keep, make_call(), arguments)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert seen == [725653563933458432, at, Colour.RED, Parcel(2), 1.0, "act_1", 7]
    assert (outcome.kind, outcome.output, outcome.sent) == (OutcomeClass.SUCCESS, None, Sent.YES)


async def test_a_decorated_function_is_still_the_plain_function(make_call: MakeCall) -> None:
    @tool(effect="destructive")
    async def refund(order_id: str, amount: float, call: Call) -> Refund:
        return Refund(refund_id=f"{order_id}/{call.action_id}", amount=amount)

    assert await refund("o", 1.0, make_call()) == Refund(refund_id="o/act_1", amount=1.0)


async def test_a_model_becomes_plain_json(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def refund() -> Refund:
        return Refund(refund_id="r", amount=2.5)

    assert (await invoke(refund, make_call())).output == {"refund_id": "r", "amount": 2.5}


async def test_an_outcome_passes_through_with_its_output_and_evidence_as_json(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def partly() -> Outcome[list[datetime]]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return Outcome[list[datetime]].partial([at], "half", evidence={"external_version": at})

    outcome = await invoke(partly, make_call())
    assert (outcome.kind, outcome.message) == (OutcomeClass.PARTIAL, "half")
    assert outcome.output == ["2026-01-01T00:00:00Z"]
    assert outcome.evidence == {"external_version": "2026-01-01T00:00:00Z"}


async def test_what_a_handler_raises_goes_up_unchanged(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def fail() -> None:
        raise LookupError("gone")

    @tool(effect="write")
    def fail_in_thread() -> None:
        raise LookupError("gone")

    for made in (fail, fail_in_thread):
        with pytest.raises(LookupError, match="gone"):
            await invoke(made, make_call())


async def test_a_validation_error_of_the_handlers_own_goes_up_too(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def parse() -> None:
        TypeAdapter(int).validate_python("x")

    with pytest.raises(ValidationError):
        await invoke(parse, make_call())


async def test_arguments_that_do_not_fit_are_an_invalid_request_that_shows_no_value(make_call: MakeCall) -> None:
    called: list[int] = []

    def even(n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n

    @tool(effect="write")
    async def halve(n: Annotated[int, AfterValidator(even)]) -> None:
        called.append(n)

    odd = await invoke(halve, make_call(), {"n": 771})
    text = await invoke(halve, make_call(), {"n": "secret"})
    for outcome in (odd, text):
        assert (outcome.kind, outcome.sent, outcome.code) == ("invalid_request", "no", ErrorCode.INVALID_ARGUMENTS)
        (problem,) = outcome.details["problems"]
        assert (problem.keys(), problem["path"], problem["nearest"]) == (PROBLEM, "/n", None)
        assert "771" not in str(outcome)
        assert "secret" not in str(outcome)
    assert "must be even" in odd.message
    assert not called


@pytest.mark.parametrize("value", [True, "7", 1.5, None])
async def test_an_integer_field_takes_nothing_but_an_integer(make_call: MakeCall, value: Any) -> None:
    @tool(effect="write")
    async def count(n: int, inside: Counted) -> None: ...

    wrong: list[Any] = [{"n": value, "inside": {"n": 1}}, {"n": 1, "inside": {"n": value}}]
    for arguments in wrong:
        assert (await invoke(count, make_call(), arguments)).code is ErrorCode.INVALID_ARGUMENTS


async def test_a_probe_gets_the_tools_arguments_and_answers_in_json(make_call: MakeCall) -> None:
    @tool(effect="destructive")
    async def refund(order_id: str, amount: float) -> Refund:
        return Refund(refund_id=order_id, amount=amount)

    @refund.probe()
    async def happened(order_id: str, call: Call) -> Probe:
        return Probe.happened(Refund(refund_id=f"{order_id}:{call.id}", amount=1), evidence={"seen": {1}})

    probe = adapter_of(refund, "__probe")
    outcome = await probe.invoke({"order_id": "o", "amount": 1}, make_call(), {})
    assert outcome.output == Probe(ProbeAnswer.HAPPENED, {"refund_id": "o:call_1", "amount": 1.0}, {"seen": [1]})


async def test_a_probe_that_answers_anything_else_is_an_error(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def act() -> None: ...

    @act.probe()
    async def look() -> Any:
        return True

    with pytest.raises(HandlerResultError, match=r"returned bool; return Probe\.happened"):
        await adapter_of(act, "__probe").invoke({}, make_call(), {})


async def test_a_compensation_gets_the_first_calls_output_with_its_type(make_call: MakeCall) -> None:
    seen: list[Any] = []

    @tool(effect="destructive")
    async def refund(order_id: str, amount: float) -> Refund:
        return Refund(refund_id=order_id, amount=amount)

    @refund.compensation()
    async def undo(amount: float, output: Refund, call: Call) -> None:
        seen.extend([amount, output, call.id])

    adapter = adapter_of(refund, "__undo")
    arguments: JsonObject = {"order_id": "o", "amount": 2}
    await adapter.invoke(arguments, make_call(), {"output": {"refund_id": "r", "amount": 2}})
    assert seen == [2.0, Refund(refund_id="r", amount=2), "call_1"]
    missing = await adapter.invoke(arguments, make_call(), {})
    assert (missing.code, missing.sent) == (ErrorCode.INVALID_ARGUMENTS, Sent.NO)
    assert len(seen) == 3


async def test_sys_exit_in_a_handler_is_an_error_of_that_call_and_not_the_end_of_the_server(
    make_call: MakeCall,
) -> None:
    @tool(effect="write")
    async def leave() -> None:
        sys.exit(3)

    @tool(effect="write")
    def leave_in_thread() -> None:
        sys.exit(3)

    for made in (leave, leave_in_thread):
        with pytest.raises(HandlerExitError, match="asked the process to exit"):
            await invoke(made, make_call())


class Uncommon(BaseException):
    pass


class KeyboardInterruptingMapping(dict[str, int]):
    def items(self) -> Any:
        raise KeyboardInterrupt


def interrupted(_: int) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt, Uncommon])
async def test_no_exception_of_a_handler_or_a_probe_can_end_the_loop(
    make_call: MakeCall, error: type[BaseException]
) -> None:
    @tool(effect="write")
    async def ask() -> None:
        raise error

    @tool(effect="write")
    def ask_in_thread() -> None:
        raise error

    @ask.probe()
    async def asked() -> Probe:
        raise error

    for adapter in (adapter_of(ask), adapter_of(ask_in_thread), adapter_of(ask, "__probe")):
        with pytest.raises(HandlerExitError, match=error.__name__):
            await asyncio.create_task(adapter.invoke({}, make_call(), {}))


async def test_neither_can_a_validator_or_a_value(make_call: MakeCall) -> None:
    @tool(effect="write")
    async def parse(n: Annotated[int, AfterValidator(interrupted)]) -> int:
        return n

    @tool(effect="write")
    async def give() -> Any:
        return KeyboardInterruptingMapping()

    with pytest.raises(HandlerExitError):
        await asyncio.create_task(adapter_of(parse).invoke({"n": 1}, make_call(), {}))
    with pytest.raises(HandlerExitError):
        await asyncio.create_task(adapter_of(give).invoke({}, make_call(), {}))


async def test_a_blocking_function_runs_in_a_thread_and_can_report_and_ask(
    make_call: MakeCall, progress: list[Any]
) -> None:
    ran_in: list[threading.Thread] = []

    @tool(effect="write")
    def work(call: Call) -> str:
        call.blocking_progress(1, 2, "half")
        call.blocking_guard()
        ran_in.append(threading.current_thread())
        return "done"

    outcome = await invoke(work, make_call())
    assert (outcome.output, progress) == ("done", [(1, 2, "half")])
    assert ran_in[0] is not threading.main_thread()


async def test_a_guard_that_says_stop_passes_through_a_blocking_handler(make_call: MakeCall) -> None:
    async def stop() -> None:
        raise CallStoppedError("cancelled")

    @tool(effect="write")
    def work(call: Call) -> str:
        call.blocking_guard()
        return "done"

    with pytest.raises(CallStoppedError):
        await invoke(work, make_call(guard=stop))


async def test_a_plain_function_that_returns_an_awaitable_is_awaited(make_call: MakeCall) -> None:
    async def later() -> int:
        return 5

    @tool(effect="read")
    def wrapped() -> Any:
        return later()

    assert (await invoke(wrapped, make_call())).output == 5


async def test_sixty_blocking_calls_leave_the_loop_and_the_default_executor_free(make_call: MakeCall) -> None:
    release = threading.Event()

    @tool(effect="read")
    def block() -> str:
        release.wait(LIMIT_S)
        return threading.current_thread().name

    adapter, call = adapter_of(block), make_call()
    tasks = [asyncio.create_task(adapter.invoke({}, call, {})) for _ in range(60)]
    async with asyncio.timeout(LIMIT_S):
        assert await asyncio.to_thread(lambda: 1) == 1
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        release.set()
        names = {str((await task).output) for task in tasks}
    assert 1 <= len(names) <= 16
    assert all(name.startswith("counterfoil-blocking-") for name in names)


async def test_a_cancelled_blocking_call_returns_at_once_while_its_thread_goes_on(make_call: MakeCall) -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(effect="write")
    def block() -> None:
        started.set()
        release.wait(LIMIT_S)
        ended.set()

    adapter = adapter_of(block)
    task = asyncio.create_task(adapter.invoke({}, make_call(), {}))
    async with asyncio.timeout(LIMIT_S):
        await asyncio.to_thread(started.wait, LIMIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ended.is_set()
        release.set()
        assert await asyncio.to_thread(ended.wait, LIMIT_S)


async def test_a_blocking_call_that_no_thread_took_in_time_is_known_as_not_sent(make_call: MakeCall) -> None:
    started, release = threading.Event(), threading.Event()
    runs: list[int] = []

    @tool(effect="write")
    def block(n: int) -> None:
        runs.append(n)
        started.set()
        release.wait(LIMIT_S)

    adapter, call = adapter_of(block, threads=Threads(1)), make_call()
    async with asyncio.timeout(LIMIT_S):
        first = asyncio.create_task(adapter.invoke({"n": 1}, call, {}))
        await asyncio.to_thread(started.wait, LIMIT_S)
        second = asyncio.create_task(adapter.invoke({"n": 2}, call, {}))
        await asyncio.sleep(0)
        second.cancel()
        outcome = await second
        release.set()
        await first
        await adapter.invoke({"n": 3}, call, {})
    assert (outcome.kind, outcome.sent, outcome.code) == ("retryable_failure", "no", ErrorCode.UNAVAILABLE)
    assert runs == [1, 3]


async def test_what_a_tool_prints_is_left_to_whoever_owns_the_output(
    make_call: MakeCall, capsys: pytest.CaptureFixture[str]
) -> None:
    @tool(effect="read")
    async def chatty() -> int:
        print("hello")  # noqa: T201 (what is tested)
        return 1

    assert (await invoke(chatty, make_call())).output == 1
    assert capsys.readouterr().out == "hello\n"


async def test_code_in_our_process_never_claims_a_hard_deadline() -> None:
    @tool(effect="read")
    async def look() -> None: ...

    assert adapter_of(look).hard_deadline is False
    assert adapter_of(look).ready() is None
