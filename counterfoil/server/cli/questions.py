"""What `init` asks: a few questions, each with a default and each answer looked at before the next one is put."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from .clients import ALL, CLIENTS
from .screen import Screen

T = TypeVar("T")

EXAMPLE: Final = "example_tools"
NOBODY: Final = "none"
LONGEST: Final = 200
_NOTHING: Final = "nothing was written"
_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_HOST: Final = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]")


class Source(StrEnum):
    """Where the tools come from."""

    MODULE = "module"
    HTTP = "http"
    EXAMPLE = "example"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the file says of its owner."""

    name: str
    subject: str
    source: Source = Source.NOTHING
    module: str | None = None
    base: str = "https://orders.example"
    write: str = "approve"
    destructive: str = "approve"
    client: str = ALL

    @property
    def modules(self) -> tuple[str, ...]:
        """What stands in `[python] modules`."""
        found = EXAMPLE if self.source is Source.EXAMPLE else self.module
        return (found,) if found else ()

    @property
    def host(self) -> str:
        """What the guarded client may reach: a name, and its port where one is stated."""
        return urlsplit(self.base).netloc


def assumed(*, example: bool, client: str | None) -> Answers:
    """The answers of somebody who takes every default."""
    source = Source.EXAMPLE if example else Source.NOTHING
    return Answers("counterfoil", getpass.getuser(), source, client=client or ALL)


def asked(screen: Screen, folder: Path, defaults: Answers, *, client: str | None) -> Answers:
    """Ask the person at the terminal.

    Raises:
        CommandError: Ctrl-C or Ctrl-D instead of an answer.
    """
    ask = _Asker(screen)
    name = ask.until(f"A name for this server [{defaults.name}]: ", defaults.name, _short)
    subject = ask.until(f"Who are you to it [{defaults.subject}]: ", defaults.subject, _short)
    answers = replace(defaults, name=name, subject=subject)
    if answers.source is Source.NOTHING:
        answers = _with_source(ask, folder, answers)
    write = ask.verdict("A tool that writes: ask a person first, allow or deny [ask]: ", ("ask", "allow", "deny"))
    destructive = ask.verdict("A tool that destroys or pays: ask a person first or deny [ask]: ", ("ask", "deny"))
    if client is None:
        offered = ", ".join(CLIENTS)
        client = ask.until(f"Which client will use it ({offered}, {ALL} or {NOBODY}) [{ALL}]: ", ALL, _client)
    return replace(answers, write=write, destructive=destructive, client=client)


def _with_source(ask: _Asker, folder: Path, answers: Answers) -> Answers:
    question = "Where do its tools come from: a Python module, http, example or nothing yet [nothing]: "
    source = ask.until(question, "nothing", _source)
    if source is Source.MODULE:
        module = ask.until("Which module, such as my_tools (empty: none yet): ", "", lambda name: _module(folder, name))
        return replace(answers, source=source, module=module or None)
    if source is Source.HTTP:
        return replace(answers, source=source, base=ask.until(f"Its address [{answers.base}]: ", answers.base, _base))
    return replace(answers, source=source)


@dataclass(frozen=True, slots=True)
class _Asker:
    screen: Screen

    def until(self, question: str, otherwise: str, read: Callable[[str], T]) -> T:
        """Ask until an answer can be used; an empty one is `otherwise`."""
        while True:
            try:
                return read(self.screen.ask(question, otherwise=_NOTHING) or otherwise)
            except ValueError as error:
                self.screen.say(str(error), style="yellow")

    def verdict(self, question: str, words: tuple[str, ...]) -> str:
        """`ask` is the policy's `approve`."""
        word = self.until(question, "ask", lambda typed: _one_of(typed, words))
        return "approve" if word == "ask" else word


def _short(text: str) -> str:
    if len(text) > LONGEST or not text.isprintable():
        raise ValueError(f"Expected at most {LONGEST} characters that can be printed.")
    return text


def _one_of(typed: str, words: tuple[str, ...]) -> str:
    """The word, or the one that begins so."""
    fitting = [word for word in words if word.startswith(typed.lower())]
    if len(fitting) != 1:
        raise ValueError(f"Expected {', '.join(words[:-1])} or {words[-1]}, got {typed[:40]!r}.")
    return fitting[0]


def _source(typed: str) -> Source:
    return Source(_one_of("module" if typed.lower() == "python" else typed, tuple(Source)))


def _client(typed: str) -> str:
    if typed in (*CLIENTS, ALL, NOBODY):
        return typed
    return _one_of(typed, (*CLIENTS, ALL, NOBODY))


def _module(folder: Path, name: str) -> str:
    if not name:
        return name
    if not _MODULE.fullmatch(name):
        raise ValueError(f"Expected the dotted name of a Python module, such as my_tools, got {name[:40]!r}.")
    base = folder.joinpath(*name.split("."))
    if not (base.with_suffix(".py").is_file() or base.is_dir()):
        raise ValueError(f"There is no module {name} here yet: write it first, or leave this empty and add it later.")
    return name


def _base(typed: str) -> str:
    parts = urlsplit(typed)
    host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host.lower()) or parts.query or parts.fragment:
        raise ValueError("Expected an address such as https://orders.example, without a password or a query.")
    return typed.rstrip("/")
