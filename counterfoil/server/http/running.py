"""`serve --transport http`: an open application, its token and its greeting around what is served."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import socket

from ...registry.principal import Principal
from ..app import App
from ..changes import Present
from ..config import Configuration
from ..reloading import keeping_current
from ..serve import count_of, opened, surface_of
from .doorman import doorman_of, token_file
from .edge import exchange_of
from .place import Place
from .serving import serve


async def serve_http(config: Path, listener: socket, place: Place) -> int:
    """Serve until a signal comes; the exit code.

    Raises:
        ConfigError: the configuration, a tool module that it names, or a token of it, cannot be used.
        LedgerError: the ledger cannot be opened.
    """
    async with opened(config) as (app, stop, bounds):
        surface = surface_of(app, exchange_of)
        with token_file(app.config, place.port) as made:
            token = made[1] if made else None
            doorman = doorman_of(app.config, app.local, token)

            def identify(config: Configuration, local: Principal) -> tuple[Present, Callable[[], None]]:
                fresh = doorman_of(config, local, token)
                return fresh.present, partial(doorman.take, fresh)

            with keeping_current(app, stop, surface.announce_tools_changed, identify):
                _greet(app, place, made[0] if made else None)
                return await serve(surface, listener, place, doorman, stop, bounds, app.runtime.callbacks.knock)


def _greet(app: App, place: Place, token: Path | None) -> None:
    """Say where we are, and where the token of this start is, but never the token."""
    lines = [f"serving MCP at {place.url}, {count_of(app)}, configuration {app.config.path}; stop with Ctrl-C"]
    if token is not None:
        lines.append(f"the token of this start is in {token}; clients send it as 'Authorization: Bearer TOKEN'")
    sys.stderr.write("".join(f"counterfoil: {line}\n" for line in lines))
    sys.stderr.flush()
