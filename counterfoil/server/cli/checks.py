"""`check`: is this configuration right? Its tools, their contracts, the policy and the policy's own tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...visible import visible
from ..secrets import SecretError, resolve
from . import render
from .doors import configuration, located, with_tools
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import Tools
from .screen import Screen
from .stored import section
from .stored import summaries as plans_of
from .tools import summaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...registry.policy_check import Finding, PolicyTest
    from ..config import Configuration


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found; `findings` have severity, rule_id and text."""

    tools: list[dict[str, Any]]
    plans: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong; notes are not wrong."""
        return not any(finding["severity"] == "error" for finding in self.findings)


def check(invocation: Invocation) -> int:
    """Check and report."""
    path = located(invocation).absolute()
    secrets = _secrets(path)
    _require_readable(invocation, path, secrets)
    checked = _checked(invocation, secrets)
    answer = {"ok": checked.ok, "config": str(path), "tools": checked.tools, "plans": checked.plans}
    answer["findings"] = checked.findings
    Screen.of(invocation).answer(answer, _report(str(path), checked))
    return Exit.DONE if checked.ok else Exit.NO


def _secrets(path: Path) -> list[Finding]:
    from .check_secrets import secret_findings  # noqa: PLC0415 (only this command needs it)

    return secret_findings(path)


def _require_readable(invocation: Invocation, path: Path, secrets: list[Finding]) -> None:
    """A file that cannot be read ends the command; what is known of its secrets is said all the same."""
    try:
        configuration(invocation)
    except CommandError as error:
        said = [error.message, *(f"{path}: {one.severity}: {one.text}" for one in secrets)]
        raise CommandError(error.exit_code, error.code, "\n".join(said)) from error


def _checked(invocation: Invocation, secrets: list[Finding]) -> Checked:
    try:
        return with_tools(invocation, lambda app: _of_tools(app, secrets))
    except CommandError as error:
        if error.code != "configuration":
            raise
        texts = error.message.splitlines()  # one for each problem, each with its place
        wrong = [{"severity": "error", "rule_id": None, "text": text} for text in texts]
        return Checked([], [], wrong + [_shown(one, one.text) for one in secrets])


def _of_tools(app: Tools, secrets: list[Finding]) -> Checked:
    from ...registry.policy_check import Severity  # noqa: PLC0415 (only this command needs it)
    from ...registry.policy_check import check as check_policy  # noqa: PLC0415 (as above)
    from ..http_tools.findings import findings as of_described  # noqa: PLC0415 (as above)

    found = check_policy(app.policy, _tests(app), app.catalogue.contracts())
    found = [
        *found,
        *of_described(app.config),
        *app.plan_findings(),
        *_of_tokens(app.config),
        *secrets,
    ]
    found = sorted(found, key=lambda one: list(Severity).index(one.severity))
    return Checked(summaries(app), plans_of(app), [_shown(one, _placed(app, one)) for one in found])


def _shown(finding: Finding, text: str) -> dict[str, Any]:
    return {"severity": str(finding.severity), "rule_id": finding.rule_id, "text": text}


def _placed(app: Tools, finding: Finding) -> str:
    """What was found of a rule, with the line that it begins on; the others say theirs themselves."""
    index = next((n for n, rule in enumerate(app.config.policy) if rule.id == finding.rule_id), None)
    return finding.text if index is None else str(app.config.problem(("policy", index), finding.text))


def _of_tokens(config: Configuration) -> Iterator[Finding]:
    """Tokens that have no value here; over HTTP a start is refused for that, over stdio they are not looked at."""
    from ...registry.policy_check import Finding, Severity  # noqa: PLC0415 (as above)

    severity = Severity.ERROR if config.server.transport == "http" else Severity.WARNING
    for index, entry in enumerate(config.auth.tokens):
        try:
            resolve(entry.token, config.path.parent)
        except SecretError as error:
            said = f"{error}; serving over HTTP needs it, and a server is started with its own variables"
            yield Finding(severity, "", str(config.problem(("auth", "tokens", index, "token"), said)))


def _tests(app: Tools) -> list[PolicyTest]:
    """The tests that stand beside the rules, asked as the configuration's own principal."""
    from ...registry.policy_check import PolicyTest  # noqa: PLC0415

    who = app.local
    return [
        PolicyTest(
            tool=test.tool,
            expect=test.expect,
            arguments=test.arguments,
            tenant=who.tenant,
            subject=who.subject,
            scopes=who.scopes,
            rule_id=rule.id,
        )
        for rule in app.config.policy
        for test in rule.test
    ]


def _report(path: str, checked: Checked) -> RenderableType:
    parts: list[RenderableType] = [Text(visible(path), style="dim")]
    if checked.tools or checked.ok:  # where a module is broken, nobody knows which tools there are
        parts += [render.tools_table(checked.tools), *section(checked.plans), Text("")]
    for finding in checked.findings:
        wrong = finding["severity"] == "error"
        rule = f" ({finding['rule_id']})" if finding["rule_id"] else ""
        text = visible(f"{finding['severity']}{rule}: {finding['text']}")
        parts.append(Text(text, style="red" if wrong else "yellow"))
    parts.append(
        Text(
            "Everything holds together." if checked.ok else "Something is wrong.",
            style="green" if checked.ok else "red",
        )
    )
    return Group(*parts)
