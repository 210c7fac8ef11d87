"""Checks of the machine alone: the interpreter, the system, this process's streams, its clock, programs beside it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from .basis import Basis
from .finding import Finding, note, ok, problem

LEAST_PYTHON: Final = (3, 11)
TESTED_SYSTEMS: Final = frozenset({"linux"})
EARLIEST: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Before this the program did not exist, so a clock that says so is wrong."""
_STREAMS: Final = {0: "stdin", 1: "stdout"}
_PROGRAMS: Final = {"claude": "Claude Code", "code": "VS Code", "cursor": "Cursor", "codex": "Codex"}


def interpreter(_: Basis) -> Iterator[Finding]:
    """Python, and where it is: clients start exactly this one."""
    version = platform.python_version()
    if sys.version_info < LEAST_PYTHON:  # pragma: no cover (the package does not install there)
        yield problem("python", version, "install Python 3.11 or newer")
    else:
        yield ok("python", f"{platform.python_implementation()} {version}, {sys.executable}")


def system(_: Basis) -> Iterator[Finding]:
    """Whether this operating system is one that the tests ran on."""
    name = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if sys.platform in TESTED_SYSTEMS:
        yield ok("platform", name)
    else:
        yield note("platform", f"{name}: not tested yet", "tell us what does not work")


def streams(_: Basis) -> Iterator[Finding]:
    """Whether there is a stdin and a stdout to speak MCP over, and a person who could decide here."""
    closed = [name for number, name in _STREAMS.items() if not _is_open(number)]
    if closed:
        do = "start it with both open: MCP over stdio needs them"
        yield problem("streams", f"{' and '.join(closed)} cannot be used", do)
    else:
        yield ok("streams", "stdin and stdout can be used")
    if os.isatty(0):
        yield ok("terminal", "there is one: a person can decide here")
    else:
        yield note("terminal", "none here: nobody can decide from this process", "approve and reject in a terminal")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def clock(_: Basis) -> Iterator[Finding]:
    """Whether the wall clock can be right. What is recorded is UTC, whatever the time zone."""
    now = datetime.now(UTC)
    said = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < EARLIEST:
        yield problem("clock", f"{said} cannot be right", "set the clock: approvals and keys expire by it")
    else:
        yield ok("clock", said)


def sandboxes(_: Basis) -> Iterator[Finding]:
    """What confines a tool."""
    do = "register tools that you would run yourself"
    yield note("sandbox", "none in this version: a tool runs with all rights of this account", do)


def programs(_: Basis) -> Iterator[Finding]:
    """Clients whose commands are on the path; none is needed."""
    found = [title for program, title in _PROGRAMS.items() if shutil.which(program)]
    if found:
        yield ok("clients", f"{', '.join(found)} on the path; set up with: counterfoil doctor --client NAME")
    else:
        yield note("clients", "none with a command on the path", "set one up with: counterfoil doctor --client NAME")
