"""The adapter that makes a Python function the hands of a tool, a probe or a compensation.

It builds the arguments, runs the function once, and encodes what comes back. It decides nothing: what a handler raises
goes up to the runtime, which knows what an unknown outcome means for this effect.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, TypeGuard

from pydantic import TypeAdapter, ValidationError

from ..canonical import JsonObject, pointer
from ..registry.adapter import Call
from ..registry.outcome import Outcome, Probe
from ..registry.problem import Problem, as_json
from ..registry.vocabulary import ErrorCode, OutcomeClass, Sent
from .encode import encode
from .errors import ChangedArgumentsError, HandlerExitError, HandlerResultError, NeverStartedError
from .signature import OUTPUT, Arguments, FirstOutput, Function
from .threads import Threads

PROBLEMS_MAX: Final = 20
AS_IT_IS: Final = "a value that the tool's own check takes as it is"
TAKEN: Final = "arguments that the tool's own check takes"
REFUSED: Final = "one that it refuses"
_ORIGIN: Final = re.compile("^(Value error|Assertion failed), ")


@dataclass(frozen=True)
class Handler:
    """A function and how to call it. `takes` are the arguments of the tool that it wants."""

    name: str
    function: Function
    arguments: Arguments
    takes: tuple[str, ...]
    call: str | None = None
    first_output: FirstOutput | None = None
    return_type: TypeAdapter[Any] | None = None
    is_probe: bool = False

    @cached_property
    def blocking(self) -> bool:
        """True if it must run in a thread."""
        return not inspect.iscoroutinefunction(self.function)

    def bound(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Callable[[], Any]:
        """The function with everything it takes.

        Raises:
            pydantic.ValidationError: the arguments, or the first call's output, do not fit.
            ChangedArgumentsError: a validator changed an argument.
        """
        parsed = self.arguments.parse(arguments)
        keywords = {name: parsed[name] for name in self.takes}
        if self.first_output is not None:
            keywords[OUTPUT] = self.first_output.parse(extra)
        if self.call is not None:
            keywords[self.call] = call
        return partial(self.function, **keywords)


class FunctionAdapter:
    """One function behind the `Adapter` port of the runtime."""

    def __init__(self, handler: Handler, threads: Threads | None = None) -> None:
        self._handler = handler
        self._threads = threads or Threads()

    @property
    def hard_deadline(self) -> bool:
        """False: code inside our process may act after its deadline, in a thread above all."""
        return False

    @property
    def blocking(self) -> bool:
        """True if it occupies one of the worker threads while it runs."""
        return self._handler.blocking

    def bind(self, threads: Threads) -> None:
        """Use these threads, which all tools of an application share."""
        self._threads = threads

    def ready(self) -> None:
        """A function is always ready."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> Sequence[Problem]:  # noqa: ARG002 (a port's shape; the handler reads it from its `Call`)
        """What the author's own validators refuse, or would change; asked only where the types can do either."""
        if not self._handler.arguments.checks:
            return ()
        try:
            self._handler.arguments.parse(arguments)
        except ValidationError as error:
            return _unfit(error)
        except ChangedArgumentsError as error:
            return _changed(error)
        except BaseException as error:  # noqa: BLE001 (an author's code; not even SystemExit or CancelledError may leave it)
            return [Problem.of("", TAKEN, f"ones at which it failed ({type(error).__name__})")]
        return ()

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        """Call the function once.

        Raises:
            HandlerError: it asked the process to end, or a probe answered with something else than a `Probe`.
            Exception: whatever the handler raised.
        """
        try:
            return await self._invoke(arguments, call, extra)
        except (Exception, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # asyncio ends the whole loop for SystemExit and KeyboardInterrupt
            raise HandlerExitError(f"{self._handler.name} asked the process to exit ({_shown(error)}); "
                                   "raise an error or return an Outcome instead") from error  # fmt: skip

    async def _invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        try:
            bound = self._handler.bound(arguments, call, extra)
        except ValidationError as error:
            return _invalid(_unfit(error))
        except ChangedArgumentsError as error:
            return _invalid(_changed(error))
        try:
            result = await self._run(bound)
        except NeverStartedError as error:
            return Outcome[Any].unavailable(f"{self._handler.name} was stopped before it started: {error}")
        return self._outcome(result)

    async def _run(self, bound: Callable[[], Any]) -> Any:  # noqa: ANN401 (a handler's own value)
        result = await self._threads.run(bound) if self.blocking else bound()
        return await result if inspect.isawaitable(result) else result

    def _outcome(self, result: object) -> Outcome[Any]:
        if self._handler.is_probe:
            return Outcome[Any].success(self._answer(result))
        if not _is_outcome(result):
            return Outcome(OutcomeClass.SUCCESS, encode(result, self._handler.return_type).value)
        outcome = result
        return replace(
            outcome,
            output=encode(outcome.output, self._handler.return_type).value,
            evidence=_object(outcome.evidence),
            details=_object(outcome.details),
        )

    def _answer(self, result: object) -> Probe:
        if not isinstance(result, Probe):
            raise HandlerResultError(f"probe {self._handler.name} returned {type(result).__name__}; return "
                                     "Probe.happened(output), .absent(), .pending() or .unknown()")  # fmt: skip
        output = encode(result.output, self._handler.return_type).value
        return Probe(result.answer, output, _object(result.evidence), result.after_s)


def _shown(error: BaseException) -> str:
    if not isinstance(error, SystemExit):
        return type(error).__name__
    return f"exit {error.code}" if isinstance(error.code, int | None) else "exit"


def _is_outcome(result: object) -> TypeGuard[Outcome[Any]]:
    return isinstance(result, Outcome)


def _object(members: dict[str, Any]) -> JsonObject:
    if type(members) is dict and not members:
        return members
    encoded = encode(members).value
    return encoded if isinstance(encoded, dict) else {"value": encoded}


def _unfit(error: ValidationError) -> list[Problem]:
    """Places and reasons, never the values, which may be secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [Problem.of(pointer(map(str, item["loc"])), _reason(item["msg"]), REFUSED) for item in found[:PROBLEMS_MAX]]


def _reason(said: str) -> str:
    """A validator's own words, without what pydantic puts before them."""
    return f"a value that the tool's own check takes ({_ORIGIN.sub('', said)})"


def _changed(error: ChangedArgumentsError) -> list[Problem]:
    """What was asked for was recorded and may have been approved; the tool would do something else."""
    return [Problem.of(path, AS_IT_IS, "one that it would change") for path in error.paths[:PROBLEMS_MAX]]


def _invalid(problems: Sequence[Problem]) -> Outcome[Any]:
    return Outcome(
        OutcomeClass.INVALID_REQUEST,
        message=problems[0].message,
        sent=Sent.NO,
        code=ErrorCode.INVALID_ARGUMENTS,
        details={"problems": as_json(problems)},
    )
