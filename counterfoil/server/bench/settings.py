"""How much is measured: the sizes of a full run and of a quick one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of one run. `search_data` is a folder with labelled queries, for the quality of the search."""

    rounds: int = 5
    calls: int = 240
    single_calls: int = 60
    ledger_rounds: int = 5
    ledger_calls: int = 800
    starts: int = 5
    tools: int = 10_000
    queries: int = 24
    search_rounds: int = 3
    old_calls: int = 20_000
    runs: int = 48
    single_runs: int = 6
    chain_rounds: int = 5
    long_steps: int = 2_000
    search_data: Path | None = None

    def with_rounds(self, rounds: int) -> Settings:
        """The same with so many rounds of everything."""
        return replace(
            self, rounds=rounds, ledger_rounds=rounds, search_rounds=rounds, starts=rounds, chain_rounds=rounds
        )


FULL: Final = Settings()
QUICK: Final = Settings(
    rounds=2,
    calls=48,
    single_calls=12,
    ledger_rounds=2,
    ledger_calls=64,
    starts=1,
    tools=400,
    queries=12,
    search_rounds=2,
    old_calls=400,
    runs=16,
    single_runs=1,
    chain_rounds=2,
    long_steps=50,
)
"""To see that it works; its figures are rough."""
