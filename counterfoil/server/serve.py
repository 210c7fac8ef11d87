"""`counterfoil serve`: one MCP server over this process's stdin and stdout, from start to orderly end.

The wire is claimed before anything else happens, so that nothing but MCP can ever reach stdout.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any, Final

from .. import __version__
from ..ledger.errors import LedgerError
from ..registry.strict_json import Bounds
from ..tools.base import base_tools, instructions
from ..tools.base.schemas import CALL_VIEW
from .app import App, open_app
from .config import FILE_NAME, ConfigError, find
from .mcp import Surface
from .stdio import serve as serve_stdio
from .stopping import Stop, leave
from .wire import Wire, claim

USAGE: Final = 2
NO_LEDGER: Final = 4
ENVELOPE_BYTES: Final = 64_000
"""What a message may have beside its arguments."""
ENVELOPE_DEPTH: Final = 4


def serve(config_path: Path | None, transport: str) -> int:
    """Serve until the client goes or a signal comes; the exit code. Does not return on an orderly end.

    Raises:
        ValueError: a transport that this version does not have.
    """
    if transport != "stdio":
        raise ValueError(f"transport: expected stdio, got {transport!r}")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="counterfoil: %(message)s")
    path = config_path or find(Path.cwd())
    if path is None:
        return _complain(f"there is no {FILE_NAME} here or in a folder above; `counterfoil init` writes one", USAGE)
    wire = claim()
    try:
        code = asyncio.run(_serve(path, wire))
    except ConfigError as error:
        code = _complain(str(error), USAGE)
    except LedgerError as error:
        code = _complain(str(error), NO_LEDGER)
    return leave(code)


async def _serve(path: Path, wire: Wire) -> int:
    async with open_app(path, role="serve") as app:
        _greet(app, path, wire)
        stop = Stop(app.config.server.grace_s)
        stop.listen()
        limits = app.config.limits
        bounds = Bounds(bytes=limits.argument_bytes + ENVELOPE_BYTES, depth=limits.argument_depth + ENVELOPE_DEPTH)
        stopping = asyncio.create_task(_begin_stop(app, stop))
        try:
            return await serve_stdio(surface_of(app), wire, stop, bounds)
        finally:
            stopping.cancel()


def _greet(app: App, path: Path, wire: Wire) -> None:
    """One line for a person who started this by hand and would else wait in silence."""
    if os.isatty(wire.reader):
        tools = sum(contract.asked_about is None for contract in app.catalogue.contracts())
        said = f"serving MCP over stdio, {tools} tool{'' if tools == 1 else 's'}, configuration {path}"
        sys.stderr.write(f"counterfoil: {said}; stop with Ctrl-C\n")
        sys.stderr.flush()


async def _begin_stop(app: App, stop: Stop) -> None:
    await stop.wait()
    app.runtime.begin_stop(stop.grace_s)


def surface_of(app: App) -> Surface:
    """The MCP surface of an open application, for the principal that speaks over stdio."""
    server = app.config.server

    def principal_of(_ctx: Any) -> Any:  # noqa: ANN401 (the SDK's context; who speaks over stdio is configured)
        return app.local

    return Surface(
        name=server.name,
        version=__version__,
        instructions=instructions(sorted(app.shelf.categories(app.local))),
        base_tools=base_tools(app.runtime, app.shelf, show_locked=server.show_locked),
        desk=app.runtime,
        catalogue=app.shelf,
        principal_of=principal_of,
        call_view=CALL_VIEW,
        wait_s=server.wait_s,
        part_bytes=app.config.limits.output_model_bytes,
    )


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"counterfoil: {message}\n")
    sys.stderr.flush()
    return code
