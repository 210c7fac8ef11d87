"""The table `[auth]`: who may speak over HTTP. Tokens are references here; a server reads their values as it starts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .kinds import Name, Names, SecretReference
from .table import Table


class TokenTable(Table):
    """One token and whose it is. One identity may have several."""

    token: SecretReference
    """The token, as a secret reference: `env:NAME` or `file:PATH`."""
    subject: Name
    """Who speaks with it."""
    tenant: Name = "local"
    """Whose tools and calls these are."""
    client: Name = "http"
    """The program that has it; approvals tell clients of one subject apart."""
    scopes: Names = ()
    """What may be used; `*` is every scope except `approve` and `reconcile`."""


class AuthTable(Table):
    """Who may speak over HTTP. Without `mode`, whoever has the token that each start makes is `principals.local`."""

    mode: Literal["tokens", "none"] | None = None
    """`tokens`: those below. `none`: everybody who reaches the loopback address is `principals.local`."""
    tokens: Annotated[tuple[TokenTable, ...], Field(strict=False)] = ()
    """The tokens of mode `tokens`."""

    @model_validator(mode="after")
    def _tokens_go_with_their_mode(self) -> AuthTable:
        if self.mode == "tokens" and not self.tokens:
            raise ValueError("mode 'tokens' needs at least one [[auth.tokens]]")
        if self.tokens and self.mode != "tokens":
            raise ValueError("[[auth.tokens]] belong to mode = 'tokens'; state it, or remove them")
        return self
