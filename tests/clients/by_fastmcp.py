"""Calls tools through FastMCP's client, in a Python that has it: one line of JSON for each call asked for.

python by_fastmcp.py TARGET CALLS, both JSON: TARGET is `{"command", "cwd", "env"}` or `{"url", "token"}`, and CALLS is
`[[name, arguments], ...]`. A name that is null lists the tools.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found]  # in the Python that runs this, not in the tests' own
from fastmcp.client.transports import (  # type: ignore[import-not-found]
    StdioTransport,
    StreamableHttpTransport,
)


def transport(target: dict[str, Any]) -> Any:
    if "url" in target:
        return StreamableHttpTransport(target["url"], headers={"Authorization": f"Bearer {target['token']}"})
    command, *arguments = target["command"]
    return StdioTransport(command, arguments, env=target["env"], cwd=target["cwd"])


async def main(target: dict[str, Any], calls: list[Any]) -> None:
    async with Client(transport(target)) as client:
        for name, arguments in calls:
            if name is None:
                answer: Any = [tool.name for tool in await client.list_tools()]
            else:
                result = await client.call_tool(name, arguments, raise_on_error=False)
                answer = {"body": result.structured_content, "error": result.is_error}
            sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
