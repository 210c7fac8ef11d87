"""The tables of budgets and rule limits: what they give, what is refused with its place, and what the figures show."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil.registry.budgets import Budget, Budgets, Kind, RuleLimit, Scope
from counterfoil.server.app import open_app, policy_of
from counterfoil.server.cli import main
from counterfoil.server.config import ConfigError, parse
from counterfoil.server.limits import budgets_of

pytestmark = pytest.mark.anyio
HERE = Path("/etc/example/counterfoil.toml") if sys.platform != "win32" else Path("C:/example/counterfoil.toml")
RULE = "[[policy]]\nid = 'r'\nverdict = 'deny'\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_budgets_are_read_widest_first_in_stored_units() -> None:
    text = "[budgets.run]\ndestructive = 1\n[budgets.tenant]\nwindow_s = 60\ncost = 2.5\n"
    text += "[budgets.server]\nwindow_s = 3600\ncalls = 0\nelapsed_s = 1.5\n"
    assert budgets_of(parse(text, HERE).budgets) == Budgets(
        Budget(Scope.RUN, {Kind.DESTRUCTIVE: 1}),
        (
            Budget(Scope.SERVER, {Kind.CALLS: 0, Kind.ELAPSED_S: 1_500_000}, 3_600_000_000),
            Budget(Scope.TENANT, {Kind.COST: 2_500_000}, 60_000_000),
        ),
    )
    assert not budgets_of(parse("", HERE).budgets).stated


def test_a_rules_limit_reaches_the_policy() -> None:
    config = parse(RULE + "limit = { per = 'tenant', window_s = 60, calls = 3, sum = '/n', max = 5 }", HERE)
    assert policy_of(config).rules[0].limit == RuleLimit(per=Scope.TENANT, window_s=60, calls=3, sum="/n", max=5)


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("[budgets.tenant]\ncalls = 1", 1, "budgets.tenant.window_s", "required"),
        ("[budgets.tenant]\nwindow_s = 60", 1, "budgets.tenant", "it limits nothing; expected at least one of calls"),
        ("[budgets.run]\nwindow_s = 60", 2, "budgets.run.window_s", "unknown key"),
        ("[budgets.run]\ncalls = -1", 2, "budgets.run.calls", "greater than or equal to 0"),
        ("[budgets.everyone]\ncalls = 1", 1, "budgets.everyone", "unknown key"),
        (RULE + "limit = { window_s = 60 }", 4, "policy[0].limit", "it limits nothing; write calls = 20"),
        (RULE + "limit = { window_s = 60, sum = '/n' }", 4, "policy[0].limit", "sum and max go together"),
        (RULE + "limit = { window_s = 60, max = 3 }", 4, "policy[0].limit", "sum and max go together"),
        (RULE + "limit = { calls = 3 }", 4, "policy[0].limit.window_s", "required"),
        (RULE + "limit = { window_s = 60, calls = 3, per = 'run' }", 4, "policy[0].limit.per", "'subject', 'tenant'"),
        (RULE + "limit = { window_s = 60, sum = 'n', max = 3 }", 4, "policy[0].limit.sum", "JSON Pointer"),
        (RULE.replace("deny", "allow") + "limit = { window_s = 60, calls = 3 }", 1, "policy[0]", "'deny' or 'approve'"),
    ],
)
def test_what_cannot_be_right_is_refused_with_its_place(text: str, line: int, key: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, HERE)
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (line, key)
    assert says in problem.message


def test_a_rule_that_only_the_policy_finds_wrong_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        policy_of(parse("[server]\n" + RULE + "[[policy]]\nid = 'a:b'\nverdict = 'deny'\n", HERE))
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [(6, "policy[1].id")]


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_the_figures_of_a_ledger_show_what_is_used_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    config = tmp_path / "counterfoil.toml"
    config.write_text(
        '[ledger]\nurl = "sqlite+aiosqlite:///l.db"\n[python]\nmodules = ["tests.runtime.hands"]\n'
        "[policy_defaults]\nwrite = 'allow'\n[budgets.tenant]\nwindow_s = 300_000_000\ncalls = 5\n"
        "[[policy]]\nid = 'few'\ntool = 'note'\nverdict = 'deny'\nlimit = { window_s = 300_000_000, calls = 2 }\n"
    )
    async with open_app(config) as app:
        assert (await app.call("note", {"ref": "a"})).outcome == "success"
    assert main(["ledger", "stats", "--config", str(config), *options]) == 0
    out = capsys.readouterr().out
    if not options:
        assert re.search(r"tenant:local\W+calls\W+1\W+4\W+5\W+\d{4}-", out)
        return
    shown: list[dict[str, Any]] = json.loads(out)["budgets"]
    assert [(one["scope"], one["used"], one["left"]) for one in shown] == [
        ("rule:few/subject:local/me", 1, 1), ("tenant:local", 1, 4),
    ]  # fmt: skip
