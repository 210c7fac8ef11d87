"""One run on a screen: where it is and why, its steps, what it waits for, what stands. From the wire form of its view.

The page of a thousand steps is as long as that of fifty: quiet neighbours are folded, and what is left out is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...visible import visible
from . import following
from .answer import FINISHED, View, part, parts
from .moments import ago, between, to_the_second
from .render import call_line, error_text, facts, word
from .run_folding import ROWS, Row, counted, done_of, fold, items_of, loud_items
from .run_reasons import notes, why

LISTED: Final = 20
"""How many proposals, unresolved calls, outputs and the like a person is shown."""
_LINE: Final = 200


def run_page(view: View, now: datetime, *, most: int = ROWS, asked: str | None = None) -> RenderableType:
    """Header, steps, and all that a person may have to act on; `asked` names what is not there."""
    if not view.get("run_id"):
        return refusal(view, asked)
    return Group(*_sections(view, now, most))


def _sections(view: View, now: datetime, most: int) -> Iterator[RenderableType]:
    yield header(view, now)
    yield Text("")
    yield steps_table(parts(view, "steps"), most)
    yield from _section("Reasons", _note_lines(parts(view, "steps")))
    yield from _section("Waiting for a decision", [_pending(found) for found in parts(view, "pending")])
    yield from _section("To be settled", [call_line(found) for found in parts(view, "unresolved")])
    yield from _section("Compensation", [_compensated(found) for found in parts(view, "compensations")])
    if "effects" in view:
        yield from _section(
            "Effects that stand", [_effect(found) for found in parts(view, "effects")] or [Text("None.")]
        )
    if view.get("status") in FINISHED:
        yield from _section("Outputs", _outputs(view))


def live(view: View, now: datetime, *, most: int) -> RenderableType:
    """What moves while somebody watches: the header and the steps."""
    if not view.get("run_id"):
        return refusal(view, None)
    return Group(header(view, now), "", steps_table(parts(view, "steps"), most))


def refusal(view: View, asked: str | None) -> RenderableType:
    """An answer that shows no run: what was refused, and each thing that is wrong with its plan."""
    error = part(view, "error")
    shown: list[RenderableType] = [Text(visible(str(asked)), style="bold")] if asked else []
    shown.append(error_text(error) or Text("There is nothing to show."))
    problems = [*parts(view, "errors"), *parts(part(error, "details"), "errors")]
    if problems:
        shown.append(problems_table(problems))
    if said := following.text_of(view):
        shown.append(Text(said))
    return Group(*shown)


def problems_table(problems: Sequence[View]) -> Table:
    """Everything that is wrong with a plan, in the order of its steps."""
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "field", "code", "message"):
        table.add_column(heading, overflow="fold")
    for found in problems:
        table.add_row(*(Text(visible(str(found.get(name) or "-"))) for name in ("step", "field", "code", "message")))
    return table


def header(view: View, now: datetime) -> RenderableType:
    """What it is for, where it is, why, and since when."""
    ended, all_of_them = done_of(view)
    begun, finished = view.get("started_at"), view.get("finished_at")
    lasted = between(begun, finished) if finished else None
    compensation = view.get("compensation")
    rows: list[tuple[str, object]] = [
        ("run", view.get("run_id")),
        ("plan", view.get("plan_id")),
        ("status", view.get("status")),
        ("why", _plain(why(view))),
        ("steps", f"{ended} of {all_of_them} ended" if all_of_them else None),
        ("started", f"{to_the_second(begun)}, {ago(begun, now)}" if begun else None),
        ("ended", f"{to_the_second(finished)}{f', after {lasted}' if lasted else ''}" if finished else None),
        ("deadline", None if finished else to_the_second(view.get("deadline"))),
        ("cancelled", _asked_to_end(view)),
        ("compensation", compensation if compensation != "none" else None),
        ("budget", _plain(_used(part(view, "budget")))),
        ("forked from", view.get("parent_run_id")),
        ("replayed", "yes: it was asked for before, and this is that run" if view.get("replayed") else None),
        ("error", error_text(part(view, "error"))),
        ("next", _plain(following.run_text(view) or "")),
    ]
    return Group(Text(visible(str(view.get("goal") or "")), style="bold"), facts(rows))


def _asked_to_end(view: View) -> str | None:
    at = view.get("cancel_requested_at")
    return f"asked for at {to_the_second(at)}" if at else None


def _plain(text: str) -> Text | None:
    return Text(visible(text)) if text else None


def _used(budget: View) -> str:
    """`calls 3 of 20, writes 1`: what was used, and how much may be; nothing of what is neither used nor limited."""
    limits = part(budget, "limits")
    used = {name: value for name, value in budget.items() if name != "limits"}
    told = {**dict.fromkeys(limits, 0), **used}
    names = [*used, *(name for name in told if name not in used)]
    return ", ".join(
        f"{name} {_to_a_tenth(told[name])}" + (f" of {limits[name]}" if name in limits else "")
        for name in names
        if told[name] or name in limits or name == "calls"
    )


def _to_a_tenth(used: object) -> object:
    return round(used, 1) if isinstance(used, float) else used


def steps_table(steps: Sequence[View], most: int) -> RenderableType:
    """The steps in their declared order, neighbours folded where there are many; items counted by state."""
    folded = fold(steps, most)
    with_items = any(parts(step, "items") for step in steps)
    table = Table(box=None, pad_edge=False)
    for name in ("step", "tool"):
        table.add_column(name, overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("tries", justify="right", no_wrap=True)
    if with_items:
        table.add_column("items", overflow="fold")
    for row in folded.rows:
        cells = _one(row.first) if row.alone else _several(row)
        table.add_row(*(cells if with_items else cells[:4]))
    shown: list[RenderableType] = [table, *_items(steps)]
    if folded.left_out:
        states = Counter(str(step.get("state")) for step in folded.left_out)
        shown.append(Text(f"and {len(folded.left_out)} more steps: {counted(states)}", style="dim"))
    return Group(*shown)


def _one(step: View) -> list[Text]:
    tries = step.get("attempts")
    cells = [Text(visible(str(step.get(name) or ""))) for name in ("id", "tool")]
    return [*cells, word(step.get("state")), Text(str(tries) if tries else ""), Text(items_of(step))]


def _several(row: Row) -> list[Text]:
    names = f"{row.first.get('id')} … {row.steps[-1].get('id')}"
    tools = {str(step.get("tool")) for step in row.steps}
    states = row.counts
    state = word(next(iter(states))) if len(states) == 1 else Text(counted(states))
    tool = next(iter(tools)) if len(tools) == 1 else f"{len(tools)} tools"
    return [Text(visible(f"{names} ({len(row.steps)})")), Text(visible(tool)), state, Text(""), Text("")]


def _items(steps: Iterable[View]) -> Iterator[Text]:
    """The items that a person looks for, below the table."""
    found = list(loud_items(steps))
    for step, item in found[:LISTED]:
        told = (f"{step.get('id')}[{item.get('n')}]", item.get("state"), item.get("outcome"), item.get("call_id"))
        yield Text("  ").join(word(value) for value in told if value)
    if len(found) > LISTED:
        yield Text(f"and {len(found) - LISTED} more items", style="dim")


def _section(title: str, lines: Sequence[Text]) -> Iterator[RenderableType]:
    """A heading and its lines; nothing where there are none."""
    if lines:
        yield Text(f"\n{title}", style="bold")
        yield from lines[:LISTED]
    if len(lines) > LISTED:
        yield Text(f"and {len(lines) - LISTED} more", style="dim")


def _note_lines(steps: Sequence[View]) -> list[Text]:
    return [Text(f"{visible(name)}  {visible(text)}") for name, text in notes(steps)]


def _pending(found: View) -> Text:
    told = (f"{found.get('approval_id')}", found.get("step"), found.get("tool"))
    head = Text("  ").join(word(value) for value in told if value)
    expires = to_the_second(found.get("expires_at"))
    lines = [f"  {_short(found.get('arguments'))}", f"  expires {expires}" if expires else ""]
    return Text("\n").join([head, *(Text(visible(line), style="dim") for line in lines if line)])


def _compensated(found: View) -> Text:
    tool = found.get("tool")
    made = f"by {tool} {found.get('undo_call_id') or ''}".strip() if tool else None
    told = (_step_of(found), found.get("state"), found.get("call_id"), made, found.get("reason"))
    line = Text("  ").join(word(value) for value in told if value)
    error = part(found, "error")
    return line + Text(f"  {error_text(error)}", style="red") if error else line


def _effect(found: View) -> Text:
    unsure = "it may stand: nobody knows" if found.get("known") is False else None
    told = (_step_of(found), found.get("tool"), found.get("call_id"), unsure)
    return Text("  ").join(word(value) for value in told if value)


def _step_of(found: View) -> str:
    item = found.get("item")
    return f"{found.get('step')}" if item is None else f"{found.get('step')}[{item}]"


def _outputs(view: View) -> list[Text]:
    return [Text(f"{visible(name)}  {_short(value)}") for name, value in part(view, "outputs").items()]


def _short(value: object) -> str:
    text = visible(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return text if len(text) <= _LINE else f"{text[:_LINE]}… (whole with --json)"


def runs_table(views: Sequence[View], now: datetime) -> RenderableType:
    """Runs, as they were given; each id comes first on its line, so that it can be copied whole at any width."""
    if not views:
        return Text("There are no runs.")
    widest = max(len(str(view.get("status"))) for view in views)
    return Group(*(line for view in views for line in _run_lines(view, now, widest)))


def _run_lines(view: View, now: datetime, widest: int) -> Iterator[Text]:
    ended, all_of_them = done_of(view)
    status = word(view.get("status"))
    status.pad_right(widest - len(status))
    age = ago(view.get("started_at") or view.get("updated_at"), now)
    yield Text("  ").join(
        (word(view.get("run_id")), status, Text(f"{ended}/{all_of_them}" if all_of_them else ""), Text(age))
    )
    yield Text(f"  {visible(str(view.get('goal') or '')[:_LINE])}")
    if view.get("status") not in FINISHED and (said := why(view)):
        yield Text(f"  {visible(said)}", style="dim")
