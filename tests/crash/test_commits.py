"""SIGKILL before and after every commit of one call's life, and again before and after every commit of its recovery.

The run is repeated with a kill one commit later each time, until it comes to its end. Of the states that a kill leaves,
equal ones (no commit and no effect lies between) are followed once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .kit import HAPPENED, READS, Forge, GoneError, Stage, assert_sound, recover

COMMITS_MAX = 40
CORES = 2
SENT_AGAIN = frozenset({"keyed", "keyed_probed"})


def lives(forge: Forge, stage: Stage, tool: str | None, **death: object) -> bool:
    """One server's life on a stage: its recovery, one call if asked for, an orderly end. False if it was killed."""
    try:
        server = forge.start(stage, **death).rest()
        if tool is not None:
            server.call(tool)
        server.rest().stop()
    except GoneError:
        return False
    return True


def deaths(forge: Forge, start: Stage, tool: str | None, folder: Path) -> Iterator[Stage]:
    """The different states that a kill at a commit leaves, in order; the last one is that of a life without a kill."""
    seen: set[str] = set()
    for number in range(1, COMMITS_MAX):
        for side in ("before", "after"):
            stage = start.copy(folder / f"{number}-{side}")
            ended = lives(forge, stage, tool, commit=number, side=side)
            if (mark := fingerprint(stage)) not in seen:
                seen.add(mark)
                yield stage
            if ended:
                return
    raise AssertionError(f"it makes more than {COMMITS_MAX} commits")


def fingerprint(stage: Stage) -> str:
    """What is committed and what has happened."""
    digest = hashlib.sha256()
    for path in (stage.ledger, stage.ledger.with_name(f"{stage.ledger.name}-wal")):
        digest.update(path.read_bytes() if path.exists() else b"none")
    return f"{digest.hexdigest()} {len(stage.world.effects())}"


def follow(forge: Forge, stage: Stage, folder: Path) -> int:
    """Kill the recovery of a killed call at each of its commits, and recover from that; how many cases there were."""
    assert_sound(stage)
    cases = 0
    for again in deaths(forge, stage, None, folder):
        assert lives(forge, again, None)
        assert_end(again)
        cases += 1
    return cases


def assert_end(stage: Stage) -> None:
    """The invariants, and that nothing is left under way by itself."""
    assert_sound(stage)
    for row in stage.calls():
        assert row["state"] in {"settled", "awaiting_reconciliation"}
        if row["state"] == "settled" and row["tool"] not in READS:
            assert row["outcome"] in HAPPENED


@pytest.mark.parametrize("tool", ["plain", "probed", "keyed"])
def test_two_kills_at_any_two_commits_never_make_two_effects(
    forge: Forge, stage: Stage, tmp_path: Path, tool: str
) -> None:
    first = list(deaths(forge, stage, tool, tmp_path / "first"))
    with ThreadPoolExecutor(CORES) as pool:
        cases = pool.map(lambda n: follow(forge, first[n], tmp_path / f"second-{n}"), range(len(first)))
    assert sum(cases) > len(first)


@pytest.mark.parametrize("tool", ["keyed_probed", "natural", "open_read", "closed_read"])
def test_a_kill_at_any_commit_is_recovered_from(forge: Forge, stage: Stage, tmp_path: Path, tool: str) -> None:
    for killed in deaths(forge, stage, tool, tmp_path / "first"):
        assert_sound(killed)
        recover(forge, killed)
        assert_end(killed)
        picture = killed.picture()
        recover(forge, killed)
        assert killed.picture() == picture
