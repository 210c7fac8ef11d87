"""A process that has everything imported and forks: each fork becomes one `counterfoil` command, as if freshly started.

Importing takes seconds of a busy machine, and the cases start dozens of servers. What a fork does from there is what
the console script does. Ends when its stdin does.

python -m tests.kit.zygote SOCKET
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from types import FrameType
from typing import Final, NoReturn

import counterfoil.server.cli.commands
import counterfoil.server.cli.ledger_commands
import counterfoil.server.http.running
import counterfoil.server.serve
from counterfoil.server.cli import main
from tests.kit.wanted import Wanted

IMPORTED: Final = (
    counterfoil.server.cli.commands,
    counterfoil.server.cli.ledger_commands,
    counterfoil.server.http.running,
    counterfoil.server.serve,
)
"""What takes the time: named here so that nobody takes the imports for unused."""
MESSAGE: Final = 1 << 20
STANDARD: Final = 3


def serve(path: str) -> None:
    """Fork for every connection, and tell each how its fork ended."""
    asked: dict[int, socket.socket] = {}
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)
    signal.signal(signal.SIGCHLD, _awake)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(path)
        listener.listen()
        os.write(1, b"ready\n")
        for source in (0, wake_in, listener):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if 0 in ready:
                return
            if wake_in in ready:
                os.read(wake_in, 4096)
                _report(asked)
            if listener in ready:
                connection, _ = listener.accept()
                pid = _fork(connection, [listener, *asked.values()], (wake_in, wake_out))
                asked[pid] = connection
                connection.sendall(f"{pid}\n".encode())


def _awake(_number: int, _frame: FrameType | None) -> None:
    """Nothing: the wake-up descriptor says it."""


def _report(asked: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with asked.pop(pid) as connection:
            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _fork(connection: socket.socket, others: list[socket.socket], wake: tuple[int, int]) -> int:
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, STANDARD)
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in (connection, *others):
            other.close()
        for number in wake:
            os.close(number)
        _become(Wanted.parse(message), descriptors)
    for number in descriptors:
        os.close(number)
    return pid


def _become(wanted: Wanted, descriptors: list[int]) -> NoReturn:
    code = 1
    try:
        for standard, number in enumerate(descriptors):
            os.dup2(number, standard)
            os.close(number)
        os.environ.clear()
        os.environ.update(wanted.environment)
        time.tzset()
        os.chdir(wanted.folder)
        code = main(wanted.arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 (as the interpreter does at the end of a program)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    serve(sys.argv[1])
