"""The kinds of values that the configuration has beyond JSON's own: secret references, globs, pointers, rates, URLs.

Each is a checked string; what it means is decided where it is used. A secret's own text is never put in a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ...registry.contract import Rate
from ...registry.predicates import Op, predicate
from ...registry.vocabulary import Assurance, Effect

_SECRET = re.compile(r"(?:env:[A-Za-z_][A-Za-z0-9_]*|file:.+)")
_GLOB = re.compile(r"[A-Za-z0-9_*?\[\]!.:-]{1,128}")
_RATE = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})?(s|m|h)")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_PUBLIC = re.compile(r"https?://[A-Za-z0-9.\[\]:-]{1,255}(?:/[A-Za-z0-9._~-]+)*")
_APPROVER = re.compile(r"(?:os:)?\S+")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
SQLITE = "sqlite+aiosqlite:///"


def _fullmatch(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"expected {expected}")
        return value

    return AfterValidator(check)


def read_rate(text: str) -> Rate:
    """`20/s`, `100/m`, `5/10s`: a number of starts in a time.

    Raises:
        ValueError: it has another form.
    """
    found = _RATE.fullmatch(text)
    if not found:
        raise ValueError("expected a rate such as 20/s, 100/m or 5/10s")
    count, times, unit = found.groups()
    return Rate(int(count), int(times or 1) * _SECONDS[unit])


def _check_rate(text: str) -> str:
    read_rate(text)
    return text


def _check_ledger_url(url: str) -> str:
    if not url.startswith(SQLITE):
        raise ValueError(f"expected {SQLITE}PATH")
    path = url.removeprefix(SQLITE)
    if not path.strip("/") or "?" in path or path.startswith(":memory:"):
        raise ValueError(f"expected a file after {SQLITE}, without parameters: the ledger outlives the process")
    return url


def as_many(value: object) -> object:
    """One string stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _check_public_url(url: str) -> str:
    if url and not _PUBLIC.fullmatch(url):
        raise ValueError("expected an address such as https://tools.example, without a slash at its end")
    return url


def asks_somebody(assurance: Assurance) -> Assurance:
    """Refuse `none`: a rule that asks for an approval says whose."""
    if assurance is Assurance.NONE:
        raise ValueError("expected 'client', 'operator' or 'second_person'")
    return assurance


def _check_predicate(tests: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each test is built as the policy will build it, so that what it could not use is told at its line."""
    for name, value in tests.items():
        predicate("", name, value)
    if not tests:
        raise ValueError(f"expected at least one of {', '.join(Op)}")
    return tests


SecretReference = Annotated[str, _fullmatch(_SECRET, "a secret reference, env:NAME or file:PATH")]
Glob = Annotated[str, _fullmatch(_GLOB, "a name or a glob with *, ? or [...]")]
ModuleName = Annotated[str, _fullmatch(_MODULE, "the dotted name of a Python module")]
Approver = Annotated[str, _fullmatch(_APPROVER, "a subject, or os:NAME for an account of this machine")]
RateText = Annotated[str, AfterValidator(_check_rate)]
PublicUrl = Annotated[str, AfterValidator(_check_public_url)]
LedgerUrl = Annotated[str, AfterValidator(_check_ledger_url)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Pointer = Annotated[str, _fullmatch(_POINTER, "a JSON Pointer such as /amount")]
Predicate = Annotated[dict[str, Any], AfterValidator(_check_predicate)]

WordOfEffect = Annotated[Effect, Field(strict=False)]

Window = Annotated[float, Field(ge=1, le=315_360_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=315_360_000, allow_inf_nan=False)]
Wait = Annotated[float, Field(ge=0, le=45, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

Names = Annotated[tuple[Name, ...], Field(strict=False)]
Globs = Annotated[tuple[Glob, ...], Field(strict=False), BeforeValidator(as_many)]
Secrets = Annotated[tuple[SecretReference, ...], Field(strict=False)]
Modules = Annotated[tuple[ModuleName, ...], Field(strict=False)]
Approvers = Annotated[tuple[Approver, ...], Field(strict=False)]
