"""A warm parent that forks servers: `python -m tests.crash.zygote FD CONFIG`; FD is one end of a socket.

Each request comes with the child's end of a socket of its own and is answered with the child's process id. The parent
opens an application of its own once, closes it, and is single-threaded from then on: a fork is as good as a start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

from .child import live, warm_up

LIFE_LIMIT_S: Final = 55
REQUEST_BYTES: Final = 65_536


def main(control: socket.socket) -> None:
    """Serve until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, handles, _, _ = socket.recv_fds(control, REQUEST_BYTES, 1)
        if not data:
            return
        request: dict[str, Any] = json.loads(data)
        process_id = os.fork()
        if process_id == 0:
            control.close()
            _be_child(handles[0], request)
        os.close(handles[0])
        control.sendall(json.dumps({"pid": process_id}).encode() + b"\n")


def _be_child(handle: int, request: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(LIFE_LIMIT_S)
    os.environ["WORLD"] = request["world"]
    log = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        with socket.socket(fileno=handle) as channel:
            live(channel, request)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    warm_up(Path(sys.argv[2]))
    main(socket.socket(fileno=int(sys.argv[1])))
