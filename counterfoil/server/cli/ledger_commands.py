"""`ledger`: the file itself, without the application; no tool module is imported, so a broken one stops nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from . import render
from .doors import configuration, explaining
from .exits import CommandError, Exit
from .invocation import Invocation
from .screen import Screen

if TYPE_CHECKING:
    from ...ledger.verify import Problem


def verify(invocation: Invocation, export_file: Path | None) -> int:
    """Verify this ledger, or an export of any."""
    from ...ledger.verify import verify_database, verify_export  # noqa: PLC0415 (each command loads its own part)

    if export_file is None:
        path = _path(invocation)
        report = explaining(lambda: verify_database(path))
    else:
        report = _of_export(export_file, verify_export)
    problems = [_problem(problem) for problem in report.problems]
    answer = {"ok": report.ok, "events": report.events, "runs": report.runs, "problems": problems}
    said = f"{report.events} events in {report.runs} chains: {'every link holds' if report.ok else 'damaged'}"
    Screen.of(invocation).answer(answer, _report(said, problems))
    return Exit.DONE if report.ok else Exit.NO


def _of_export(file: Path, verify_export: Any) -> Any:  # noqa: ANN401
    try:
        with file.open("rb") as stream:
            return explaining(lambda: verify_export(stream))
    except OSError as error:
        raise CommandError(Exit.USAGE, "usage", f"cannot read the export {file}: {error.strerror}") from error


def check(invocation: Invocation) -> int:
    """Compare the current state with the events."""
    from ...ledger.check import check_database  # noqa: PLC0415

    path = _path(invocation)
    problems = [_problem(problem) for problem in explaining(lambda: check_database(path))]
    said = "The state is what the events say." if not problems else f"{len(problems)} problems"
    Screen.of(invocation).answer({"ok": not problems, "problems": problems}, _report(said, problems))
    return Exit.NO if problems else Exit.DONE


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
    figures: dict[str, Any] = explaining(lambda: measure(path))
    shown = render.facts(
        (name, render.data(value) if isinstance(value, dict | list) else value) for name, value in figures.items()
    )
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
    explaining(lambda: bring(path))
    Screen.of(invocation).answer({"ok": True}, Text("The ledger has the form of this version."))
    return Exit.DONE


def _path(invocation: Invocation) -> Path:
    path = configuration(invocation).ledger_path
    if not path.exists():
        raise CommandError(
            Exit.LEDGER, "ledger_missing", f"there is no ledger at {path} yet; the first serve or call makes it"
        )
    return path


def _problem(problem: Problem) -> dict[str, Any]:
    return {"run_id": problem.run_id, "seq": problem.seq, "what": problem.what}


def _report(said: str, problems: list[dict[str, Any]]) -> RenderableType:
    lines = [Text(f"{item['run_id']} at {item['seq']}: {item['what']}", style="red") for item in problems]
    return Group(Text(said, style="red" if problems else "green"), *lines)
