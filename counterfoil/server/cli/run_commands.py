"""The names, arguments and options of `runs`; each command hands over to `runs`."""

from __future__ import annotations

from typing import Annotated

import typer

from . import graphs, runs
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
