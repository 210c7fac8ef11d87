"""SIGKILL before and after every commit of a run's life, and again at the commits of its recovery.

A life is always the same: open the ledger, take up what is there, ask for the run by its key, decide, tell what is
unknown, stop. The first kill is at every commit. The second is after every commit for the states in `STATES`, and
at a seeded sample for the others; with `COUNTERFOIL_WHOLE_SQUARE=1` it is at every commit for all of them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from .kit import Forge, Stage
from .run_kit import (
    assert_ended,
    assert_kept,
    assert_run_sound,
    calls_of,
    effects_of,
    lives,
    settled,
    stage_of_run,
)

CORES: Final = 2
COMMITS: Final = 24
"""How many commits a life makes on a quiet machine; on a busy one facts share them otherwise."""
COMMITS_MAX: Final = 80
SAMPLE: Final = 1
SAMPLED_UP_TO: Final = 24
SHARES: Final = 3
"""Into how many tests the commits of one recovery are dealt, so that none takes long on a busy machine."""
SIDES: Final = ("before", "after")
WHOLE_SQUARE: Final = os.environ.get("COUNTERFOIL_WHOLE_SQUARE") == "1"
Kept = dict[str, tuple[Any, ...]]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return stage_of_run(tmp_path / "stage")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CORES) as pool:
        yield pool


def assert_survives(forge: Forge, stage: Stage, before: Kept, said: str) -> None:
    """What a kill left is sound, keeps what was settled, and is seen through by the next life."""
    try:
        assert_run_sound(stage)
        assert_kept(stage, before)
        kept = settled(stage)
        assert lives(forge, stage)
        assert_kept(stage, kept)
        assert_ended(stage)
    except AssertionError as error:
        log = (stage.folder / "log").read_text()[-2_000:]
        raise AssertionError(f"{said}: {error}\n{log}") from error


def killed_again(forge: Forge, start: Stage, number: int, side: str) -> bool:
    """A second kill on a copy of what a first one left, and the life after it; False if it came to its end before."""
    name = f"{side}-{number}"
    stage = start.copy(start.folder.parent / f"{start.folder.name}-{name}")
    ended = lives(forge, stage, commit=number, side=side)
    assert_survives(forge, stage, settled(start), f"killed again {name}")
    shutil.rmtree(stage.folder)
    return not ended


def killed_everywhere(
    forge: Forge, start: Stage, side: str, pool: ThreadPoolExecutor, *, first: int = 1, each: int = 1
) -> int:
    """A second kill at every commit of the recovery, or at one of so many; the number that nothing came to."""
    for number in range(first, COMMITS_MAX, each * CORES):
        numbers = range(number, number + each * CORES, each)
        work = [pool.submit(killed_again, forge, start, one, side) for one in numbers]
        ends = [done.result() for done in work]
        if not all(ends):
            return number
    raise AssertionError(f"a recovery makes more than {COMMITS_MAX} commits")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_a_run_killed_at_a_commit_and_again_in_its_recovery_has_each_effect_once(
    forge: Forge, stage: Stage, pool: ThreadPoolExecutor, number: int, side: str
) -> None:
    lives(forge, stage, commit=number, side=side)
    if WHOLE_SQUARE:
        killed_everywhere(forge, stage, "before", pool)
        killed_everywhere(forge, stage, "after", pool)
    choose = random.Random(f"{number} {side}")
    numbers = choose.sample(range(1, SAMPLED_UP_TO + 1), SAMPLE) if side == "after" else []
    work = [pool.submit(killed_again, forge, stage, one, choose.choice(SIDES)) for one in numbers]
    last = stage.copy(stage.folder.parent / "last")
    pool.submit(assert_survives, forge, last, {}, "killed once").result()
    for done in work:
        done.result()


def test_no_commit_of_a_life_comes_after_those(forge: Forge, tmp_path: Path) -> None:
    for number in range(COMMITS + 1, COMMITS_MAX):
        stage = stage_of_run(tmp_path / f"{number}")
        ended = lives(forge, stage, commit=number, side="after")
        assert_survives(forge, stage, {}, f"killed after commit {number}")
        if ended:
            return
    raise AssertionError(f"a life makes more than {COMMITS_MAX} commits")


def unknown_beside_another(forge: Forge, stage: Stage) -> None:
    """Killed after the effect of a write that only a person knows of, while another one was under way."""
    stage.world.set("die-plain-answer")
    assert not lives(forge, stage)
    assert effects_of(stage)["plain"] == 1
    assert {row["state"] for row in calls_of(stage) if row["step"] in {"plain", "keyed"}} >= {"dispatched"}


def item_to_be_sent_again(forge: Forge, stage: Stage) -> None:
    """Killed after the effect of one item."""
    stage.world.set("die-second-answer")
    assert not lives(forge, stage)
    assert effects_of(stage)["second"] == 1


STATES: Final[tuple[tuple[Callable[[Forge, Stage], None], str], ...]] = (
    (unknown_beside_another, "after"),
    (item_to_be_sent_again, "after"),
)
"""Before a commit all is as it was after the one before, unless an effect lies between."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize(("make", "side"), STATES)
def test_a_second_kill_at_any_commit_of_the_recovery_leaves_each_effect_once(
    forge: Forge,
    stage: Stage,
    pool: ThreadPoolExecutor,
    make: Callable[[Forge, Stage], None],
    side: str,
    share: int,
) -> None:
    make(forge, stage)
    assert_run_sound(stage)
    assert killed_everywhere(forge, stage, side, pool, first=share + 1, each=SHARES) > SHARES
