"""The doors of the other rooms that commands go through, and what their errors mean on a command line.

Imports stand inside the functions: a command loads what it needs and no more, and a tool module that cannot be
imported must stop `check` and `call`, never `init` or `ledger verify`.
"""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import App, Tools

if TYPE_CHECKING:
    from ..config import Configuration

T = TypeVar("T")


@asynccontextmanager
async def opened(invocation: Invocation) -> AsyncGenerator[App, None]:
    """The application of this configuration, with its ledger open."""
    from ..app import open_app  # noqa: PLC0415

    async with open_app(located(invocation), role="cli") as app:
        yield app


def with_app(invocation: Invocation, use: Callable[[App], Coroutine[Any, Any, T]]) -> T:
    """Open the application, use it, close it.

    Raises:
        CommandError: the configuration or the ledger cannot be used.
    """

    async def body() -> T:
        async with opened(invocation) as app:
            return await use(app)

    return explaining(lambda: asyncio.run(body()))


def with_tools(invocation: Invocation, use: Callable[[Tools], T]) -> T:
    """Read what the configuration offers, and use it; no ledger is opened or made.

    Raises:
        CommandError: the configuration cannot be used.
    """
    from ..app import read_tools  # noqa: PLC0415

    return explaining(lambda: use(read_tools(located(invocation))))


def configuration(invocation: Invocation) -> Configuration:
    """The checked configuration; no tool module is imported.

    Raises:
        CommandError: there is none, or it cannot be read.
    """
    from ..config import load  # noqa: PLC0415

    path = located(invocation)
    return explaining(lambda: load(path))


def located(invocation: Invocation) -> Path:
    """The configuration's file: the one that was named, else the nearest here or above.

    Raises:
        CommandError: there is none.
    """
    from ..config import FILE_NAME, find  # noqa: PLC0415

    path = invocation.config or find(Path.cwd())
    if path is None:
        message = (
            f"there is no {FILE_NAME} here or in a folder above; `counterfoil init` writes one, --config F names one"
        )
        raise CommandError(Exit.USAGE, "configuration", message)
    return path


def explaining(work: Callable[[], T]) -> T:
    """Do it; an error of configuration or ledger becomes the one that a command line explains.

    Raises:
        CommandError: instead of those errors.
    """
    try:
        return work()
    except Exception as error:
        explained = _explained(error)
        if explained is None:
            raise
        raise explained from error


def _explained(error: Exception) -> CommandError | None:
    from ...ledger.errors import LedgerError  # noqa: PLC0415
    from ..config import ConfigError  # noqa: PLC0415

    if isinstance(error, ConfigError):
        return CommandError(Exit.USAGE, "configuration", str(error))
    if isinstance(error, LedgerError):
        return CommandError(Exit.LEDGER, _ledger_code(error), str(error))
    return None


def _ledger_code(error: Exception) -> str:
    """`NewerLedgerError` is `newer_ledger` to a program."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def account() -> str:
    """Who decides at this command line: the account that the process runs as."""
    return f"os:{getpass.getuser()}"


def server_of(ledger: Path) -> int | None:
    """The process of a living owner of this ledger other than this command, None if there is none that is known."""
    from ...ledger.errors import LedgerError  # noqa: PLC0415
    from ...ledger.inspection import inspect  # noqa: PLC0415

    try:
        found = inspect(ledger).processes
    except LedgerError:
        return None
    return next((one.pid for one in found if one.lives and one.pid != os.getpid()), None)


def now() -> datetime:
    """The time by which a person is told how long ago something was."""
    return datetime.now(UTC)
