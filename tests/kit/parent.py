"""A client in a process of its own, to be killed: starts a server, says its process id, and has a call in flight.

python -m tests.kit.parent FOLDER TOOL REF
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.kit.workshop import Workshop
from tests.kit.world import World


async def main(folder: Path, tool: str, ref: str) -> None:
    """Until somebody kills this process."""
    shop = Workshop(folder, World(folder / "world.sqlite"))
    async with shop.serve(program=(sys.executable, "-m", "counterfoil")) as served:
        sys.stdout.write(f"{served.process.pid}\n")
        sys.stdout.flush()
        await served.call(tool, {"ref": ref})


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
