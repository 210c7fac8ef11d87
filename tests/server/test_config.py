"""The configuration file: defaults as the reference says, and every problem with its place."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterfoil.registry.contract import Rate
from counterfoil.registry.vocabulary import Assurance, Effect, Verdict
from counterfoil.server.config import ConfigError, Problem, data_directory, find, load, parse, reference
from counterfoil.server.config.kinds import read_rate

if TYPE_CHECKING:
    from counterfoil.server.config import Configuration

HERE = Path("/etc/example/counterfoil.toml") if sys.platform != "win32" else Path("C:/example/counterfoil.toml")

WHOLE = """
[server]
name = "desk"
transport = "stdio"
allowed_hosts = ["tools.example"]
wait_s = 12

[ledger]
url = "sqlite+aiosqlite:///data/desk.db"
durability = "normal"
payload_keys = ["env:SEAL", "file:/run/secrets/seal"]

[principals.local]
subject = "ann"
scopes = ["*", "approve"]

[[policy]]
id = "four-eyes"
tool = "orders_*"
effect = "destructive"
when = { "/amount" = { gt = 100 }, "/kind" = { in = ["a", "b"] } }
verdict = "approve"
assurance = "second_person"
approvers = ["os:ann", "bob"]

[[policy.test]]
tool = "orders_refund"
arguments = { amount = 150 }
expect = "approve"

[[policy]]
id = "never"
tags = ["danger", "old"]
verdict = "deny"

[policy_defaults]
write = "allow"

[pools.orders]
concurrency = 4
rate = "20/s"

