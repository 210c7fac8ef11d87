"""What a person can type next: the commands that belong to a view's next step, and its words for a person. Pure.

A view names base tools, as a model calls them; here each has its command. These lines are printed as they are, outside
every box, so that they can be copied whole.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Final

from ...visible import visible
from .answer import FINISHED, View, part, parts

_LISTED: Final = 5
"""How many proposals or calls have a command each; the run's page lists more of them."""
_BY_RUN: Final = "Take it up with run."
_THE_LAST: Final = "Find out what became of it, with the commands below; nothing further starts."
_UNDO_AGAIN: Final = (
    "Not everything that it did is undone; see Compensation. Mend the cause, then reconcile tries that undo again."
)
_SEARCHED: Final = "tool_search finds stored plans beside tools."
_RUN_TEXTS: Final = {
    "confirm": "A person decides in a terminal, with the commands below; then a running server, or resume, goes on.",
    "reconcile": "Find out what became of it, with the commands below; then the run goes on.",
    "running": "It goes on by itself; watch it with the command below.",
    "queued": "A running server takes it up; or do it here, with the command below.",
}
_TEXTS: Final = {
    "confirm": "A person decides it in a terminal, with the commands below.",
    "reconcile": "Find out what became of it, with the commands below. Do not repeat it in other words.",
}


def text_of(view: View) -> str | None:
    """The next step in words, without the names of base tools."""
    following = part(view, "next")
    if not following:
        return None
    own = part(view, "approval").get("assurance") == "second_person" or is_manual(view)
    said = None if own else _TEXTS.get(str(following.get("tool")))
    return visible(said or str(following.get("text")))


def is_manual(view: View) -> bool:
    """True for a call that a person does outside and tells of then."""
    return part(part(view, "error"), "details").get("reason") == "manual"


def compact(value: object) -> str:
    """A JSON value in one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def run_text(view: View) -> str | None:
    """What to do about a run, in words, without the names of base tools; nothing where nothing is to be done."""
    following, status = part(view, "next"), view.get("status")
    tool, said = following.get("tool"), str(following.get("text"))
    if tool == "run":
        return visible(said.replace(_BY_RUN, "Take it up with the command below."))
    if tool == "reconcile" and undoes_again(view):
        return _UNDO_AGAIN
    if tool == "reconcile" and (view.get("cancel_requested_at") or view.get("finished_at")):
        return _THE_LAST
    if tool == "status":
        return visible(said) if status == "queued" and view.get("reason") else _RUN_TEXTS.get(str(status))
    return _RUN_TEXTS.get(str(tool)) or text_of(view)


def undoes_again(view: View) -> bool:
    """True for a run of which not everything is undone, and where an undo can be tried again."""
    tool = part(view, "next").get("tool")
    return view.get("compensation") == "incomplete" and tool == "reconcile" and not parts(view, "unresolved")


def error_text(error: View) -> str:
    """An error's code and message, with a command in the place of the base tool that searches."""
    message = str(error.get("message")).replace(_SEARCHED, "See: counterfoil tools list")
    if error.get("code") == "unknown_tool":
        message = message.replace("Use tool_search to find tools.", "See: counterfoil tools list")
    return visible(f"{error.get('code')}: {message}")


def commands_of_call(view: View) -> Sequence[str]:
    """What to type after a call was shown; the call's own id is always among it."""
    call_id = view.get("call_id")
    lines = list(_commands_of_step(part(view, "next")))
    if is_manual(view):
        lines = [f"counterfoil reconcile {call_id} --resolution happened --evidence 'HOW YOU KNOW' --output JSON"]
    if call_id and not any(str(call_id) in line for line in lines):
        lines.append(f"counterfoil status {call_id}")
    return [visible(line) for line in lines]


def commands_of_run(view: View) -> Sequence[str]:
    """What to type after a run was shown: how to decide, settle, go on and look, whichever of them can be done."""
    run_id = view.get("run_id")
    if not run_id:
        return [visible(line) for line in _commands_of_step(part(view, "next"))]
    if view.get("status") in FINISHED:
        return [visible(line) for line in (*_to_settle(view), f"counterfoil runs show {run_id}")]
    lines = [f"counterfoil approvals approve {found.get('approval_id')}" for found in parts(view, "pending")[:_LISTED]]
    lines += _to_settle(view)
    if view.get("status") != "running" and view.get("reason") != "strict":
        lines.append(f"counterfoil runs resume {run_id}")
    lines.append(f"counterfoil runs watch {run_id}")
    return [visible(line) for line in (*lines, f"counterfoil runs show {run_id}", f"counterfoil runs cancel {run_id}")]


def _to_settle(view: View) -> Sequence[str]:
    """The run's own reconcile, and that of each call that nobody knows the end of."""
    unresolved = parts(view, "unresolved")
    if not unresolved:
        return [f"counterfoil reconcile {view.get('run_id')}"] if undoes_again(view) else []
    calls = [f"counterfoil status {found.get('call_id')}" for found in unresolved[:_LISTED]]
    return [f"counterfoil reconcile {view.get('run_id')}", *calls]


def commands_of_approval(view: View) -> Sequence[str]:
    """What to type after a proposal was shown: its digest whole, and how to decide it while that can be done."""
    identity = view.get("approval_id")
    lines = [f"digest {view.get('digest')}"]
    if view.get("state") == "pending":
        lines += [f"counterfoil approvals approve {identity}", f"counterfoil approvals reject {identity}"]
    if view.get("state") == "approved":
        lines.append(f"counterfoil approvals revoke {identity}")
    if view.get("call_id"):
        lines.append(f"counterfoil status {view.get('call_id')}")
    if view.get("run_id"):
        lines.append(f"counterfoil runs resume {view.get('run_id')}")
    return [visible(line) for line in lines]


def _commands_of_step(step: View) -> Sequence[str]:
    """The commands that do what this step's base tool does."""
    arguments = part(step, "arguments")
    call_id = str(arguments.get("call_id") or arguments.get("run_id") or "")
    match step.get("tool"):
        case "confirm":
            identity = arguments.get("approval_id")
            return [f"counterfoil approvals show {identity}", f"counterfoil approvals approve {identity}"]
        case "reconcile":
            said = "--resolution happened --evidence 'HOW YOU KNOW'"
            return [f"counterfoil reconcile {call_id}", f"counterfoil reconcile {call_id} {said}"]
        case "status":
            return [f"counterfoil status {call_id}".rstrip()]
        case "tool_search":
            return [f"counterfoil tools search {shlex.quote(str(arguments.get('query') or 'WORDS'))}"]
        case "tool_call":
            given = arguments.get("arguments")
            shown = "JSON" if given is None else shlex.quote(json.dumps(given))
            return [f"counterfoil call {arguments.get('name')} {shown}"]
        case _:
            return _commands_of_chain(step)


def _commands_of_chain(step: View) -> Sequence[str]:
    run_id, plan_id, name = (part(step, "arguments").get(name) for name in ("run_id", "plan_id", "name"))
    match step.get("tool"):
        case "run" if run_id:
            return [f"counterfoil runs resume {run_id}"]
        case "run" if name:
            return [f"counterfoil run {name} --input JSON"]
        case "run":
            return [f"counterfoil run --plan-id {plan_id}" if plan_id else "counterfoil run FILE"]
        case "plan":
            return ["counterfoil plan FILE"]
        case _:
            return []
