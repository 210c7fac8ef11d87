"""The options of `serve`, read with argparse: this command must start without typer and rich."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from .exits import usage

TRANSPORTS = ("stdio",)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise usage(f"serve: {message}")


def transport_of(options: Sequence[str]) -> str:
    """The transport that was asked for.

    Raises:
        CommandError: an unknown option or transport.
        SystemExit: after `--help`.
    """
    parser = _Parser(
        prog="counterfoil serve",
        description="Serve MCP. Over stdio nothing but MCP is written to stdout; the log goes to stderr.",
        epilog="Example: counterfoil serve --config counterfoil.toml. "
        "--config F names the configuration (default: counterfoil.toml here or in a folder above).",
        allow_abbrev=False,
    )
    parser.add_argument("--transport", choices=TRANSPORTS, default=TRANSPORTS[0], help="default: %(default)s")
    chosen: str = parser.parse_args(options).transport
    return chosen
