"""How much runs at once in this process: per tool, per pool, in worker threads. Conflicts over resources are apart.

A slot is taken before T1 and given back when the handler has really ended, so that a handler that outlives its
deadline keeps its slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ..registry.contract import Contract, Rate
from ..registry.limits import RateState
from .settings import Pool


class Slot:
    """What one attempt occupies; released once."""

    def __init__(self, held: list[asyncio.Semaphore]) -> None:
        self._held = held

    def add(self, held: asyncio.Semaphore) -> None:
        """Another one that was acquired for this attempt."""
        self._held.append(held)

    def release(self) -> None:
        """Give everything back; a second time does nothing."""
        while self._held:
            self._held.pop().release()


class Capacity:
    """The semaphores of one process, made when a tool is first called."""

    def __init__(self, pools: Mapping[str, Pool], threads: int) -> None:
        self._stated: dict[str, Pool] = {}
        self._pools: dict[str, asyncio.Semaphore] = {}
        self._pool_rates: dict[str, RateState] = {}
        self.replace(pools)
        self._tool_rates: dict[tuple[str, Rate], RateState] = {}
        self._threads = asyncio.Semaphore(threads)
        self._tools: dict[tuple[str, int], asyncio.Semaphore] = {}

    def replace(self, pools: Mapping[str, Pool]) -> None:
        """Other pools from now on. One that stays as it was goes on counting; a changed one begins anew."""
        for name in {name for name, pool in self._stated.items() if pools.get(name) != pool}:
            self._pools.pop(name, None)
            self._pool_rates.pop(name, None)
        for name, pool in pools.items():
            if pool.concurrency is not None and name not in self._pools:
                self._pools[name] = asyncio.Semaphore(pool.concurrency)
            if pool.rate is not None and name not in self._pool_rates:
                self._pool_rates[name] = RateState(pool.rate)
        self._stated = dict(pools)

    def full(self, contract: Contract, *, blocking: bool) -> bool:
        """True if an attempt would have to wait."""
        return any(semaphore.locked() for semaphore in self._needed(contract, blocking=blocking))

    async def slot(self, contract: Contract, *, blocking: bool) -> Slot:
        """Wait, first come first served, for everything that an attempt occupies. Always taken in the same order."""
        held: list[asyncio.Semaphore] = []
        try:
            for semaphore in self._needed(contract, blocking=blocking):
                await semaphore.acquire()
                held.append(semaphore)
        except BaseException:
            Slot(held).release()
            raise
        return Slot(held)

    def start(self, contract: Contract, now: float) -> float:
        """Count one start against the rates of tool and pool; one that comes too early is told how long to wait."""
        rates = self._rates(contract)
        wait = max((rate.retry_after(now) for rate in rates), default=0.0)
        if wait == 0.0:
            for rate in rates:
                rate.take(now)
        return wait

    def _rates(self, contract: Contract) -> list[RateState]:
        limits, found = contract.limits, list[RateState]()
        if limits.rate is not None:
            found.append(self._tool_rates.setdefault((contract.name, limits.rate), RateState(limits.rate)))
        if limits.pool is not None and limits.pool in self._pool_rates:
            found.append(self._pool_rates[limits.pool])
        return found

    def _needed(self, contract: Contract, *, blocking: bool) -> list[asyncio.Semaphore]:
        needed: list[asyncio.Semaphore] = []
        limits = contract.limits
        if limits.concurrency is not None:
            key = (contract.name, limits.concurrency)
            needed.append(self._tools.setdefault(key, asyncio.Semaphore(limits.concurrency)))
        if limits.pool is not None and limits.pool in self._pools:
            needed.append(self._pools[limits.pool])
        if blocking:
            needed.append(self._threads)
        return needed
