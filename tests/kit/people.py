"""A person at a client: reads its forms and answers them, once they may. What decides is the server's to say."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from mcp.client.session import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult

_CODE: Final = re.compile(r"the code ([0-9a-f]{6})")


@dataclass
class Person:
    """Says this word about whatever it reads; `may` is clear while it still thinks."""

    word: Literal["approve", "reject"] = "approve"
    read: list[str] = field(default_factory=list[str])
    may: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def quick(cls, word: Literal["approve", "reject"] = "approve") -> Person:
        """One that answers at once."""
        made = cls(word)
        made.may.set()
        return made

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.read.append(params.message)
        await self.may.wait()
        return self.answer(params.message)

    def answer(self, message: str) -> ElicitResult:
        """What it puts into a form with this text."""
        code = _CODE.search(message)
        assert code is not None, message
        return ElicitResult(action="accept", content={"decision": self.word, "code": code[1]})
