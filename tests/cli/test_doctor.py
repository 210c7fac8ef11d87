"""`doctor` finds what works and what does not, says what to do about it, makes nothing, and never breaks itself."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.app import open_app
from counterfoil.server.doctor import Basis, Finding, Level, examine, read_basis
from counterfoil.server.doctor.checks import CHECKS
from counterfoil.server.doctor.finding import guarded

Command = Callable[..., Any]
READ = '{"order_id": "ord_1"}'


def found(ran: Any, check: str) -> list[dict[str, str]]:
    return [finding for finding in ran.answer["findings"] if finding["check"] == check]


def levels(ran: Any, check: str) -> set[str]:
    return {finding["level"] for finding in found(ran, check)}


@pytest.fixture
def used(shop: Path, command: Command) -> Path:
    """A shop whose ledger was used once; its file."""
    assert command("call", "shop_order", READ).exit_code == 0
    return shop / "ledger" / "test.db"


def test_before_the_first_start_nothing_is_wrong_and_nothing_is_made(shop: Path, command: Command) -> None:
    before = sorted(path for path in shop.rglob("*") if "__pycache__" not in path.parts)
    ran = command("doctor", "--json")
    assert (ran.exit_code, ran.answer["ok"]) == (0, True), ran
    (ledger,) = found(ran, "ledger")
    assert "will be made at first start" in ledger["what"]
    assert sorted(path for path in shop.rglob("*") if "__pycache__" not in path.parts) == before


@pytest.mark.usefixtures("used")
def test_a_used_ledger_can_be_read_and_nobody_has_it_open(command: Command) -> None:
    ran = command("doctor", "--json")
    assert ran.exit_code == 0
    checks = ("ledger", "ledger key", "file rights", "chain", "waiting", "holds", "processes", "clock")
    assert {check: levels(ran, check) for check in checks} == {check: {"ok"} for check in checks}


def test_looking_makes_no_key_and_enters_no_owner(used: Path, command: Command) -> None:
    key = used.with_name("test.db.key")
    key.rename(key.with_suffix(".away"))
    ran = command("doctor", "--json")
    assert ran.exit_code == 1
    assert "missing" in found(ran, "ledger key")[0]["what"]
    assert not key.exists()
    with closing(sqlite3.connect(used)) as connection:
        assert connection.execute("SELECT count(*) FROM owners").fetchone() == (1,)


@pytest.mark.usefixtures("shop")
def test_what_waits_for_a_person_is_counted(command: Command) -> None:
    command("call", "shop_refund", '{"order_id": "ord_1", "amount": 20}')
    (waiting,) = found(command("doctor", "--json"), "waiting")
    assert (waiting["level"], waiting["what"]) == ("note", "1 for a decision, 0 unresolved")


@pytest.mark.anyio
async def test_a_process_that_has_the_ledger_open_is_named(used: Path) -> None:
    configuration = used.parents[1] / "counterfoil.toml"
    async with open_app(configuration):
        findings = examine(read_basis(configuration, used.parent))
    (process,) = (finding for finding in findings if finding.check == "processes")
    assert process.level is Level.OK
    assert process.what.startswith(f"process {os.getpid()} on ")
    assert process.what.endswith("has it open")


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
def test_a_file_that_others_can_read_is_a_problem_with_its_cure(used: Path, command: Command) -> None:
    used.chmod(0o644)
    (rights,) = found(command("doctor", "--json"), "file rights")
    assert (rights["level"], rights["do"]) == ("problem", f"chmod 600 {used}")


def test_a_file_that_is_no_ledger_is_a_problem_and_the_rest_is_still_told(used: Path, command: Command) -> None:
    used.write_bytes(b"not a database at all, whatever its name says" * 40)
    ran = command("doctor", "--json")
    assert ran.exit_code == 1
    assert levels(ran, "ledger") == {"problem"}
    assert levels(ran, "strength same_user") == {"ok"}


def test_an_event_later_than_now_says_that_the_clock_is_wrong(used: Path, command: Command) -> None:
    with closing(sqlite3.connect(used, isolation_level=None)) as connection:
        connection.execute("UPDATE events SET at = 4102444800000000")
    assert "problem" in levels(command("doctor", "--json"), "clock")


def test_without_a_configuration_the_machine_is_looked_at_all_the_same(command: Command) -> None:
    ran = command("doctor", "--json")
    assert (ran.exit_code, ran.answer["config"]) == (1, None)
    assert levels(ran, "configuration") == {"problem"}
    assert levels(ran, "python") == {"ok"}


def test_every_mistake_of_a_configuration_is_told_with_its_line(shop: Path, command: Command) -> None:
    (shop / "counterfoil.toml").write_text('[server]\nnaem = "x"\nport = "y"\n')
    ran = command("doctor", "--json")
    assert ran.exit_code == 1
    told = [finding["what"] for finding in found(ran, "configuration")]
    assert ["line 2" in told[0], "line 3" in told[1], "did you mean name" in told[0]] == [True] * 3
    assert "will be made at first start" in found(ran, "ledger")[0]["what"]


def test_a_file_that_cannot_be_read_is_a_problem(folder: Path, command: Command) -> None:
    (folder / "counterfoil.toml").write_bytes(b"\xff\xfe")
    assert levels(command("doctor", "--json"), "configuration") == {"problem"}


def test_a_module_that_cannot_be_imported_is_a_problem(shop: Path, command: Command) -> None:
    configuration = shop / "counterfoil.toml"
    configuration.write_text(configuration.read_text().replace('"example_tools"', '"leaving_tools"'))
    (shop / "leaving_tools.py").write_text("print('noise on stdout')\nraise SystemExit(3)\n")
    ran = command("doctor", "--json")
    assert ran.exit_code == 1
    assert levels(ran, "tools") == {"problem"}
    assert "noise" not in ran.out


def test_secrets_are_resolved_by_name_and_never_shown(
    shop: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "k" * 40)
    with (shop / "counterfoil.toml").open("a") as configuration:
        configuration.write('\n[approvals]\nkeys = ["env:SHOP_KEY", "file:no_such_key"]\n')
    ran = command("doctor", "--json")
    there, absent = found(ran, "secrets")
    assert (there["level"], there["what"]) == ("ok", "env:SHOP_KEY resolves here")
    assert (absent["level"], absent["what"].partition(":")[2][:11]) == ("problem", "no_such_key")
    assert "kkkk" not in ran.out + command("doctor").out


def test_it_claims_no_strength_and_no_sandbox_that_is_not_there(command: Command) -> None:
    ran = command("doctor", "--json")
    for check in ("strength client_attested", "strength token", "strength oidc", "strength passkey", "sandbox"):
        assert levels(ran, check) == {"note"}, check
    assert "os:" in found(ran, "strength same_user")[0]["what"]


def test_tokens_that_are_configured_are_a_strength() -> None:
    document = {"auth": {"mode": "tokens", "tokens": [{"token": "env:A"}, {"token": "env:B"}]}}
    findings = {finding.check: finding for finding in CHECKS["strengths"](Basis(None, document=document))}
    assert findings["strength token"].level is Level.OK
    assert "2" in findings["strength token"].what
    assert "can be met by two" in findings["assurance second_person"].what


def test_a_check_that_fails_itself_is_a_finding() -> None:
    def broken(_: Basis) -> Iterator[Finding]:
        yield Finding("odd", Level.OK, "first")
        raise RuntimeError("no such luck")

    first, last = guarded("odd", broken, Basis(None))
    assert first.what == "first"
    assert (last.level, "RuntimeError: no such luck" in last.what) == (Level.PROBLEM, True)


@pytest.mark.usefixtures("shop")
def test_a_person_sees_level_check_and_cure_at_any_width(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        ran = command("doctor")
        assert "\x1b" not in ran.out
        assert "Nothing found that stops work." in ran.out
        assert {line.split()[0] for line in ran.out.splitlines() if line[:1].strip()} >= {"ok", "note"}
