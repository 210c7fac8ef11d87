"""A plan on a screen before anything of it runs: its waves as a tree, and what each step would do and need.

The answer of `plan` has the waves; which step waits for which stands in the document that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ...canonical import JsonValue
from ...visible import visible
from . import following
from .answer import View, part, parts, values
from .documents import steps_of
from .render import facts, word
from .run_page import refusal

ROWS: Final = 20
"""How many lines of one wave a person is shown."""
_LINE: Final = 100
Needs = Mapping[str, Sequence[str]]


def picture(view: View, document: JsonValue, needs: Needs) -> RenderableType:
    """The graph with its warnings and what it would use; or all that is wrong with it."""
    if view.get("error"):
        return refusal(view, None)
    given = {str(step.get("id")): step for step in steps_of(document)}
    goal = document.get("goal") if isinstance(document, dict) else None
    shown: list[RenderableType] = [_tree(str(goal or "plan"), view, given, needs)]
    shown += [Text(f"warning: {visible(str(text))}", style="yellow") for text in values(view, "warnings")]
    asked = [Text(visible(_asked(found)), style="yellow") for found in parts(view, "approvals")]
    shown += asked[:ROWS] + ([Text(f"and {len(asked) - ROWS} more approvals", style="dim")] if asked[ROWS:] else [])
    shown.append(facts([("approvals", None if asked else "none"), ("budget", _budget(part(view, "budget")))]))
    return Group(*shown)


def commands(view: View) -> list[str]:
    """What to type next: the plan's id and digest, whole, and how to run it."""
    if view.get("error"):
        return []
    lines = (f"plan {view.get('plan_id')}", f"digest {view.get('digest')}")
    return [visible(line) for line in (*lines, f"counterfoil run --plan-id {view.get('plan_id')}")]


def _tree(goal: str, view: View, given: Mapping[str, View], needs: Needs) -> Tree:
    steps = {str(step.get("id")): step for step in parts(view, "steps")}
    tree = Tree(Text(visible(goal), style="bold"))
    waves: Sequence[Sequence[str]] = values(view, "waves")
    for number, wave in enumerate(waves):
        ids = [name for name in wave if name in steps]
        branch = tree.add(Text(f"wave {number}: {_count(len(ids))}", style="dim"))
        _branch(branch, [steps[name] for name in ids], lambda name: _marks(given.get(name, {}), needs.get(name, ())))
    return tree


def _count(steps: int) -> str:
    return f"{steps} {'step' if steps == 1 else 'steps'}"


def _branch(branch: Tree, steps: Sequence[View], marks: Callable[[str], list[str]]) -> None:
    rows = [list(found) for _, found in groupby(steps, _profile)] if len(steps) > ROWS else [[step] for step in steps]
    for row in rows[:ROWS]:
        if len(row) == 1:
            branch.add(_leaf(row[0], str(row[0].get("id")), marks(str(row[0].get("id")))))
        else:
            branch.add(_leaf(row[0], f"{row[0].get('id')} … {row[-1].get('id')} ({len(row)})", []))
    if left := sum(len(row) for row in rows[ROWS:]):
        branch.add(Text(f"and {_count(left)} more", style="dim"))


def _profile(step: View) -> tuple[object, ...]:
    """What neighbours must share to be told together."""
    return tuple(step.get(name) for name in ("tool", "version", "effect", "approval", "recovery", "cost"))


def _leaf(step: View, name: str, marks: list[str]) -> RenderableType:
    head = Text(visible(name), style="bold") + Text(visible(f"  {step.get('tool')} {step.get('version')}"), style="")
    return Group(head, Text(", ").join(_needs_and_does(step)), *(Text(visible(mark), style="dim") for mark in marks))


def _needs_and_does(step: View) -> Iterator[Text]:
    yield word(step.get("effect"))
    yield Text("approval ") + _approval(step.get("approval"))
    yield Text(visible(f"recovery {step.get('recovery')}"))
    if step.get("cost"):
        yield Text(visible(f"cost {step.get('cost')}"))


def _approval(value: object) -> Text:
    style = {"none": "", "denied": "red"}.get(str(value), "yellow")
    return Text(visible("depends on a value" if value == "depends" else str(value)), style=style)


def _marks(step: View, needs: Sequence[str]) -> list[str]:
    """What the document says of when and how often it runs."""
    marks = [f"after {', '.join(needs)}"] if needs else []
    for name, said in (("for_each", "once for each of"), ("when", "only when"), ("on_failure", "on failure:")):
        if step.get(name) is not None:
            marks.append(f"{said} {_short(step[name])}")
    return marks


def _short(value: object) -> str:
    text = value if isinstance(value, str) else following.compact(value)
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


def _asked(found: View) -> str:
    """Who must agree to a step, by which rule."""
    open_yet = found.get("approval") == "depends"
    need = "depends on a value, at the strictest by" if open_yet else f"needs {found.get('approval')};"
    return f"approval: {found.get('step')} {need} {found.get('rule_id')}: {found.get('reason')}"


def _budget(budget: View) -> str | None:
    told = [f"{name} {value}" for name, value in budget.items() if name != "limits" and value is not None]
    limits = [f"{name} {value}" for name, value in part(budget, "limits").items() if value is not None]
    return ", ".join(told) + (f" (limits: {', '.join(limits)})" if limits else "") or None
