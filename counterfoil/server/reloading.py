"""SIGHUP: the configuration is read again and takes effect in one step, or everything stays and stderr says why.

What is read is judged elsewhere, in a thread; it takes effect here, on the loop, between two steps of any call. A call
that was not sent yet is decided anew. Where the process's terminal has gone, SIGHUP means that, and asks for a stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import TypeAlias

from ..registry.contract import RESERVED_ENDINGS
from ..registry.principal import Principal
from .app import App, local_principal, settings_of
from .authority import scopes_of
from .changes import Announce, Changes, Present
from .config import ConfigError, Configuration
from .limits import budgets_of
from .rereading import Reread, reread
from .stopping import Cause, Stop
from .surface.answers import log_failure

Identify: TypeAlias = Callable[[Configuration, Principal], tuple[Present, Callable[[], None]]]
"""Who may speak by a configuration and its local principal, and what puts that in force; raises ConfigError."""


def only_local(_config: Configuration, local: Principal) -> tuple[Present, Callable[[], None]]:
    """Over stdio there is nobody else."""
    return lambda _principal: local, lambda: None


@contextmanager
def keeping_current(app: App, stop: Stop, announce: Announce, identify: Identify = only_local) -> Generator[None]:
    """Announce what changes in the catalogue, and heed SIGHUP where there is one."""
    with closing(Changes(app.shelf, announce)) as changes:
        if sys.platform == "win32":
            yield
            return
        reloader = _Reloader(app, changes, identify)
        terminals = _terminals()

        def heed() -> None:
            if all(map(os.isatty, terminals)):
                reloader.asked.set()
            else:
                stop.ask(Cause.SIGNAL)

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, heed)
        running = loop.create_task(reloader.run())
        try:
            yield
        finally:
            running.cancel()
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # an orderly stop is not cut short by a late one


def _terminals() -> list[int]:
    return [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]


class _Reloader:
    """Reads again whenever it is asked; what is asked meanwhile is one more reading."""

    def __init__(self, app: App, changes: Changes, identify: Identify) -> None:
        self.asked = asyncio.Event()
        self._app = app
        self._changes = changes
        self._identify = identify

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            try:
                await self._reload()
            except ConfigError as error:
                _say(*str(error).splitlines(), "nothing was changed: the configuration of before stays in force")
            except Exception as error:  # noqa: BLE001 (where a request of the operator enters: serving goes on)
                log_failure("reading the configuration again", error)

    async def _reload(self) -> None:
        app = self._app
        found = await asyncio.to_thread(reread, app.config, app.catalogue.entries(), app.outbound)
        local = local_principal(found.config)
        present, admit = self._identify(found.config, local)
        _take(app, found, local)
        admit()
        self._changes.view_changed(present)
        _say(*(f"{app.config.path}: {problem}" for problem in found.restart), _summary(found))


def _take(app: App, found: Reread, local: Principal) -> None:
    """Put it in force; there is no await in here, so that nobody sees half of it."""
    config = found.config
    app.config, app.local = config, local
    app.shelf.policy = found.policy
    app.runtime.take(found.policy, settings_of(config, serves=True), budgets_of(config.budgets), scopes_of(config))
    app.outbound.allow(found.hosts, config.limits.output_bytes)
    app.catalogue.take_plans(())
    for name in found.gone:
        app.catalogue.remove(name)
    for entry in found.come:
        app.catalogue.register(entry.contract, entry.adapter)
    app.catalogue.take_plans(found.plans)


def _summary(found: Reread) -> str:
    come = {entry.contract.name for entry in found.come if entry.contract.asked_about is None}
    gone = {name for name in found.gone if not name.endswith(RESERVED_ENDINGS)}
    counts = f"{len(come - gone)} came, {len(come & gone)} changed, {len(gone - come)} went"
    return f"the configuration was read again and is in force; described tools: {counts}"


def _say(*lines: str) -> None:
    with suppress(OSError, ValueError):  # whoever started it may have closed stderr
        sys.stderr.write("".join(f"counterfoil: {line}\n" for line in lines))
        sys.stderr.flush()
