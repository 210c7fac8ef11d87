"""`ledger`: the file itself, without the application; no tool module is imported, so a broken one stops nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from rich.console import Group, RenderableType
from rich.text import Text

from ...visible import visible
from . import render
from .doors import configuration, explaining
from .exits import CommandError, Exit
from .invocation import Invocation
from .screen import Screen

if TYPE_CHECKING:
    from ...canonical import JsonObject
    from ...ledger.stats import Stats
    from ...ledger.verify import Problem, VerifyReport

SHOWN: Final = 20
"""How many problems a person is shown; `--json` has more."""


def verify(invocation: Invocation, export_file: Path | None) -> int:
    """Verify this ledger, or an export of any."""
    from ...ledger.verify import verify_database, verify_export  # noqa: PLC0415 (each command loads its own part)

    if export_file is None:
        path = _path(invocation)
        report = explaining(lambda: verify_database(path))
    else:
        report = _of_export(export_file, verify_export)
    problems = [asdict(problem) for problem in report.problems]
    answer = {
        "ok": report.ok,
        "events": report.events,
        "runs": report.runs,
        "problems": problems,
        "omitted": report.omitted,
    }
    Screen.of(invocation).answer(answer, _verified(report, export_file))
    return Exit.DONE if report.ok else Exit.NO


def _verified(report: VerifyReport, export_file: Path | None) -> RenderableType:
    if export_file is not None and report.problems and not report.events:
        return Text(visible(f"{export_file} is no export: {report.problems[0].what}"), style="red")
    said = f"{report.events} events in {report.runs} chains: {'every link holds' if report.ok else 'damaged'}"
    return _report(said, [_problem_line(problem) for problem in report.problems], report.omitted)


def _problem_line(problem: Problem) -> str:
    if problem.run_id is None:
        return problem.what
    return f"{problem.run_id}{'' if problem.seq is None else f' at {problem.seq}'}: {problem.what}"


def _of_export(file: Path, verify_export: Callable[[BinaryIO], VerifyReport]) -> VerifyReport:
    try:
        with file.open("rb") as stream:
            return explaining(lambda: verify_export(stream))
    except OSError as error:
        raise CommandError(Exit.USAGE, "usage", f"cannot read the export {file}: {error.strerror}") from error


def check(invocation: Invocation) -> int:
    """Compare the current state with the events."""
    from ...ledger.check import check as check_rules  # noqa: PLC0415

    path = _path(invocation)
    report = explaining(lambda: check_rules(path))
    breaches = [asdict(breach) for breach in report.breaches]
    said = "The state is what the events say." if report.ok else "Some rows break a rule."
    lines = [f"{item['table']} {item['row']}: {item['what']} ({item['rule']})" for item in breaches]
    Screen.of(invocation).answer({"ok": report.ok, "breaches": breaches}, _report(said, lines))
    return Exit.DONE if report.ok else Exit.NO


def export(invocation: Invocation) -> int:
    """Write JSON Lines to stdout; with or without `--json`, since that is what an export is."""
    from ...ledger.export import export as write  # noqa: PLC0415

    path = _path(invocation)
    explaining(lambda: write(path, sys.stdout.buffer))
    sys.stdout.buffer.flush()
    return Exit.DONE


def stats(invocation: Invocation) -> int:
    """Counts and sizes, and what is used and left of budgets and limits."""
    from ...ledger.stats import stats as measure  # noqa: PLC0415

    path = _path(invocation)
    measured = explaining(lambda: measure(path))
    limits = _limits(invocation, path)
    oldest = measured.oldest_open
    figures = {
        **asdict(measured),
        "oldest_open": None if oldest is None else oldest._asdict(),
        "budgets": limits,
    }
    shown: RenderableType = render.facts(_figures(measured))
    Screen.of(invocation).answer(figures, Group(shown, render.budgets(limits)) if limits else shown)
    return Exit.DONE


def _limits(invocation: Invocation, path: Path) -> list[JsonObject]:
    """Every counter whose window is under way."""
    from ...ledger.stats import counters  # noqa: PLC0415
    from ..limits import longest_window, standing  # noqa: PLC0415

    config = configuration(invocation)
    longest, now = longest_window(config.budgets, config.policy), time.time_ns() // 1000
    rows = explaining(lambda: counters(path, now - longest)) if longest else []
    return standing(config.budgets, config.policy, rows, now)


def _figures(measured: Stats) -> Iterator[tuple[str, object]]:
    """Each figure on a line of its own; sizes in bytes, times as the events have them."""
    from ...ledger.chain import rfc3339  # noqa: PLC0415

    for name, value in asdict(measured).items():
        if name not in {"calls", "oldest_open"}:
            yield name, value
    yield from ((f"calls {state}", count) for state, count in measured.calls.items())
    if oldest := measured.oldest_open:
        yield "oldest open", f"{oldest.call_id}, {oldest.state}, since {rfc3339(oldest.created_at)}"


def backup(invocation: Invocation, target: Path) -> int:
    """Copy the ledger; a file that is there is not overwritten."""
    from ...ledger.backup import backup as copy  # noqa: PLC0415

    path = _path(invocation)
    if target.exists():
        raise CommandError(Exit.USAGE, "usage", f"{target} is there already; a backup needs a new file")
    explaining(lambda: copy(path, target))
    Screen.of(invocation).answer(
        {"ok": True, "path": str(target)},
        Text(f"Copied to {target}. The key file is not in it: keep a copy of that too."),
    )
    return Exit.DONE


def migrate(invocation: Invocation) -> int:
    """Bring the ledger to this version."""
    from ...ledger.migrations import migrate as bring  # noqa: PLC0415

    path = _path(invocation)
    before, after = explaining(lambda: bring(path, now=time.time_ns() // 1000))
    said = (
        f"The ledger was brought from schema {before} to {after}."
        if before != after
        else f"The ledger has schema {after}."
    )
    Screen.of(invocation).answer({"ok": True, "before": before, "after": after}, Text(said))
    return Exit.DONE


def _path(invocation: Invocation) -> Path:
    path = configuration(invocation).ledger_path
    if not path.exists():
        raise CommandError(
            Exit.LEDGER, "ledger_missing", f"there is no ledger at {path} yet; the first serve or call makes it"
        )
    return path


def _report(said: str, problems: list[str], omitted: int = 0) -> RenderableType:
    lines = [Text(visible(problem), style="red") for problem in problems[:SHOWN]]
    if rest := len(problems[SHOWN:]) + omitted:
        lines.append(Text(f"and {rest} more", style="red"))
    return Group(Text(said, style="red" if problems else "green"), *lines)