[python]
modules = ["my_tools", "more.tools"]
path = ["lib"]
"""


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        parse(text, HERE)
    return list(caught.value.problems)


@pytest.fixture
def whole() -> Configuration:
    return parse(WHOLE, HERE)


def test_an_empty_file_has_the_defaults_of_the_reference() -> None:
    empty = parse("", HERE)
    assert (empty.server.name, empty.server.transport, empty.server.visibility) == ("counterfoil", "stdio", "deferred")
    assert (empty.server.wait_s, empty.server.grace_s, empty.server.duplicate_window_s) == (20, 3, 900)
    assert (empty.ledger.durability, empty.ledger.reads, empty.ledger.lease_s) == ("full", "with", 30)
    assert (empty.principals.local.subject, empty.principals.local.tenant) == ("me", "local")
    assert empty.principals.local.scopes == ("*",)
    assert empty.policy_defaults.read is Verdict.ALLOW
    assert empty.policy_defaults.write is empty.policy_defaults.destructive is Verdict.APPROVE
    assert (empty.approvals.valid_s, empty.approvals.execute_within_s, empty.approvals.pending_max) == (86_400, 900, 20)
    assert (empty.limits.argument_bytes, empty.limits.output_model_bytes) == (1_000_000, 60_000)
    assert (empty.policy, empty.pools, empty.python.modules) == ((), {}, ())


def test_every_supported_key_is_read(whole: Configuration) -> None:
    first, second = whole.policy
    assert (first.effect, first.assurance, first.approvers) == (
        Effect.DESTRUCTIVE,
        Assurance.SECOND_PERSON,
        ("os:ann", "bob"),
    )
    assert first.when == {"/amount": {"gt": 100}, "/kind": {"in": ["a", "b"]}}
    assert (first.test[0].tool, first.test[0].arguments, first.test[0].expect) == (
        "orders_refund",
        {"amount": 150},
        Verdict.APPROVE,
    )
    assert (second.tags, second.verdict) == (("danger", "old"), Verdict.DENY)
    assert whole.pools["orders"].rate == "20/s"
    assert whole.ledger.payload_keys == ("env:SEAL", "file:/run/secrets/seal")


def test_relative_places_are_relative_to_the_file(whole: Configuration) -> None:
    assert whole.ledger_path == HERE.parent / "data" / "desk.db"
    assert whole.python_path == ((HERE.parent / "lib").resolve(),)


def test_an_absolute_ledger_stays_where_it_is() -> None:
    url = "sqlite+aiosqlite:////var/lib/desk.db"
    assert parse(f'[ledger]\nurl = "{url}"', HERE).ledger_path == Path("/var/lib/desk.db")


@pytest.mark.parametrize(
    ("text", "line", "table", "key", "says", "nearest"),
    [
        ("[server]\nname = 'x'\nwiat_s = 3", 3, "server", "server.wiat_s", "unknown key", "wait_s"),
        ("[sever]\nname = 'x'", 1, "sever", "sever", "unknown key", "server"),
        ("\n[server]\nwait_s = 46", 3, "server", "server.wait_s", "less than or equal to 45; got 46", None),
        ("[server]\nport = '80'", 2, "server", "server.port", "valid integer; got '80'", None),
        ("[server]\nshow_locked = 1", 2, "server", "server.show_locked", "valid boolean", None),
        ("[server]\ntransport = 'pipe'", 2, "server", "server.transport", "'stdio' or 'http'", None),
        ("[server]\ntransport = 'htp'", 2, "server", "server.transport", "'stdio' or 'http'; got 'htp'", "http"),
        ("[policy_defaults]\nwrite = 'alow'", 2, "policy_defaults", "policy_defaults.write", "got 'alow'", "allow"),
        ("server.grace_s = -1", 1, "", "server.grace_s", "greater than or equal to 0", None),
        ("[ledger]\nurl = 'mysql://x'", 2, "ledger", "ledger.url", "expected sqlite+aiosqlite:///PATH", None),
        ("[ledger]\nurl = 'sqlite+aiosqlite:///:memory:'", 2, "ledger", "ledger.url", "outlives the process", None),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\n[[policy]]\nid = 'b'",
            4,
            "policy",
            "policy[1].verdict",
            "required, and absent",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'maybe'",
            3,
            "policy",
            "policy[0].verdict",
            "'allow', 'approve' or 'deny'",
            None,
        ),
        ("[[policy]]\nid = 'a'\ntool = 'a b'\nverdict = 'deny'", 3, "policy", "policy[0].tool", "a glob", None),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\n[[policy.test]]\ntool = 'x'\nexpects = 'deny'\nexpect = 'deny'",
            6,
            "policy.test",
            "policy[0].test[0].expects",
            "unknown key",
            "expect",
        ),
        (
            '[[policy]]\nid = "a"\nverdict = "deny"\nwhen = { "/x" = { gt = 1 }, "/y" = { above = 3 } }',
            4,
            "policy",
            "policy[0].when./y",
            "'above' is no operator",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\nwhen = { x = { eq = 1 } }",
            4,
            "policy",
            "policy[0].when.x",
            "Pointer",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\nwhen = { '/x' = { matches = '(' } }",
            4,
            "policy",
            "policy[0].when./x",
            "regular expression",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\nover_mcp = true",
            1,
            "policy",
            "policy[0]",
            "belong to verdict",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'approve'\nassurance = 'none'",
            4,
            "policy",
            "policy[0].assurance",
            "'second_person'",
            None,
        ),
        (
            "[[policy]]\nid = 'a'\nverdict = 'deny'\n[[policy]]\nid = 'a'\nverdict = 'deny'",
            5,
            "policy",
            "policy[1].id",
            "another rule",
            None,
        ),
        ("[pools.orders]", 1, "pools.orders", "pools.orders", "expected concurrency, rate or both", None),
        ("[pools.orders]\nrate = 'fast'", 2, "pools.orders", "pools.orders.rate", "a rate such as 20/s", None),
        ("[pools.orders]\nrates = '1/s'\nrate = '1/s'", 2, "pools.orders", "pools.orders.rates", "unknown key", "rate"),
        ("[python]\nmodules = [\n  'good',\n  'bad-name',\n]", 4, "python", "python.modules[1]", "dotted name", None),
        ("[principals.local]\nscope = ['*']", 2, "principals.local", "principals.local.scope", "unknown key", "scopes"),
        ("[runs]\nauthority_s = 0", 2, "runs", "runs.authority_s", "greater than 0", None),
        ("[runs]\nauthority_s = inf", 2, "runs", "runs.authority_s", "finite", None),
        ("[http]\nallow_hosts = 'a.example'", 2, "http", "http.allow_hosts", "expected an array, [...]; got", None),
        ("http = 3", 1, "", "http", "expected a table; got 3", None),
    ],
)
def test_a_wrong_value_is_named_with_table_key_and_line(
    text: str, line: int, table: str, key: str, says: str, nearest: str | None
) -> None:
    (problem,) = problems_of(text)
    assert (problem.line, problem.table, problem.key, problem.nearest) == (line, table, key, nearest)
    assert says in problem.message


@pytest.mark.parametrize(
    ("text", "line", "table", "key"),
    [
        ("[ledger]\nurl = 'postgresql+asyncpg://db/x'", 2, "ledger", "ledger.url"),
        ("[auth]\nmode = 'oauth'", 2, "auth", "auth.mode"),
        ("[auth]\nmode = 'oauth'\n[[auth.tokens]]\ntoken = 'env:X'\nsubject = 'a'", 2, "auth", "auth.mode"),
        ("[auth]\nissuer = 'https://auth.example'", 2, "auth", "auth.issuer"),
        ("\n[tools.a]\neffect = 'read'\nsql = { database = 'x' }", 4, "tools.a", "tools.a.sql"),
        ("[upstreams.a]\ncommand = 'x'", 1, "upstreams.a", "upstreams.a"),
        ("[[openapi]]\nname = 'x'", 1, "openapi", "openapi[0]"),
        ("[sql.a]\nurl = 'env:X'", 1, "sql.a", "sql.a"),
        ("[files.a]\nroot = '.'", 1, "files.a", "files.a"),
        ("[approvals]\nwebhook = 'https://hook.example'", 2, "approvals", "approvals.webhook"),
    ],
)
def test_what_this_version_lacks_is_refused_and_never_ignored(text: str, line: int, table: str, key: str) -> None:
    (problem,) = problems_of(text)
    assert (problem.line, problem.table, problem.key) == (line, table, key)
    assert "not available in this version yet" in problem.message


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    problems = problems_of("[server]\nport = -1\n[sql.x]\nurl = 'env:X'\n[runs]\nauthority = 3\n")
    assert [problem.line for problem in problems] == [2, 3, 6]


def test_a_problem_reads_as_file_line_table_key_message_and_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[server]\nwiat_s = 3", HERE)
    assert str(caught.value) == f"{HERE}: line 2, [server], server.wiat_s: unknown key; did you mean wait_s?"


def test_a_misplaced_secret_is_not_repeated() -> None:
    (problem,) = problems_of("[approvals]\nkeys = ['hunter2-hunter2']")
    assert "hunter2" not in str(problem)
    assert (problem.line, problem.key) == (2, "approvals.keys[0]")


def test_a_syntax_error_carries_the_parsers_line() -> None:
    (problem,) = problems_of("[server]\nname = 'x'\nport = = 3\n")
    assert problem.line == 3
    assert problem.message.startswith("not TOML")


def test_a_syntax_error_at_the_end_carries_the_last_line() -> None:
    (problem,) = problems_of("[server]\nname = 'x'\nport =")
    assert problem.line == 3


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[server]\nname = """a\n[runs]\nx = 1\n"""\nbad = 1', 6),
        ("[server]\nname = 'a' # [runs]\n# bad = 1\nbad = 1", 4),
        ('[server]\n"name" = "a\\"]"\n"bad" = 1', 3),
        ("[server]\nallowed_hosts = [ # one\n  'a', # ]\n  'b',\n]\nbad = { x = [1, { y = 2 }] }", 6),
        ("[ server ]\nname = '''it's'''\nbad = 1", 3),
        ("[server]\r\nname = 'a'\r\nbad = 1\r\n", 3),
    ],
)
def test_lines_are_found_past_strings_comments_and_nested_values(text: str, line: int) -> None:
    (problem,) = problems_of(text)
    assert (problem.key, problem.line) == ("server.bad", line)


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.toml")


def test_a_file_that_an_editor_began_with_a_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "counterfoil.toml"
    path.write_bytes(b"\xef\xbb\xbf[server]\nname = 'desk'\n")
    assert load(path).server.name == "desk"


def test_a_file_that_is_nested_too_deeply_is_one_problem() -> None:
    (problem,) = problems_of("x = " + "[" * 5_000 + "]" * 5_000)
    assert "nested too deeply" in problem.message


def test_a_file_that_is_not_utf8_is_one_problem_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "counterfoil.toml"
    path.write_bytes(b"[server]\nname = '\xff'\n")
    with pytest.raises(ConfigError, match=r"line 2: expected UTF-8"):
        load(path)


def test_the_nearest_file_above_is_found(tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find(below) == tmp_path.resolve() / "counterfoil.toml"
    (below / "counterfoil.toml").write_text("")
    assert find(below) == below.resolve() / "counterfoil.toml"


def test_a_folder_of_that_name_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "counterfoil.toml").mkdir()
    found = find(tmp_path)
    assert found is None or found.parent != tmp_path.resolve()


def test_the_default_ledger_has_a_folder_for_each_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = tmp_path / "counterfoil.toml"
    config.write_text("")
    name = hashlib.sha256(str(config.resolve()).encode()).hexdigest()[:12]
    assert load(config).ledger_path == tmp_path / "counterfoil" / name / "counterfoil.db"


@pytest.mark.parametrize(
    ("environment", "platform", "ends"),
    [
        ({}, "linux", ".local/share"),
        ({"XDG_DATA_HOME": "relative"}, "linux", ".local/share"),
        ({}, "darwin", "Library/Application Support"),
        ({}, "win32", "AppData/Local"),
    ],
)
def test_each_platform_has_its_data_directory(environment: dict[str, str], platform: str, ends: str) -> None:
    assert data_directory(environment, platform) == Path.home() / ends


@pytest.mark.parametrize(
    ("text", "rate"), [("20/s", Rate(20, 1)), ("100/m", Rate(100, 60)), ("5/10s", Rate(5, 10)), ("1/h", Rate(1, 3600))]
)
def test_rates_are_a_count_in_a_time(text: str, rate: Rate) -> None:
    assert read_rate(text) == rate


def test_a_checked_configuration_cannot_be_changed() -> None:
    configuration = parse("", HERE)
    with pytest.raises(ValueError, match="frozen"):
        setattr(configuration.server, "wait_s", 3.0)  # noqa: B010 (a type checker would refuse the plain form)


def test_the_reference_has_every_key_with_a_text() -> None:
    keys = {key.path: key for key in reference()}
    assert keys["server.wait_s"].default == "20.0"
    assert keys["policy[].verdict"].default is None
    assert keys["pools.NAME.rate"].type == "string"
    assert keys["ledger.durability"].type == '"full" | "normal"'
    assert all(re.search(r"\w.*\.", key.description) for key in keys.values())


@pytest.mark.parametrize(
    ("public", "allowed", "heard"),
    [
        ("https://tools.example", "", False),
        ("https://tools.example", "'Tools.example'", True),
        ("https://TOOLS.example:443/far", "'tools.example'", True),
        ("https://tools.example:8443", "'tools.example'", False),
        ("https://tools.example:8443", "'tools.example:8443'", True),
        ("http://tools.example:8765", "'tools.example'", True),
        ("http://127.0.0.1:8765", "", True),
        ("http://[::1]:9000/far", "", True),
    ],
)
def test_a_public_address_whose_host_would_be_turned_away_is_a_problem(public: str, allowed: str, heard: bool) -> None:
    text = f"[server]\nallowed_hosts = [{allowed}]\npublic_url = '{public}'\n"
    if heard:
        assert parse(text, Path("counterfoil.toml")).server.public_url == public
        return
    (found,) = problems_of(text)
    assert (found.line, found.key) == (3, "server.public_url")
    assert "421" in found.message
