"""What a person sees of calls, approvals and tools. Everything from outside passes `visible` first.

These take the wire form of a view, so that a person and a program are shown the same facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, cast

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...visible import visible, visible_json
from . import following
from .answer import View, part

_STYLES: Final = {
    "success": "green", "no_result": "green", "approved": "green", "consumed": "green", "succeeded": "green",
    "refused": "red", "rejected": "red", "denied": "red", "permanent_failure": "red", "invalid_request": "red",
    "failed": "red", "budget_exhausted": "red", "not_undone": "red", "incomplete": "red",
    "running": "cyan", "queued": "cyan", "waiting": "dim", "ready": "dim", "skipped": "dim", "not_run": "dim",
    "awaiting_external": "yellow", "cancelled": "yellow",
    "destructive": "red", "ambiguous": "yellow", "awaiting_reconciliation": "yellow", "awaiting_approval": "yellow",
    "pending": "yellow", "retryable_failure": "yellow", "partial": "yellow", "unknown": "yellow", "write": "yellow",
}  # fmt: skip


RECOVERIES: Final = {
    "probe": "its probe is asked what happened",
    "keyed": "it is repeated with the same key",
    "natural": "it may be repeated",
    "person": "a person finds out: counterfoil reconcile",
}
"""What follows a lost answer, by recovery class."""
_UNTOLD: Final = frozenset(
    {
        *("run_id", "seq", "type", "at", "call_id", "tenant"),  # the line or its heading has them
        *("commitment", "args_digest", "output", "expires_at", "execute_until", "client", "route"),  # `--json` has them
    }
)
_LINE: Final = 200
"""How much of the arguments a list shows."""
_LONG_HEX: Final = re.compile(r"([0-9a-f]{8})[0-9a-f]{24,}")


def word(value: object) -> Text:
    """One word of ours or theirs, coloured if it is one of ours."""
    shown = "-" if value is None else visible(str(value))
    return Text(shown, style=_STYLES.get(shown, ""))


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; absent values are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            grid.add_row(name, value if isinstance(value, Text) else word(value))
    return grid


def data(value: object) -> Text:
    """A JSON value, readable."""
    return Text(visible_json(value), overflow="fold")


def headed(heading: str, text: str) -> Table:
    """A short heading and a text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9, style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(heading, Text(visible(text)))
    return grid


def call_panel(view: View, asked: str | None = None) -> RenderableType:
    """One call: where it is, what came of it, and what can be done next; `asked` names what is not there."""
    if view.get("dry_run"):
        return _dry_run_panel(view)
    parts: list[RenderableType] = [
        facts(
            [
                ("state", view.get("state")),
                ("outcome", view.get("outcome")),
                ("sent", view.get("sent")),
                ("attempts", view.get("attempts")),
                (
                    "replayed",
                    "yes: it was asked for before, and this is what became of it" if view.get("replayed") else None,
                ),
                ("error", error_text(view.get("error"))),
                ("approval", _approval_line(view.get("approval"))),
                ("evidence", evidence_line(part(view, "evidence"))),
                ("next", _text(following.text_of(view))),
            ]
        )
    ]
    if view.get("output") is not None:
        parts += [Text("output", style="dim"), data(view["output"])]
    if view.get("truncated"):
        parts += [Text("output is larger than shown", style="dim"), data(view["truncated"])]
    title = f"{view.get('tool') or asked or 'call'} {view.get('version') or ''}".strip()
    return Panel(Group(*parts), title=Text(visible(title)), expand=False)


def budgets(rows: Sequence[View]) -> RenderableType:
    """What is used and left of budgets and limits, and when each window ends."""
    table = Table(title="budgets and limits", title_justify="left")
    for name in ("scope", "kind", "used", "left", "limit", "resets_at"):
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(visible(str(row[name])) for name in ("scope", "kind", "used", "left", "limit", "resets_at")))
    return table


def _dry_run_panel(view: View) -> RenderableType:
    names = ("verdict", "assurance", "rule_id", "reason", "missing_scopes")
    parts: list[RenderableType] = [
        facts((name, view.get(name) or None) for name in names),
        Text("arguments", style="dim"),
        data(view.get("arguments")),
    ]
    return Panel(Group(*parts), title="dry run: nothing was recorded or sent", expand=False)


def error_text(error: View | None) -> Text | None:
    """An error in red; nothing for none."""
    if not error:
        return None
    return Text(following.error_text(error), style="red")


def _approval_line(approval: View | None) -> Text | None:
    if not approval:
        return None
    return Text(visible(f"{approval.get('approval_id')} needs {approval.get('assurance')}: {approval.get('reason')}"))


def evidence_line(evidence: View) -> Text | None:
    """What the far side said of itself; nothing where it said nothing."""
    known = {name: value for name, value in evidence.items() if value is not None and name != "untrusted"}
    return Text(visible(", ".join(f"{name} {value}" for name, value in known.items()))) if known else None


