"""A run as a person reads it at a terminal."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .figures import Bound, Figure, Judged, Spread
from .run import Report

_MARK: Final = {True: ("met", "green"), False: ("MISSED", "bold red"), None: ("", "")}


def shown(report: Report) -> RenderableType:
    """Each measurement's table, and one line that says how it went."""
    parts: list[RenderableType] = []
    for group, figures in groupby(report.figures, key=lambda figure: figure.group):
        found = list(figures)
        parts += [Text(group, style="bold"), _table(found)]
        parts += [Text(f"reference: {said}", style="dim") for said in dict.fromkeys(map(_against, found))]
        parts.append(Text(""))
    facts = report.machine
    parts.append(
        Text(
            f"Python {facts['python']}, SQLite {facts['sqlite']}, {facts['cpus']} processors, durability full; "
            f"medians with quartiles; {report.seconds:.0f} s",
            style="dim",
        )
    )
    missed = ", ".join(report.missed)
    parts.append(Text(f"Missed: {missed}", style="red") if missed else Text("Every target is met.", style="green"))
    return Group(*parts)


def _table(figures: list[Figure]) -> Table:
    table = Table(box=None, pad_edge=False, expand=False)
    for title in ("", "ours", "reference", "ratio", "target", ""):
        table.add_column(title, justify="left" if not title else "right", overflow="fold")
    for figure in figures:
        mark, style = _MARK[figure.met]
        table.add_row(
            Text(figure.title),
            _spread(figure.ours, figure.unit),
            f"{_number(figure.reference.median)} {figure.unit}".strip() if figure.reference else "not installed",
            _spread(figure.ratio) if figure.ratio else "",
            target_of(figure),
            Text(mark, style=style),
        )
    return table


def _against(figure: Figure) -> str:
    return f"{figure.against}: {figure.missing}" if figure.missing else figure.against


def target_of(figure: Figure) -> str:
    """A target in a few signs; empty without one."""
    if figure.target is None:
        return ""
    sign = "≤" if figure.target.bound is Bound.AT_MOST else "≥"
    unit = "x" if figure.target.judged is Judged.RATIO else f" {figure.unit}"
    return f"{sign} {figure.target.value:g}{unit}"


def _spread(spread: Spread, unit: str = "") -> str:
    value = f"{_number(spread.median)} {unit}".strip()
    if spread.samples == 1:
        return value
    return f"{value} ({_number(spread.low)}..{_number(spread.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 (three figures that count)
