"""Checks of what the configuration says: that it is right, that its tools can be imported, that its secrets resolve."""

from __future__ import annotations

import contextlib
import getpass
import sys
from collections.abc import Iterator
from typing import cast

from ..secrets import SecretError, resolve
from .basis import Basis
from .finding import Finding, note, ok, problem


def configuration(basis: Basis) -> Iterator[Finding]:
    """Found and valid; else each problem with its line."""
    if basis.path is None:
        yield problem("configuration", basis.problems[0], "`counterfoil init` writes one, --config F names one")
    elif basis.configuration is None:
        for text in basis.problems:
            yield problem(
                "configuration", f"{basis.path}: {text}", "correct it; all keys: docs/reference/configuration.md"
            )
    else:
        yield ok("configuration", str(basis.path))


def tools(basis: Basis) -> Iterator[Finding]:
    """Every tool module, imported as a start would; what they print goes to stderr."""
    from ..app import read_tools  # noqa: PLC0415 (a broken tool room must not stop the other checks)
    from ..config import ConfigError  # noqa: PLC0415

    if basis.path is None or basis.configuration is None:
        yield note("tools", "not looked at without a right configuration")
        return
    try:
        with contextlib.redirect_stdout(sys.stderr):
            offered = read_tools(basis.path)
    except ConfigError as error:
        for found in error.problems:
            yield problem("tools", str(found), "see: counterfoil check")
        return
    listed = [contract.name for contract in offered.catalogue.contracts() if contract.asked_about is None]
    if listed:
        yield ok("tools", f"{len(listed)} registered; policy and its tests: counterfoil check")
    else:
        yield note(
            "tools", "none is registered", "add a module to [python] modules; `counterfoil init --example` has some"
        )


def secrets(basis: Basis) -> Iterator[Finding]:
    """Whether each reference has a value now, in this process; the value is never shown."""
    if basis.path is None or not basis.secrets:
        yield ok("secrets", "no references")
        return
    for reference in basis.secrets:
        try:
            resolve(reference, basis.path.parent)
        except SecretError as error:
            yield problem("secrets", str(error), "a client starts the server with its own variables, not this shell's")
        else:
            yield ok("secrets", f"{reference} resolves here")


def strengths(basis: Basis) -> Iterator[Finding]:
    """Which strengths a decision can have here, and what each is worth."""
    said = "depends on the client: one that shows forms is asked, about reversible writes of its own user alone"
    yield note("strength client_attested", said, "others decide at the command line")
    yield ok(
        "strength same_user",
        f"yes, as os:{getpass.getuser()}: stops a model that speaks MCP, not a program with a shell on this account",
    )
    yield _tokens(basis)
    for name in ("oidc", "passkey"):
        yield note(f"strength {name}", "not in this version")
    yield note("assurance second_person", *_second_person(basis))


def _tokens(basis: Basis) -> Finding:
    count = _configured_tokens(basis)
    if count:
        return ok("strength token", f"{count} configured under [[auth.tokens]], for requests over HTTP")
    return note("strength token", "no: no tokens are configured", 'needs [auth] mode "tokens", over HTTP')


def _configured_tokens(basis: Basis) -> int:
    auth = basis.table("auth")
    tokens = auth.get("tokens") if auth.get("mode") == "tokens" else None
    return len(cast("list[object]", tokens)) if isinstance(tokens, list) else 0


def _second_person(basis: Basis) -> tuple[str, str]:
    what = "cannot be met: it needs two identities proven by token, oidc or passkey"
    if _configured_tokens(basis) > 1:
        what = "can be met by two of [[auth.tokens]], where every rule that asks says over_mcp"
        return what, "who decides holds the scope approve, and has a client that shows forms"
    return what, "such calls wait; use 'operator'"
