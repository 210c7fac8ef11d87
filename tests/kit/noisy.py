"""Tools that talk where only the protocol may: by print, by descriptor, by a child that inherits stdout, at import."""

from __future__ import annotations

import os
import subprocess
import sys

from counterfoil import tool

WORDS = ("said-at-import", "said-by-print", "said-by-descriptor", "said-by-child", "said-by-log")
print(WORDS[0])  # noqa: T201 (what is tested)


@tool(effect="read", open_world=False)
async def noisy_print() -> int:
    """Print, to what Python calls stdout, twice."""
    print(WORDS[1], flush=True)  # noqa: T201 (what is tested)
    sys.__stdout__.write(f"{WORDS[1]}\n")  # type: ignore[union-attr] # pyright: ignore[reportOptionalMemberAccess] (a server has one)
    return 1


@tool(effect="read", open_world=False)
async def noisy_descriptor() -> int:
    """Write to descriptor 1."""
    return os.write(1, f"{WORDS[2]}\n".encode())


@tool(effect="read", open_world=False)
def noisy_child() -> int:
    """Start a child that inherits stdout, and one that reads stdin to its end."""
    subprocess.run([sys.executable, "-c", f"print({WORDS[3]!r}); import sys; sys.stdin.read()"], check=True, timeout=20)
    return 1


@tool(effect="read", open_world=False)
def noisy_log() -> int:
    """Write as a C library does: through a descriptor of its own onto descriptor 1."""
    with os.fdopen(os.dup(1), "w") as stream:
        return stream.write(f"{WORDS[4]}\n")
