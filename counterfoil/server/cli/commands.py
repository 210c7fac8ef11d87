"""The commands' names, arguments and options; each hands over to the module that does it.

`--config F` and `--json` are taken off the line before typer sees it, so they stand wherever the person puts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from . import approvals, benching, calls, checks, initialise, ledger_commands, playing, tools
from .calls import Resolution, Then
from .exits import Exit, usage
from .invocation import Invocation

EVERYWHERE = "Every command takes --config F (default: counterfoil.toml here or in a folder above) and --json."

app = typer.Typer(
    name="counterfoil",
    help="An MCP server that keeps the other half of every tool call.",
    epilog=EVERYWHERE,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
tools_app = typer.Typer(no_args_is_help=True, help="What may be called.", epilog=EVERYWHERE)
approvals_app = typer.Typer(no_args_is_help=True, help="What waits for a person's decision.", epilog=EVERYWHERE)
ledger_app = typer.Typer(no_args_is_help=True, help="What was done.", epilog=EVERYWHERE)
app.add_typer(tools_app, name="tools")
app.add_typer(approvals_app, name="approvals")
app.add_typer(ledger_app, name="ledger")

CallId = Annotated[str, typer.Argument(metavar="ID", help="A call, such as call_...")]
ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="An approval, such as apr_...")]
Digest = Annotated[str | None, typer.Option(metavar="D", help="The digest that is decided; another one is refused.")]
Note = Annotated[str | None, typer.Option(metavar="T", help="A remark, recorded with the decision.")]


def run(invocation: Invocation, rest: Sequence[str]) -> int:
    """Carry out a line without its shared options.

    Raises:
        CommandError: it could not be carried out.
    """
    command = typer.main.get_command(app)
    try:
        result = command.main(args=list(rest), prog_name="counterfoil", standalone_mode=False, obj=invocation)
    except typer.TyperException as error:
        raise usage(_shorter(error.format_message(), invocation)) from error
    except typer.Abort:
        return Exit.INTERRUPTED
    return result if isinstance(result, int) else Exit.DONE


def _shorter(message: str, invocation: Invocation) -> str:
    """Without its subcommand a command brings its help page as the error: for a person, not for a program."""
    return "a command is missing; see --help" if invocation.json and message.startswith("Usage:") else message


@app.command(epilog=EVERYWHERE)
def serve(transport: Annotated[str, typer.Option(help="stdio")] = "stdio") -> int:
    """Serve MCP over stdio."""
    raise usage(f"serve --transport {transport}: 'serve' is the first word of the line: counterfoil serve [options]")


@app.command(epilog=EVERYWHERE)
def demo(
    context: typer.Context,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Work in this folder and leave it.")] = None,
) -> int:
    """See the main job on real parts, in under a minute."""
    return playing.demo(context.obj, keep)


@app.command(epilog=EVERYWHERE)
def init(
    context: typer.Context,
    example: Annotated[bool, typer.Option("--example", help="Also write tools that run at once.")] = False,  # noqa: FBT002 (a flag of typer)
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,  # noqa: FBT002
) -> int:
    """Write a commented counterfoil.toml here."""
    return initialise.init(context.obj, example=example, force=force)


@app.command(epilog=EVERYWHERE)
def check(context: typer.Context) -> int:
    """Check configuration, tools and policy."""
    return checks.check(context.obj)


@app.command(epilog=EVERYWHERE)
def bench(
    context: typer.Context,
    *,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be repeated.")] = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", min=1, help="So many rounds of everything.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; the figures are rough.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 where a target is missed.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the ratios.")] = None,
    search_data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also judge the search by the labelled queries in this folder.")
    ] = None,
) -> int:
    """Measure how fast this is, each figure beside its reference."""
    options = benching.Options(tuple(only or ()), rounds, quick, strict, svg, search_data)
    return benching.bench(context.obj, options)


@app.command(epilog=EVERYWHERE)
def call(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A tool; see: counterfoil tools list")],
    arguments: Annotated[str, typer.Argument(metavar="[JSON|-]", help="A JSON object; - reads it from stdin.")] = "{}",
    *,
    key: Annotated[str | None, typer.Option(metavar="K", help="Idempotency key: one key, one effect.")] = None,
    wait: Annotated[float | None, typer.Option(metavar="S", min=0, help="Wait at most this many seconds.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be decided; do nothing.")] = False,
) -> int:
    """Call a tool, through the gate."""
    return calls.call(context.obj, name, arguments, calls.CallOptions(key, wait, dry_run))


@app.command(epilog=EVERYWHERE)
def status(
    context: typer.Context,
    call_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="A call; without one, what is open.")] = None,
    wait: Annotated[float, typer.Option(metavar="S", min=0, help="Wait at most this many seconds for its end.")] = 0,
) -> int:
    """Show one call, or what is open."""
    return calls.status(context.obj, call_id, wait)


@app.command(epilog=EVERYWHERE)
def reconcile(
    context: typer.Context,
    call_id: CallId,
    *,
    resolution: Annotated[Resolution | None, typer.Option(help="What you found out; needs --evidence.")] = None,
    evidence: Annotated[str | None, typer.Option(metavar="TEXT", help="How you know.")] = None,
    output: Annotated[str | None, typer.Option(metavar="JSON", help="With happened: what the tool returned.")] = None,
    external_reference: Annotated[str | None, typer.Option(metavar="R", help="With happened: its id there.")] = None,
    then: Annotated[Then | None, typer.Option(help="With not_happened: send it again, or let it fail.")] = None,
) -> int:
    """Find out what happened to a call.

    Asks the call's probe, or records your word: --resolution and --evidence.
    """
    word = calls.Word(resolution, evidence, output, external_reference, then)
    return calls.reconcile(context.obj, call_id, word)


@tools_app.command("list", epilog=EVERYWHERE)
def tools_list(context: typer.Context) -> int:
    """Every registered tool."""
    return tools.show_all(context.obj)


@tools_app.command("search", epilog=EVERYWHERE)
def tools_search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What you want to do, in your words.")],
    limit: Annotated[int, typer.Option(min=1, max=20)] = 5,
) -> int:
    """Find tools as a model finds them."""
    return tools.search(context.obj, query, limit)


@tools_app.command("show", epilog=EVERYWHERE)
def tools_show(context: typer.Context, name: Annotated[str, typer.Argument(help="A tool.")]) -> int:
    """One tool: its contract and schemas."""
    return tools.show(context.obj, name)


@approvals_app.command("list", epilog=EVERYWHERE)
def approvals_list(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,  # noqa: FBT002
) -> int:
    """What waits for a decision."""
    return approvals.show_all(context.obj, pending_only=not everything)


@approvals_app.command("show", epilog=EVERYWHERE)
def approvals_show(context: typer.Context, approval_id: ApprovalId) -> int:
    """One proposal, exactly."""
    return approvals.show(context.obj, approval_id)


@approvals_app.command("approve", epilog=EVERYWHERE)
def approvals_approve(context: typer.Context, approval_id: ApprovalId, digest: Digest = None, note: Note = None) -> int:
    """Let this exact proposal be sent, once."""
    return approvals.decide(context.obj, approval_id, approvals.Decision("approve", digest, note))


@approvals_app.command("reject", epilog=EVERYWHERE)
def approvals_reject(context: typer.Context, approval_id: ApprovalId, digest: Digest = None, note: Note = None) -> int:
    """Refuse this proposal."""
    return approvals.decide(context.obj, approval_id, approvals.Decision("reject", digest, note))


@ledger_app.command("verify", epilog=EVERYWHERE)
def ledger_verify(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="An export; without one, this ledger.")] = None,
) -> int:
    """Check each chain of events, link by link."""
    return ledger_commands.verify(context.obj, file)


@ledger_app.command("check", epilog=EVERYWHERE)
def ledger_check(context: typer.Context) -> int:
    """Check that the current state is what the events say."""
    return ledger_commands.check(context.obj)


@ledger_app.command("export", epilog=EVERYWHERE)
def ledger_export(context: typer.Context) -> int:
    """Write every event to stdout, as JSON Lines."""
    return ledger_commands.export(context.obj)


@ledger_app.command("stats", epilog=EVERYWHERE)
def ledger_stats(context: typer.Context) -> int:
    """Counts and sizes."""
    return ledger_commands.stats(context.obj)


@ledger_app.command("backup", epilog=EVERYWHERE)
def ledger_backup(
    context: typer.Context, path: Annotated[Path, typer.Argument(help="A file that is not there yet.")]
) -> int:
    """Copy the ledger while it is in use."""
    return ledger_commands.backup(context.obj, path)


@ledger_app.command("migrate", epilog=EVERYWHERE)
def ledger_migrate(context: typer.Context) -> int:
    """Bring an older ledger to this version."""
    return ledger_commands.migrate(context.obj)
