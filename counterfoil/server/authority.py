"""Who is known by a configuration, and with which scopes: what a grant is measured by when it is used.

Over stdio and at the command line it is `principals.local`; over HTTP, those of `[[auth.tokens]]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry.principal import Principal

if TYPE_CHECKING:
    from ..runtime.parts import ScopesNow
    from .config import Configuration


def scopes_of(config: Configuration, *, embeds: bool = False) -> ScopesNow:
    """Which scopes a principal has by a configuration: None if its subject is not known any more.

    A subject may have several entries: those of its client count, and where it has none, all of its own. A program that
    `embeds` vouches for principals of its own making, as far as no token of the configuration would be theirs.
    """
    local = (config.principals.local.tenant, config.principals.local.subject)
    by_client: dict[tuple[str, str, str], frozenset[str]] = {}
    by_subject: dict[tuple[str, str], frozenset[str]] = {}
    for entry in config.auth.tokens if config.auth.mode == "tokens" else ():
        subject, client, scopes = (
            (entry.tenant, entry.subject),
            (entry.tenant, entry.subject, entry.client),
            entry.scopes,
        )
        by_subject[subject] = by_subject.get(subject, frozenset()).union(scopes)
        by_client[client] = by_client.get(client, frozenset()).union(scopes)

    def scopes_now(who: Principal) -> frozenset[str] | None:
        subject = (who.tenant, who.subject)
        if who.proof is None and subject == local:
            return frozenset(config.principals.local.scopes)
        if embeds and (who.proof is None or not by_subject):
            return who.scopes
        return by_client.get((*subject, who.client), by_subject.get(subject)) if who.proof is not None else None

    return scopes_now
