"""`POST /callbacks/TOKEN`: a far side says that it is done. Nobody is asked who they are, and nothing said is read.

A token that was given to nobody gets the answer of any other path that is not there, as fast as a good one its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from . import replies

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope

PATH: Final = "/callbacks/"
BODY_MAX: Final = 65_536
BODY_S: Final = 5.0
"""So much of a body, in bytes and in seconds, is dropped before the answer: what is left unread resets a connection."""
Knock = Callable[[str], bool]


def nobody(token: str) -> bool:
    """No token was given to anybody."""
    del token
    return False


async def called_back(scope: Scope, receive: Receive, knock: Knock) -> Response:
    """The answer to a request beneath `/callbacks/`; `knock` is asked about its token."""
    if scope["method"] != "POST":
        return replies.wrong_method("POST")
    known = knock(scope["path"].removeprefix(PATH))
    with suppress(TimeoutError):  # whoever sends its body slowly is done all the same
        async with asyncio.timeout(BODY_S):
            await _drop(receive)
    return replies.heard() if known else replies.nothing_here()


async def _drop(receive: Receive) -> None:
    come = 0
    while come <= BODY_MAX:
        message = await receive()
        come += len(message.get("body", b""))
        if not message.get("more_body", False):
            return
