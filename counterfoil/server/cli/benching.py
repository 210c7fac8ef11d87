"""`bench`: measures, shows, and says whether the targets are met."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from .exits import Exit, usage
from .invocation import Invocation
from .screen import Screen

if TYPE_CHECKING:
    from ..bench.rounds import Tell
    from ..bench.settings import Settings


SEARCH_FILES: Final = ("live_catalog.jsonl", "live_queries.jsonl")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `bench`, as they stand on the line."""

    only: Sequence[str] = ()
    rounds: int | None = None
    quick: bool = False
    strict: bool = False
    svg: Path | None = None
    search_data: Path | None = None


def bench(invocation: Invocation, options: Options) -> int:
    """Measure what was asked for; the code is 1 only where `strict` was asked for and a target is missed."""
    from ..bench.plot import svg  # noqa: PLC0415
    from ..bench.run import MEASUREMENTS, bench  # noqa: PLC0415 (no other command measures)
    from ..bench.table import shown  # noqa: PLC0415

    for name in options.only:
        if name not in MEASUREMENTS:
            raise usage(f"--only {name}: expected one of {', '.join(MEASUREMENTS)}")
    settings = _settings(options)
    if options.svg is not None and not options.svg.absolute().parent.is_dir():
        raise usage(f"--svg {options.svg}: expected a file in a folder that is there")
    with _progress() as tell:
        report = bench(options.only, settings, tell)
    if options.svg is not None:
        options.svg.write_text(svg(report.figures), encoding="utf-8")
    Screen.of(invocation).answer(report.wire(), shown(report))
    return Exit.NO if options.strict and report.missed else Exit.DONE


def _settings(options: Options) -> Settings:
    from ..bench.settings import FULL, QUICK  # noqa: PLC0415

    chosen = QUICK if options.quick else FULL
    if options.rounds is not None:
        chosen = chosen.with_rounds(options.rounds)
    folder = options.search_data
    missing = [name for name in SEARCH_FILES if folder and not (folder / name).is_file()]
    if missing:
        raise usage(f"--search-data {folder}: expected a folder with {' and '.join(missing)}, found none there")
    return replace(chosen, search_data=folder)


@contextmanager
def _progress() -> Generator[Tell]:
    """What is being measured now, on stderr: one line that changes at a terminal, else a line each."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield lambda what: console.print(Text(what), soft_wrap=True)
        return
    with console.status("") as status:
        yield lambda what: status.update(Text(what))
