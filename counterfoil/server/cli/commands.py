"""The commands' names, arguments and options; each hands over to the module that does it.

`--config F` and `--json` are taken off the line before typer sees it, so they stand wherever the person puts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from . import (
    approvals,
    benching,
    calls,
    chains,
    checks,
    examination,
    holds,
    initialise,
    later,
    ledger_commands,
    playing,
    policy,
    signalling,
    tools,
)
from .calls import Resolution, Then
from .clients import ALL, CLIENTS, Transport
from .exits import Exit, usage
from .graphs import Format
from .invocation import Invocation
from .run_commands import runs_app
from .wording import EVERYWHERE, Output, Wait, example

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
policy_app = typer.Typer(no_args_is_help=True, help="What is allowed, and why.", epilog=EVERYWHERE)
ledger_app = typer.Typer(no_args_is_help=True, help="What was done.", epilog=EVERYWHERE)
app.add_typer(tools_app, name="tools")
app.add_typer(runs_app, name="runs")
app.add_typer(approvals_app, name="approvals")
app.add_typer(ledger_app, name="ledger")
app.add_typer(policy_app, name="policy")

AnyId = Annotated[str, typer.Argument(metavar="ID", help="A call or a run, such as call_... or run_...")]
ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="An approval, such as apr_...")]
ApprovalIds = Annotated[list[str], typer.Argument(metavar="ID...", help="Approvals, such as apr_...; each is shown.")]
Digests = Annotated[
    list[str] | None,
    typer.Option("--digest", metavar="D", help="The digest that is decided, one for each ID; another one is refused."),
]
ClientName = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"A client to set up: {', '.join(CLIENTS)} or {ALL}.")
]
Note = Annotated[str | None, typer.Option(metavar="T", help="A remark, recorded with the decision.")]


def run(invocation: Invocation, rest: Sequence[str]) -> int:
    """Carry out a line without its shared options.

    Raises:
        CommandError: it could not be carried out.
    """
    command = typer.main.get_command(app)
    later.refuse(rest, getattr(command, "commands", {}))
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


@app.command(epilog=example("counterfoil serve --config counterfoil.toml"))
def serve(
    transport: Annotated[str, typer.Option(help="stdio or http (default: server.transport)")] = "",
    host: Annotated[str, typer.Option(help="over HTTP: 127.0.0.1, ::1 or localhost")] = "",
    port: Annotated[str, typer.Option(help="over HTTP; 0 takes a free one")] = "",
) -> int:
    """Serve MCP over stdio, or over HTTP on the loopback."""
    said = " ".join(["serve", *filter(None, (transport, host, port))])
    raise usage(f"{said}: 'serve' is the first word of the line: counterfoil serve [options]")


@app.command(epilog=example("counterfoil demo"))
def demo(
    context: typer.Context,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Work in this folder and leave it.")] = None,
) -> int:
    """See the main job on real parts, in under a minute."""
    return playing.demo(context.obj, keep)


@app.command(epilog=example("counterfoil init --example"))
def init(
    context: typer.Context,
    with_example: Annotated[bool, typer.Option("--example", help="Also write tools that run at once.")] = False,  # noqa: FBT002 (a flag of typer)
    client: ClientName = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,  # noqa: FBT002
) -> int:
    """Write a commented counterfoil.toml here."""
    return initialise.init(context.obj, initialise.Wish(example=with_example, force=force, client=client))


@app.command(epilog=example("counterfoil doctor --client claude-code"))
def doctor(
    context: typer.Context,
    client: ClientName = None,
    transport: Annotated[Transport, typer.Option(help="With --client: how it reaches the server.")] = Transport.STDIO,
) -> int:
    """Say what works here and what to do about the rest; with --client, how that client is set up."""
    return examination.doctor(context.obj, client, transport)


@app.command(epilog=example("counterfoil check"))
def check(context: typer.Context) -> int:
    """Check configuration, tools and policy."""
    return checks.check(context.obj)


@app.command(epilog=example("counterfoil bench --quick"))
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


@app.command(epilog=example("""counterfoil call shop_order '{"order_id": "ord_1"}'"""))
def call(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A tool; see: counterfoil tools list")],
    arguments: Annotated[str, typer.Argument(metavar="[JSON|-]", help="A JSON object; - reads it from stdin.")] = "{}",
    *,
    key: Annotated[str | None, typer.Option(metavar="K", help="Idempotency key: one key, one effect.")] = None,
    wait: Wait = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be decided; do nothing.")] = False,
) -> int:
    """Call a tool, through the gate."""
    return calls.call(context.obj, name, arguments, calls.CallOptions(key, wait, dry_run))


@app.command(epilog=example("counterfoil plan plan.json"))
def plan(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FILE|-", help="A plan in JSON: a file, - for stdin, or the JSON.")],
    graph: Annotated[Format | None, typer.Option(help="Draw it in this form instead.")] = None,
    output: Output = None,
) -> int:
    """Check a plan and show what it would do and need; nothing runs."""
    return chains.plan(context.obj, source, graph, output)


@app.command("run", epilog=example("""counterfoil run plan.json --input '{"order_id": "ord_1"}'"""))
def run_plan(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(metavar="FILE|-|NAME", help="A plan in JSON: a file, - for stdin, the JSON; or a stored plan."),
    ] = None,
    *,
    plan_id: Annotated[str | None, typer.Option(metavar="ID", help="A plan that `plan` has kept.")] = None,
    run_id: Annotated[str | None, typer.Option(metavar="ID", help="A run to take up.")] = None,
    given: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Laid over the plan's input.")] = None,
    key: Annotated[str | None, typer.Option(metavar="K", help="Request key: one key, one run.")] = None,
    wait: Wait = None,
) -> int:
    """Run a plan, and drive it here until it is finished or waits for somebody.

    After Ctrl-C any server takes it up.
    """
    return chains.run(context.obj, chains.RunOptions(source, plan_id, run_id, given, key, wait))


@app.command(epilog=example("counterfoil status call_..."))
def status(
    context: typer.Context,
    call_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A call or run; without one, what is open.")
    ] = None,
    wait: Annotated[float, typer.Option(metavar="S", min=0, help="Wait at most this many seconds for its end.")] = 0,
) -> int:
    """Show one call or run, or what is open."""
    return calls.status(context.obj, call_id, wait)


@app.command(epilog=example('counterfoil reconcile call_... --resolution happened --evidence "it is in their list"'))
def reconcile(
    context: typer.Context,
    call_id: AnyId,
    *,
    resolution: Annotated[Resolution | None, typer.Option(help="What you found out; needs --evidence.")] = None,
    evidence: Annotated[str | None, typer.Option(metavar="TEXT", help="How you know.")] = None,
    output: Annotated[str | None, typer.Option(metavar="JSON", help="With happened: what the tool returned.")] = None,
    external_reference: Annotated[str | None, typer.Option(metavar="R", help="With happened: its id there.")] = None,
    then: Annotated[Then | None, typer.Option(help="With not_happened: send it again, or let it fail.")] = None,
) -> int:
    """Find out what happened to a call, or to all of a run.

    Asks the call's probe, or records your word: --resolution and --evidence. A run is settled as far as its calls can
    be, and goes on.
    """
    word = calls.Word(resolution, evidence, output, external_reference, then)
    return calls.reconcile(context.obj, call_id, word)


@tools_app.command("list", epilog=example("counterfoil tools list"))
def tools_list(context: typer.Context) -> int:
    """Every registered tool."""
    return tools.show_all(context.obj)


@tools_app.command("search", epilog=example('counterfoil tools search "refund an order"'))
def tools_search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What you want to do, in your words.")],
    limit: Annotated[int, typer.Option(min=1, max=20)] = 5,
) -> int:
    """Find tools as a model finds them."""
    return tools.search(context.obj, query, limit)


@tools_app.command("show", epilog=example("counterfoil tools show shop_refund"))
def tools_show(context: typer.Context, name: Annotated[str, typer.Argument(help="A tool.")]) -> int:
    """One tool: its contract and schemas."""
    return tools.show(context.obj, name)


@approvals_app.command("list", epilog=example("counterfoil approvals list --all"))
def approvals_list(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,  # noqa: FBT002
) -> int:
    """What waits for a decision."""
    return approvals.show_all(context.obj, pending_only=not everything)


@approvals_app.command("show", epilog=example("counterfoil approvals show apr_..."))
def approvals_show(context: typer.Context, approval_id: ApprovalId) -> int:
    """One proposal, exactly."""
    return approvals.show(context.obj, approval_id)


@approvals_app.command("approve", epilog=example('counterfoil approvals approve apr_... --note "customer called"'))
def approvals_approve(
    context: typer.Context, approval_ids: ApprovalIds, digests: Digests = None, note: Note = None
) -> int:
    """Let exactly this be sent, once."""
    return approvals.decide(context.obj, approval_ids, approvals.Decision("approve", tuple(digests or ()), note))


@approvals_app.command("reject", epilog=example('counterfoil approvals reject apr_... --note "wrong order"'))
def approvals_reject(
    context: typer.Context, approval_ids: ApprovalIds, digests: Digests = None, note: Note = None
) -> int:
    """Refuse what was proposed."""
    return approvals.decide(context.obj, approval_ids, approvals.Decision("reject", tuple(digests or ()), note))


@approvals_app.command("revoke", epilog=example('counterfoil approvals revoke apr_... --note "changed my mind"'))
def approvals_revoke(
    context: typer.Context, approval_ids: ApprovalIds, digests: Digests = None, note: Note = None
) -> int:
    """Take back what was proposed or approved, as long as it was not sent."""
    return approvals.decide(context.obj, approval_ids, approvals.Decision("revoke", tuple(digests or ()), note))


@app.command("hold", epilog=example('counterfoil hold tool shop_refund --reason "wrong prices"'))
def hold(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="all, tool, tenant, subject or run.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="T", help="Told to whoever is held.")] = None,
) -> int:
    """Let nothing of these be sent until it is released; alone: what is held."""
    return holds.hold(context.obj, kind, name, reason)


@app.command("release", epilog=example("counterfoil release tool shop_refund"))
def release(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="all, tool, tenant, subject or run.")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one.")] = None,
) -> int:
    """Let what was held be sent again."""
    return holds.release(context.obj, kind, name)


@app.command("signal", epilog=example("counterfoil signal run_... ship"))
def signal(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run, or alone a direct call, such as call_...")],
    step: Annotated[str | None, typer.Argument(metavar="[STEP]", help="Its step, such as ship or ship[3].")] = None,
) -> int:
    """Have the far side asked that accepted a step and may be done; its answer decides."""
    return signalling.signal(context.obj, run_id, step)


@policy_app.command(
    "explain", epilog=example("""counterfoil policy explain shop_refund '{"order_id": "ord_1", "amount": 150}'""")
)
def policy_explain(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TOOL", help="A tool; see: counterfoil tools list")],
    arguments: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="A JSON object; without it, what is known before.")
    ] = None,
    *,
    subject: Annotated[
        str | None, typer.Option(metavar="S", help="Who asks (default: the configuration's own).")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="T", help="Of which tenant.")] = None,
    scope: Annotated[
        list[str] | None, typer.Option(metavar="S", help="With this scope alone; may be repeated.")
    ] = None,
) -> int:
    """Say what would be decided about a call, and by which rule; nothing is recorded."""
    return policy.explain(context.obj, name, arguments, policy.Asker(subject, tenant, tuple(scope or ())))


@ledger_app.command("verify", epilog=example("counterfoil ledger verify ledger.jsonl"))
def ledger_verify(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="An export; without one, this ledger.")] = None,
) -> int:
    """Check each chain of events, link by link."""
    return ledger_commands.verify(context.obj, file)


@ledger_app.command("check", epilog=example("counterfoil ledger check"))
def ledger_check(context: typer.Context) -> int:
    """Check that the current state is what the events say."""
    return ledger_commands.check(context.obj)


@ledger_app.command("export", epilog=example("counterfoil ledger export > ledger.jsonl"))
def ledger_export(context: typer.Context) -> int:
    """Write every event to stdout, as JSON Lines."""
    return ledger_commands.export(context.obj)


@ledger_app.command("stats", epilog=example("counterfoil ledger stats --json"))
def ledger_stats(context: typer.Context) -> int:
    """Counts and sizes."""
    return ledger_commands.stats(context.obj)


@ledger_app.command("backup", epilog=example("counterfoil ledger backup copy.db"))
def ledger_backup(
    context: typer.Context, path: Annotated[Path, typer.Argument(help="A file that is not there yet.")]
) -> int:
    """Copy the ledger while it is in use."""
    return ledger_commands.backup(context.obj, path)


@ledger_app.command("migrate", epilog=example("counterfoil ledger migrate"))
def ledger_migrate(context: typer.Context) -> int:
    """Bring an older ledger to this version."""
    return ledger_commands.migrate(context.obj)
