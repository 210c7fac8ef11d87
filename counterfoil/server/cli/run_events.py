"""What happened in a run, event by event, with the time since its start; and each call's attempts and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...visible import visible
from . import following
from .answer import View, part
from .moments import between, to_the_second
from .render import brief, evidence_line, word

FIRST: Final = 10
LAST: Final = 30
"""How many events a person is shown: how it began, and how it stands."""
_IN_THE_STEP: Final = frozenset({"step", "item", "tool", "version", "undoes", "call_id"})
_UNTOLD: Final = frozenset(
    {
        *(
            "action_id",
            "by",
            "compensation",
            "goal",
            "grant_expires_at",
            "input_digest",
            "items_digest",
            "output_bytes",
        ),
        *("owner", "pauses", "plan_digest", "plan_id", "schema_digest", "subject", "text_digest", "wake"),
    }
)
"""What `--json` has, or the page of the run says once; the line of an event would only be longer by it."""
_NAMES: Final = ("action_id", "approval_id")
"""What the first event of a call has beside its step, and later ones without it."""


class Steps:
    """Whose an event is that names no step itself, such as `settled`: told in order, it remembers each call's step."""

    def __init__(self) -> None:
        self._known: dict[str, View] = {}

    def of(self, event: View) -> View:
        """The event, with the step and item of its call where an earlier event named them."""
        data = part(event, "data")
        ids = [str(data[name]) for name in _NAMES if data.get(name)]
        if data.get("step") is not None:
            place = {"step": data["step"], "item": data.get("item"), "undoes": data.get("undoes")}
            self._known.update(dict.fromkeys(ids, place))
            return event
        known = next((found for found in ids if found in self._known), None)
        return event if known is None else {**event, **self._known[known]}


def timeline(events: Sequence[View], begun: object, *, everything: bool = False) -> RenderableType:
    """The events in order; of many the first and the last ones, unless `everything` is asked for.

    Where `seq` leaps, the events between are counted.
    """
    begun = begun or (events[0].get("at") if events else None)
    whose = Steps()
    events = [whose.of(event) for event in events]
    shown = events if everything or len(events) <= FIRST + LAST else [*events[:FIRST], *events[-LAST:]]
    table = Table(box=None, pad_edge=False)
    table.add_column("seq", justify="right", style="dim", no_wrap=True)
    table.add_column("after", justify="right", style="dim", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("step", overflow="fold")
    table.add_column("what", overflow="fold")
    for before, event in zip([None, *shown], shown, strict=False):
        if before is not None and (between_them := _seq(event) - _seq(before) - 1) > 0:
            table.add_row("", "", Text(f"({between_them} more)", style="dim"), "", "")
        table.add_row(*_cells(event, begun))
    return table


def _seq(event: View) -> int:
    return int(event.get("seq") or 0)


def event_line(event: View, begun: object) -> Text:
    """One event in one line, for where nobody looks at a terminal."""
    return Text("  ").join(cell for cell in _cells(event, begun) if cell.plain)


def _cells(event: View, begun: object) -> list[Text]:
    data = part(event, "data")
    untold = _UNTOLD | _IN_THE_STEP if step_of(event) else _UNTOLD
    told = {name: value for name, value in data.items() if name not in untold}
    since = between(begun, event.get("at")) or ""
    seq = Text(visible(str(event.get("seq"))))
    return [seq, Text(f"+{since}" if since else ""), word(event.get("type")), Text(step_of(event)), Text(brief(told))]


def step_of(event: View) -> str:
    """`refund`, `tell[2]` or `undo of refund`; nothing for an event of the run itself."""
    data = part(event, "data")
    step, item = data.get("step") or event.get("step"), data.get("item", event.get("item"))
    if step is None:
        return ""
    name = str(step) if item is None or item == -1 else f"{step}[{item}]"
    return visible(f"undo of {name}" if data.get("undoes") or event.get("undoes") else name)


def calls_section(calls: Iterable[tuple[str, View]], left_out: int) -> RenderableType:
    """Attempts and evidence of each call, with the step or item that it is of."""
    lines = [line for name, view in calls for line in _call_lines(name, view)]
    if left_out:
        lines.append(Text(f"and {left_out} more calls; --all shows them", style="dim"))
    return Group(*lines)


def _call_lines(name: str, view: View) -> Iterator[Text]:
    attempts = view.get("attempts") or 0
    tries = f"{attempts} {'attempt' if attempts == 1 else 'attempts'}"
    told = (word(view.get("call_id")), word(name), word(view.get("state")), word(view.get("outcome")), Text(tries))
    yield Text("  ").join(told)
    if evidence := evidence_line(_readable(part(view, "evidence"))):
        yield Text("  ") + evidence
    if error := part(view, "error"):
        yield Text(f"  {following.error_text(error)}", style="red")


def _readable(evidence: View) -> View:
    """The same with its times to the second, and without what the line above says."""
    return {
        name: to_the_second(value) if name.endswith("_at") else value
        for name, value in evidence.items()
        if name != "source"
    }