def _text(said: str | None) -> Text | None:
    return Text(said) if said else None


def timeline(events: Iterable[View]) -> Table:
    """The events of one chain, in order."""
    table = Table(box=None, pad_edge=False)
    table.add_column("seq", justify="right", style="dim")
    table.add_column("at (UTC)", style="dim", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what", overflow="fold")
    for event in events:
        at = str(event.get("at", "")).partition("T")[2].rstrip("Z")[:12]
        table.add_row(str(event.get("seq")), at, word(event.get("type")), Text(brief(part(event, "data"))))
    return table


def brief(content: View) -> str:
    """The plain members of an event's data that its line or heading does not have."""
    simple = {
        name: value for name, value in content.items() if not isinstance(value, dict | list) and value not in (None, "")
    }
    told = (f"{name}={value}" for name, value in simple.items() if name not in _UNTOLD)
    return _LONG_HEX.sub(r"\1…", visible(", ".join(told)))


def approvals_list(views: Iterable[View]) -> RenderableType:
    """What waits for a decision, its id on a first short line, so that an id can be copied whole at any width."""
    lines = [line for view in views for line in _approval_lines(view)]
    return Group(*lines) if lines else Text("Nothing waits for a decision.")


def _approval_lines(view: View) -> Iterable[Text]:
    names = ("approval_id", "state", "effect", "tool")
    yield Text("  ").join(word(view.get(name)) for name in names)
    asked = (
        f"  asked by {view.get('requester')}, needs {view.get('assurance')}, expires {_second(view.get('expires_at'))}"
    )
    yield Text(visible(asked), style="dim")
    if view.get("arguments") is not None:
        yield Text(f"  {_shortened(view['arguments'])}")


def _shortened(arguments: object) -> str:
    text = visible(json.dumps(arguments, ensure_ascii=False, sort_keys=True))
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


def _second(at: object) -> str:
    """An RFC 3339 time, to the second."""
    return f"{str(at)[:19]}Z".replace("T", " ")


def approval_panel(view: View, arguments: object, recovery: str | None, undone_by: str | None) -> RenderableType:
    """One exact proposal, as its digest covers it; the items of several are numbered, each whole."""
    decided = part(view, "decided")
    shown = facts(
        [
            ("state", view.get("state")),
            ("tool", view.get("tool")),
            ("effect", view.get("effect")),
            ("if its answer is lost", RECOVERIES.get(recovery or "")),
            ("undone by", undone_by),
            ("asked by", view.get("requester")),
            ("rule", _rule_line(part(view, "rule"))),
            ("needs", view.get("assurance")),
            ("call", view.get("call_id")),
            ("run", f"{view.get('run_id')}, step {view.get('step')}" if view.get("run_id") else None),
            ("expires", _second(view.get("expires_at"))),
            (
                "decided",
                f"by {decided.get('by')}, {decided.get('strength')}, via {decided.get('via')}" if decided else None,
            ),
            ("note", decided.get("note")),
        ]
    )
    parts: list[RenderableType] = [shown]
    each = cast("list[object]", arguments) if view.get("items") else [arguments]
    for number, one in enumerate(each):
        heading = "arguments" if len(each) == 1 else f"arguments of item {number + 1} of {len(each)}"
        parts += [Text(heading, style="dim"), data(one)]
    parts += _preview(part(view, "preview"))
    return Panel(Group(*parts), title=Text(visible(str(view.get("approval_id")))), expand=False)


def _preview(preview: View) -> Iterable[RenderableType]:
    """What a read showed, set apart from what is decided."""
    if not preview:
        return
    source = (
        f"for information, from {preview.get('tool')} at {_second(preview.get('at'))}; the digest does not cover it"
    )
    yield Text(visible(source), style="dim")
    items, error = preview.get("items"), preview.get("error")
    if error is not None:
        yield Text(visible(str(error) if items else f"There is no preview: {error}"))
    if items:
        yield data(items)
    elif error is None:
        yield data(preview.get("output"))


def _rule_line(rule: View) -> str | None:
    return f"{rule.get('id')}: {rule.get('reason')}" if rule else None


def tools_table(tools: Iterable[View]) -> RenderableType:
    """Registered tools: what each does to the world, who must agree, what follows a lost answer."""
    table = Table(box=None, pad_edge=False)
    for heading in ("tool", "version", "effect", "approval", "recovery", "digest", "title"):
        table.add_column(heading, overflow="fold")
    for tool in tools:
        names = ("name", "version", "effect", "approval", "recovery", "schema_digest", "title")
        table.add_row(*(word(tool.get(name)) for name in names))
    return table if table.row_count else Text("No tools are registered.")


def call_line(view: View) -> Text:
    """One call in one line."""
    shown = (view.get(name) for name in ("call_id", "tool", "state", "how"))
    return Text("  ".join(visible(str(part)) for part in shown if part))
