"""`counterfoil serve`: one MCP server, over this process's stdin and stdout or over HTTP, from start to orderly end.

Over stdio the wire is claimed before any tool is loaded, so that nothing but MCP can ever reach stdout. What HTTP needs
is imported only where it is served.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from .. import __version__
from ..ledger.errors import LedgerError
from ..registry.principal import Principal
from ..registry.strict_json import Bounds
from ..tools.base import base_tools, instructions
from ..tools.base.schemas import CALL_VIEW
from .app import App, open_app
from .cli.serving import Options
from .config import FILE_NAME, ConfigError, find, load
from .mcp import Context, Surface
from .reloading import keeping_current
from .stdio import serve as serve_stdio
from .stopping import Stop, leave
from .surface.exchange import Exchange
from .wire import Wire, claim

USAGE: Final = 2
NO_LEDGER: Final = 4
ENVELOPE_BYTES: Final = 64_000
"""What a message may have beside its arguments."""
ENVELOPE_DEPTH: Final = 4


def serve(config_path: Path | None, options: Options) -> int:
    """Serve until the client goes or a signal comes; the exit code. Does not return on an orderly end."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="counterfoil: %(message)s")
    path = config_path or find(Path.cwd())
    if path is None:
        return _complain(f"there is no {FILE_NAME} here or in a folder above; `counterfoil init` writes one", USAGE)
    try:
        if (options.transport or load(path).server.transport) == "http":
            code = _over_http(path, options)
        else:
            wire = claim()
            code = asyncio.run(_over_stdio(path, wire))
    except ConfigError as error:
        code = _complain(str(error), USAGE)
    except LedgerError as error:
        code = _complain(str(error), NO_LEDGER)
    return leave(code)


async def _over_stdio(path: Path, wire: Wire) -> int:
    async with opened(path) as (app, stop, bounds):
        _greet(app, path, wire)
        surface = surface_of(app)
        with keeping_current(app, stop, surface.announce_tools_changed):
            return await serve_stdio(surface, wire, stop, bounds)


def _over_http(path: Path, options: Options) -> int:
    from .http.place import PlaceError, listen  # noqa: PLC0415 (over stdio nobody pays for HTTP)
    from .http.running import serve_http  # noqa: PLC0415 (as above)

    server = load(path).server
    host = server.host if options.host is None else options.host
    port = server.port if options.port is None else options.port
    try:
        listener, place = listen(host, port, server.allowed_hosts)
    except PlaceError as error:
        return _complain(str(error), USAGE)
    with listener:
        return asyncio.run(serve_http(path, listener, place))


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[tuple[App, Stop, Bounds]]:
    """The application, its orderly stop, and the bounds of a message."""
    async with open_app(path, role="serve") as app:
        stop = Stop(app.config.server.grace_s)
        stop.listen()
        limits = app.config.limits
        bounds = Bounds(bytes=limits.argument_bytes + ENVELOPE_BYTES, depth=limits.argument_depth + ENVELOPE_DEPTH)
        stopping = asyncio.create_task(_begin_stop(app, stop))
        try:
            yield app, stop, bounds
        finally:
            stopping.cancel()


def _greet(app: App, path: Path, wire: Wire) -> None:
    """One line for a person who started this by hand and would else wait in silence."""
    if os.isatty(wire.reader):
        said = f"serving MCP over stdio, {count_of(app)}, configuration {path}"
        sys.stderr.write(f"counterfoil: {said}; stop with Ctrl-C\n")
        sys.stderr.flush()


def count_of(app: App) -> str:
    """How many tools there are, in words."""
    tools = sum(contract.asked_about is None for contract in app.catalogue.contracts())
    return f"{tools} tool{'' if tools == 1 else 's'}"


async def _begin_stop(app: App, stop: Stop) -> None:
    await stop.wait()
    app.runtime.begin_stop(stop.grace_s)


def surface_of(app: App, exchange_of: Callable[[Context], Exchange] | None = None) -> Surface:
    """The MCP surface of an open application: over stdio for its own principal, else for that of each exchange."""
    server = app.config.server

    def principal_of(ctx: Context) -> Principal:
        return app.local if exchange_of is None else exchange_of(ctx).principal

    surface = Surface(
        name=server.name,
        version=__version__,
        instructions=lambda principal: instructions(sorted(app.shelf.categories(principal))),
        base_tools=base_tools(app.runtime, app.shelf, show_locked=server.show_locked),
        desk=app.runtime,
        catalogue=app.shelf,
        principal_of=principal_of,
        exchange_of=exchange_of or (lambda _ctx: None),
        call_view=CALL_VIEW,
        state_keys=app.ledger.request_state_keys(),
        state_s=app.config.approvals.valid_s,
        client_wait_s=app.config.approvals.client_wait_s,
        wait_s=server.wait_s,
        part_bytes=app.config.limits.output_model_bytes,
    )
    app.runtime.listen_to_runs(surface.run_changed)
    return surface


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"counterfoil: {message}\n")
    sys.stderr.flush()
    return code
