"""Who may speak over HTTP: from the token of a request to its principal, and to nobody where it is absent or wrong.

Only digests of tokens are kept here, and each is compared in constant time. A token stands in no message and no log.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...registry.principal import Principal
from ..config import ConfigError, Configuration, Problem
from ..secrets import SecretError, resolve

_SENDABLE = re.compile(r"[!-~]+")
_BEARER = re.compile(rb"bearer +([!-~]+) *", re.IGNORECASE)
_LONGEST: Final = 8_192
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class Doorman:
    """Knows principals by their tokens; `anybody` is who speaks where no token is asked for.

    What it knows is replaced whole when the configuration is read again.
    """

    known: tuple[tuple[bytes, Principal], ...]
    anybody: Principal | None = None

    def who(self, headers: Headers) -> Principal | None:
        """Whose request this is; None without the one right token."""
        if self.anybody is not None:
            return self.anybody
        given = [value for name, value in headers if name == b"authorization"]
        found = _BEARER.fullmatch(given[0][:_LONGEST]) if len(given) == 1 else None
        if found is None:
            return None
        digest = hashlib.sha256(found[1]).digest()
        who: Principal | None = None
        for known, principal in self.known:
            if hmac.compare_digest(known, digest):
                who = principal
        return who

    def present(self, principal: Principal) -> Principal | None:
        """What somebody who was let in once is now; None for whoever has no token any more."""
        identity = (principal.tenant, principal.subject, principal.client)
        known = [who for _, who in self.known] if self.anybody is None else [self.anybody]
        same = [who for who in known if (who.tenant, who.subject, who.client) == identity]
        return principal if principal in same else next(iter(same), None)

    def take(self, other: Doorman) -> None:
        """Know what another one knows, from the next request on."""
        self.known, self.anybody = other.known, other.anybody


def doorman_of(config: Configuration, local: Principal, made: str | None) -> Doorman:
    """The doorman of a configuration; `made` is the token of this start, where it is needed.

    Raises:
        ConfigError: public names without tokens; or a token is absent, unfit for a header, or another one's.
    """
    if config.auth.mode == "none":
        if config.server.allowed_hosts:
            said = "public names need tokens: with auth.mode 'none' whoever comes by them would be principals.local"
            raise ConfigError(config.path, [config.problem(("server", "allowed_hosts"), said)])
        return Doorman((), local)
    if config.auth.mode is None:
        return Doorman(((_digest(made or ""), local),))
    known: dict[bytes, Principal] = {}
    problems: list[Problem] = []
    for index, entry in enumerate(config.auth.tokens):
        place = ("auth", "tokens", index, "token")
        try:
            value = resolve(entry.token, config.path.parent).reveal()
        except SecretError as error:
            problems.append(config.problem(place, str(error)))
            continue
        digest = _digest(value)
        if not _SENDABLE.fullmatch(value):
            problems.append(config.problem(place, f"{entry.token}: expected visible ASCII, which a header can carry"))
        elif digest in known:
            problems.append(
                config.problem(place, f"{entry.token}: another entry has the same token; give each its own")
            )
        known[digest] = Principal(entry.tenant, entry.subject, entry.client, frozenset(entry.scopes), proof="token")
    if problems:
        raise ConfigError(config.path, problems)
    return Doorman(tuple(known.items()))


@contextmanager
def token_file(config: Configuration, port: int) -> Generator[tuple[Path, str] | None]:
    """A token for this start in a file that only this account can read; nothing where the configuration has its own."""
    if config.auth.mode is not None:
        yield None
        return
    path = config.ledger_path.with_name(f"{config.ledger_path.name}.http-{port}.token")
    token = secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(token)
    try:
        yield path, token
    finally:
        path.unlink(missing_ok=True)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
