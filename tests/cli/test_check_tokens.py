"""`check` and `doctor` name each token of `[auth]` that has no value here, and never show one that has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command

AUTH: Final = """
[auth]
mode = "tokens"

[[auth.tokens]]
token = "env:TOKEN_THAT_IS"
subject = "ann"

[[auth.tokens]]
token = "env:TOKEN_THAT_IS_NOT"
subject = "bob"

[[auth.tokens]]
token = "file:tokens/bob"
subject = "bob"
"""


@pytest.mark.parametrize(("transport", "severity", "code"), [("stdio", "warning", 0), ("http", "error", 1)])
def test_tokens_without_a_value_are_found_with_their_lines(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, transport: str, severity: str, code: int
) -> None:
    monkeypatch.setenv("TOKEN_THAT_IS", "hunter2-hunter2")
    monkeypatch.delenv("TOKEN_THAT_IS_NOT", raising=False)
    (folder / "counterfoil.toml").write_text(f'[server]\ntransport = "{transport}"\n{AUTH}')
    ran = command("--json", "check")
    found = [(one["severity"], one["text"]) for one in ran.answer["findings"]]
    assert (ran.exit_code, [level for level, _ in found]) == (code, [severity] * 2)
    assert "line 12" in found[0][1]
    assert "env:TOKEN_THAT_IS_NOT: the variable is not set" in found[0][1]
    assert "file:tokens/bob: cannot be read" in found[1][1]
    examined = command("--json", "doctor")
    told = [one["what"] for one in examined.answer["findings"] if one["level"] == "problem"]
    assert [text.partition(": ")[0] for text in told] == ["env:TOKEN_THAT_IS_NOT", "file:tokens/bob"]
    assert "hunter2" not in ran.out + examined.out
