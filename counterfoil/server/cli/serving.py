"""The options of `serve`, read with argparse: this command must start without typer and rich."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from .exits import usage

TRANSPORTS = ("stdio", "http")
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Options:
    """What the line says; None leaves it to the configuration."""

    transport: str | None = None
    host: str | None = None
    port: int | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise usage(f"serve: {message}")


def options_of(words: Sequence[str]) -> Options:
    """What was asked for.

    Raises:
        CommandError: an unknown option or transport, or a port that is none.
        SystemExit: after `--help`.
    """
    parser = _Parser(
        prog="counterfoil serve",
        description="Serve MCP. Over stdio nothing but MCP is written to stdout; the log goes to stderr.",
        epilog="Example: counterfoil serve --config counterfoil.toml. "
        "--config F names the configuration (default: counterfoil.toml here or in a folder above).",
        allow_abbrev=False,
    )
    parser.add_argument("--transport", choices=TRANSPORTS, help="default: server.transport, else stdio")
    parser.add_argument("--host", help="over HTTP: 127.0.0.1, ::1 or localhost (default: server.host)")
    parser.add_argument("--port", type=_port, help="over HTTP; 0 takes a free one (default: server.port)")
    stated = parser.parse_args(words)
    return Options(stated.transport, stated.host, stated.port)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to {LAST_PORT}, got {text!r}")
    return int(text)
