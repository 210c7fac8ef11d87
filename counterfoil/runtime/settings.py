"""The numbers that the runtime works with; each has the default that the configuration reference states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..registry.contract import Rate


@dataclass(frozen=True, slots=True)
class Pool:
    """Capacity shared by several tools."""

    concurrency: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds, counts and bytes."""

    duplicate_window_s: float = 900
    lease_s: float = 30
    reads_before: bool = False
    everything_listed: bool = False
    proposal_valid_s: float = 86_400
    execute_within_s: float = 900
    pending_max: int = 20
    plan_steps: int = 5_000
    authority_s: float = 86_400
    argument_bytes: int = 1_000_000
    argument_depth: int = 64
    output_model_bytes: int = 60_000
    output_bytes: int = 64_000_000
    for_each: int = 200
    max_parallel: int = 8
    refusals_per_minute: int = 60
    queue_wait_s: float = 3_600
    carries_on: bool = True
    public_url: str = ""
    pools: Mapping[str, Pool] = field(default_factory=dict[str, Pool])
