"""The names, arguments and options of `runs`; each command hands over to `runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import graphs, replaying, runs
from .chains import RunOptions
from .graphs import Drawing, Format
from .wording import EVERYWHERE, Output, Wait, example

runs_app = typer.Typer(no_args_is_help=True, help="What became of plans.", epilog=EVERYWHERE)
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run, such as run_...")]


@runs_app.command("list", epilog=example("counterfoil runs list"))
def runs_list(
    context: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most so many.")] = 50,
) -> int:
    """Every run, newest first."""
    return runs.show_all(context.obj, limit)


@runs_app.command("show", epilog=example("counterfoil runs show run_..."))
def runs_show(
    context: typer.Context,
    run_id: RunId,
    everything: Annotated[bool, typer.Option("--all", help="Every step, call and event.")] = False,  # noqa: FBT002
) -> int:
    """One run: its steps, calls, evidence and timeline, and why it stopped."""
    return runs.show(context.obj, run_id, everything=everything)


@runs_app.command("watch", epilog=example("counterfoil runs watch run_..."))
def runs_watch(context: typer.Context, run_id: RunId) -> int:
    """Watch a run until it is finished or waits for somebody; Ctrl-C ends only the watching."""
    return runs.watch(context.obj, run_id)


@runs_app.command("resume", epilog=example("counterfoil runs resume run_..."))
def runs_resume(context: typer.Context, run_id: RunId, wait: Wait = None) -> int:
    """Take a run up, and drive it here."""
    return runs.resume(context.obj, run_id, wait)


@runs_app.command("fork", epilog=example("counterfoil runs fork run_... --from-step refund"))
def runs_fork(
    context: typer.Context,
    run_id: RunId,
    from_step: Annotated[
        str | None, typer.Option("--from-step", metavar="STEP", help="Run this step and all behind it anew.")
    ] = None,
    given: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="Laid over the input that it had.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="K", help="Another key is another fork.")] = None,
    wait: Wait = None,
) -> int:
    """Go on from a finished run in a new one: what it did is not done again."""
    return runs.fork(context.obj, run_id, RunOptions(from_step=from_step, input=given, key=key, wait_s=wait))


@runs_app.command("replay", epilog=example("counterfoil runs replay run_... --rules changed.toml"))
def runs_replay(
    context: typer.Context,
    run_id: RunId,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="Try this plan in place of the run's own; - reads stdin.")
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Try the tools and rules of this configuration; --config has the ledger."),
    ] = None,
) -> int:
    """Say what another plan or configuration would change; nothing is called. Exit 1 if anything differs."""
    return replaying.replay(context.obj, run_id, plan, rules)


@runs_app.command("cancel", epilog=example('counterfoil runs cancel run_... --reason "wrong order"'))
def runs_cancel(
    context: typer.Context,
    run_id: RunId,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; it is recorded.")] = None,
) -> int:
    """Let nothing further start; say which effects stand."""
    return runs.cancel(context.obj, run_id, reason)


@runs_app.command("graph", epilog=example("counterfoil runs graph run_... --format svg --output run.svg"))
def runs_graph(
    context: typer.Context,
    run_id: RunId,
    format_: Annotated[Format, typer.Option("--format", help="What it is written in.")] = Format.MERMAID,
    output: Output = None,
) -> int:
    """Draw a run: its steps, what waits for what, and how each stands."""
    return graphs.draw_run(context.obj, run_id, Drawing(format_, output))
