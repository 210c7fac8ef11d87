"""`ledger`: the file itself, without the application; no tool module is imported, so a broken one stops nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from rich.console import Group, RenderableType
from rich.text import Text

from . import render
from .doors import configuration, explaining
from .exits import CommandError, Exit
from .invocation import Invocation
from .screen import Screen
from .visible import visible

if TYPE_CHECKING:
    from ...ledger.verify import VerifyReport


def verify(invocation: Invocation, export_file: Path | None) -> int:
    """Verify this ledger, or an export of any."""
    from ...ledger.verify import verify_database, verify_export  # noqa: PLC0415 (each command loads its own part)

    if export_file is None:
        path = _path(invocation)
        report = explaining(lambda: verify_database(path))
    else:
        report = _of_export(export_file, verify_export)
    problems = [asdict(problem) for problem in report.problems]
    lines = [f"{item['run_id']} at {item['seq']}: {item['what']}" for item in problems]
    answer = {"ok": report.ok, "events": report.events, "runs": report.runs, "problems": problems}
    said = f"{report.events} events in {report.runs} chains: {'every link holds' if report.ok else 'damaged'}"
    Screen.of(invocation).answer(answer, _report(said, lines))
    return Exit.DONE if report.ok else Exit.NO


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
    """Counts and sizes."""
    from ...ledger.stats import stats as measure  # noqa: PLC0415

    path = _path(invocation)
    measured = explaining(lambda: measure(path))
    oldest = measured.oldest_open
    figures = {**asdict(measured), "oldest_open": None if oldest is None else oldest._asdict()}
    shown = render.facts((name, _figure(value)) for name, value in figures.items())
    Screen.of(invocation).answer(figures, shown)
    return Exit.DONE


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


def _figure(value: object) -> object:
    return render.data(cast("object", value)) if isinstance(value, dict) else value


def _report(said: str, problems: list[str]) -> RenderableType:
    lines = [Text(visible(problem), style="red") for problem in problems]
    return Group(Text(said, style="red" if problems else "green"), *lines)
