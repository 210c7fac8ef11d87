"""`check`: is this configuration right? Its tools, their contracts, the policy and the policy's own tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..secrets import SecretError, resolve
from . import render
from .doors import configuration, with_tools
from .exits import CommandError, Exit
from .invocation import Invocation
from .ports import Tools
from .screen import Screen
from .tools import summaries
from .visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...registry.policy_check import Finding, PolicyTest
    from ..config import Configuration


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found; `findings` have severity, rule_id and text."""

    tools: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong; notes are not wrong."""
        return not any(finding["severity"] == "error" for finding in self.findings)


def check(invocation: Invocation) -> int:
    """Check and report."""
    path = configuration(invocation).path
    checked = _checked(invocation)
    answer = {"ok": checked.ok, "config": str(path), "tools": checked.tools, "findings": checked.findings}
    Screen.of(invocation).answer(answer, _report(str(path), checked))
    return Exit.DONE if checked.ok else Exit.NO


def _checked(invocation: Invocation) -> Checked:
    try:
        return with_tools(invocation, _of_tools)
    except CommandError as error:
        if error.code != "configuration":
            raise
        texts = error.message.splitlines()  # one for each problem, each with its place
        return Checked([], [{"severity": "error", "rule_id": None, "text": text} for text in texts])


def _of_tools(app: Tools) -> Checked:
    from ...registry.policy_check import Severity  # noqa: PLC0415 (only this command needs it)
    from ...registry.policy_check import check as check_policy  # noqa: PLC0415 (as above)
    from ..http_tools.findings import findings as of_described  # noqa: PLC0415 (as above)

    found = check_policy(app.policy, _tests(app), app.catalogue.contracts())
    found = sorted(
        [*found, *of_described(app.config), *_of_tokens(app.config)], key=lambda one: list(Severity).index(one.severity)
    )
    return Checked(
        summaries(app),
        [{"severity": str(one.severity), "rule_id": one.rule_id, "text": _placed(app, one)} for one in found],
    )


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
        parts += [render.tools_table(checked.tools), Text("")]
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
