"""`check` of tools that are described in TOML: what each is, what deserves a look, and every mistake as a finding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command

CONFIG: Final = """[http]
allow_hosts = ["orders.example"]
[[policy]]
id = "refunds-go-through"
tool = "orders_refund"
verdict = "allow"
[tools.orders_refund]
description = "Refund an order."
effect = "destructive"
input = { order_id = "string" }
[tools.orders_refund.http]
method = "POST"
url = "https://orders.example/orders/{order_id}/refunds"
headers = { Authorization = "Bearer hunter2" }
[tools.orders_refund.probe]
url = "https://orders.example/orders/{order_id}"
happened = { path = "/refunded", eq = true }
"""


def test_check_shows_each_tool_and_what_deserves_a_look(command: Command, folder: Path) -> None:
    (folder / "counterfoil.toml").write_text(CONFIG)
    ran = command("--json", "check")
    assert ran.exit_code == 0
    (tool,) = ran.answer["tools"]
    assert (tool["name"], tool["effect"], tool["recovery"]) == ("orders_refund", "destructive", "probe")
    found = [(one["severity"], one["text"]) for one in ran.answer["findings"]]
    assert [severity for severity, _ in found] == ["warning", "warning", "note"]
    assert found[0][1].startswith("line 15, [tools.orders_refund.probe]")
    assert found[1][1].startswith("line 14, [tools.orders_refund.http], tools.orders_refund.http.headers.Authorization")
    assert found[2][1].startswith("line 3, [policy], policy[0]: it lowers the default of effect 'destructive'")
    assert "hunter2" not in ran.out
    shown = command("check").out
    assert all(word in shown for word in ("effect", "approval", "recovery", "orders_refund", "destructive", "warning"))


def test_check_makes_a_finding_of_each_mistake(command: Command, folder: Path) -> None:
    wrong = CONFIG.replace("{order_id}", "{oder_id}").replace("[http]\n", "[http]\n\n")
    (folder / "counterfoil.toml").write_text(wrong)
    ran = command("--json", "check")
    assert ran.exit_code == 1
    texts = [one["text"] for one in ran.answer["findings"] if one["severity"] == "error"]
    assert ["line 14" in texts[0], "line 17" in texts[1]] == [True, True]
    assert all("did you mean 'order_id'" in text for text in texts)
    assert "<U+000A>" not in command("check").out


def test_a_catalogue_needs_no_secret(command: Command, folder: Path) -> None:
    (folder / "counterfoil.toml").write_text(CONFIG.replace("Bearer hunter2", "env:NOBODY_SET_THIS"))
    ran = command("--json", "tools", "list")
    assert ran.exit_code == 0
    assert [tool["name"] for tool in ran.answer["tools"]] == ["orders_refund"]


def test_a_reference_without_a_value_is_named_once_and_a_value_never(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THAT_IS", "hunter2-hunter2")
    headers = '{ Authorization = "env:NOBODY_SET_THIS", X-Api-Key = "env:THAT_IS", X-Other = "file:none/here" }'
    (folder / "counterfoil.toml").write_text(CONFIG.replace('{ Authorization = "Bearer hunter2" }', headers))
    ran = command("--json", "check")
    notes = [one["text"] for one in ran.answer["findings"] if "no value here" in one["text"]]
    assert (ran.exit_code, len(notes)) == (0, 1)
    assert "env:NOBODY_SET_THIS, file:none/here;" in notes[0]
    assert "THAT_IS" not in notes[0]
    assert "hunter2" not in ran.out + command("check").out


@pytest.mark.parametrize("wrong", ["{oder_id}", "{order_id"])
@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key"])
def test_a_literal_secret_is_warned_of_whatever_else_is_wrong(
    command: Command, folder: Path, wrong: str, header: str
) -> None:
    text = CONFIG.replace("{order_id}", wrong).replace("Authorization", header)
    (folder / "counterfoil.toml").write_text(text)
    found = [(one["severity"], one["text"]) for one in command("--json", "check").answer["findings"]]
    assert ("warning", True) in [(severity, f"headers.{header}: a literal" in said) for severity, said in found]
    (folder / "counterfoil.toml").write_text(text.replace('"destructive"', '"destructvie"'))
    ran = command("check")
    assert ran.exit_code == 2
    assert "did you mean destructive?" in ran.err
    assert f"warning: line 14, [tools.orders_refund.http], tools.orders_refund.http.headers.{header}" in ran.err
    assert "hunter2" not in ran.out + ran.err
