"""`runs replay`: what would be different in a recorded run under another plan or configuration. Nothing is called,
nothing is recorded, and the ledger is opened for reading only.
"""  # noqa: D205 (one sentence)

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...visible import visible
from . import render
from .answer import View, part, parts
from .documents import read_document
from .doors import configuration, with_tools
from .exits import CommandError, Exit
from .invocation import Invocation
from .runs import is_run
from .screen import Screen

if TYPE_CHECKING:
    from ...canonical import JsonValue
    from ...ledger.rows import CallRow
    from ...runtime.plan.checking import PlanRules
    from ..config import Configuration
    from .ports import Tools

_COLUMNS: Final = ("verdict", "rule_id", "assurance", "wave", "state")


def replay(invocation: Invocation, run_id: str, plan: str | None, rules: Path | None) -> int:
    """Play a run through; no where anything would be different."""
    is_run(run_id)
    config = configuration(invocation)
    document = None if plan is None else read_document(plan)

    def use(tools: Tools) -> View:
        return asyncio.run(_played(config, tools, run_id, document))

    view = with_tools(invocation if rules is None else replace(invocation, config=rules), use)
    Screen.of(invocation).answer(view, _shown(view))
    return Exit.DONE if view["same"] else Exit.NO


async def _played(config: Configuration, tools: Tools, run_id: str, document: JsonValue) -> View:
    """What is played with has the contracts of these tools, and none of their hands."""
    from ...ledger.witness import recorded, witness  # noqa: PLC0415 (each command loads its own part)
    from ...runtime.chain.replay import Replay  # noqa: PLC0415
    from ...runtime.plan.problems import PlanInvalidError  # noqa: PLC0415
    from ...runtime.plan.stored import from_stored  # noqa: PLC0415
    from ..app import keys_of  # noqa: PLC0415

    if not config.ledger_path.exists():
        raise CommandError(Exit.LEDGER, "ledger_missing", f"there is no ledger at {config.ledger_path} yet")
    with witness(
        config.ledger_path,
        payload_secrets=keys_of(config, config.ledger.payload_keys, ("ledger", "payload_keys")),
        approval_secrets=keys_of(config, config.approvals.keys, ("approvals", "keys")),
    ) as ledger:
        kept = ledger.look(recorded(run_id))
        if kept is None:
            raise CommandError(Exit.NO, "not_found", f"there is no run {visible(run_id[:80])} in this ledger")

        async def read(row: CallRow) -> JsonValue:
            return None if row.output_payload is None else json.loads(ledger.open_payload(row.output_payload))

        plan = from_stored(json.loads(ledger.open_payload(kept.plan.payload)))
        given = json.loads(ledger.open_payload(kept.found.run.input_payload))
        try:
            return (await Replay(kept, plan, given, _rules(tools), read).play(document)).wire()
        except PlanInvalidError as error:
            status = {"then": kept.found.run.status, "now": "plan_invalid"}
            errors = [problem.wire() for problem in error.problems]
            return {"run_id": run_id, "same": False, "status": status, "steps": [], "errors": errors}


def _rules(tools: Tools) -> PlanRules:
    from ...runtime.chain.replay import without_hands  # noqa: PLC0415 (only this command needs it)
    from ...runtime.plan.checking import PlanLimits, PlanRules  # noqa: PLC0415
    from ..limits import budgets_of  # noqa: PLC0415

    limits = tools.config.limits
    catalogue = without_hands(entry.contract for entry in tools.catalogue.entries())
    most = PlanLimits(limits.plan_steps, limits.for_each, limits.max_parallel)
    return PlanRules(catalogue, tools.policy, budgets_of(tools.config.budgets), most)


def _shown(view: View) -> RenderableType:
    status, lines = part(view, "status"), parts(view, "steps")
    told: list[RenderableType] = [Text(f"{visible(str(view['run_id']))}: {_summary(view)}")]
    if parts(view, "errors"):
        told += [Text(f"  {visible(_problem(error))}", style="red") for error in parts(view, "errors")]
    told.append(Text.assemble("status  ", _change(status.get("then"), status.get("now"))))
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "verdict", "rule", "assurance", "arguments", "wave", "state"):
        table.add_column(heading, overflow="fold")
    for line in lines:
        table.add_row(*_cells(line))
    return Group(*told, Text(""), table) if lines else Group(*told)


def _summary(view: View) -> str:
    if parts(view, "errors"):
        return "its plan would be refused now" + ("; then > now, as far as it is known" if parts(view, "steps") else "")
    different = sum(bool(line.get("differs")) for line in parts(view, "steps"))
    if view["same"]:
        return "nothing would be different"
    return f"{different} of {len(parts(view, 'steps'))} steps would be different; then > now"


def _problem(error: View) -> str:
    return f"{error.get('step') or 'the plan'}: {error.get('message')} ({error.get('code')})"


def _cells(line: View) -> list[Text]:
    then, now = part(line, "then"), part(line, "now")
    style = "bold" if line.get("differs") else "dim"
    name = Text(visible(str(line.get("step"))), style=style)
    if not then or not now:
        name.append(" (new)" if now else " (gone)")
    cells = {column: _change(then.get(column), now.get(column)) for column in _COLUMNS}
    arguments = render.word(line.get("arguments"))
    return [name, cells["verdict"], cells["rule_id"], cells["assurance"], arguments, cells["wave"], cells["state"]]


def _change(then: object, now: object) -> Text:
    """What it was and is, once where that is the same."""
    return render.word(now) if then == now else Text.assemble(render.word(then), " > ", render.word(now))
