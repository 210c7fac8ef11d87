"""Whether the far end of a connection has hung up, asked of the kernel: it knows before the event loop has looked.

The loop does not look at all while reading is paused, as with bytes that came before their turn.
"""

from __future__ import annotations

import select
import socket
from typing import Any, Final

POLLRDHUP: Final[int] = getattr(select, "POLLRDHUP", 0)
"""Linux alone tells of an end that still has unread bytes before it."""
_ENDED: Final[int] = POLLRDHUP | getattr(select, "POLLHUP", 0) | getattr(select, "POLLERR", 0)


def far_end_gone(connection: Any) -> bool:  # noqa: ANN401 (asyncio's socket, or any that has a fileno and a dup)
    """True if nobody is there any more, or only to listen: HTTP has no use for such an end."""
    if connection.fileno() < 0:
        return True
    return _polled(connection.fileno()) if POLLRDHUP else peeked(connection)


def _polled(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, POLLRDHUP)
    return any(events & _ENDED for _, events in poll.poll(0))


def peeked(connection: Any) -> bool:  # noqa: ANN401 (as above)
    """The same where there is nothing better: unread bytes hide an end until they are read."""
    try:
        with connection.dup() as view:
            view.setblocking(False)  # noqa: FBT003 (the socket's own name for it)
            return len(view.recv(1, socket.MSG_PEEK)) == 0
    except BlockingIOError:
        return False
    except OSError:
        return True
