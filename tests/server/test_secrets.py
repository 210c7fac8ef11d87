"""Secret references: resolved when asked, and never shown."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from counterfoil.server.secrets import MAX_BYTES, SecretError, resolve

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-3f9a"


def test_a_variable_is_read_at_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "first")
    assert resolve("env:TOKEN", tmp_path).reveal() == "first"
    monkeypatch.setenv("TOKEN", "second")
    assert resolve("env:TOKEN", tmp_path).reveal() == "second"


def test_a_file_is_read_beside_the_configuration_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"abc\r\n")
    assert resolve("file:token", tmp_path).reveal() == "abc"
    assert resolve(f"file:{tmp_path / 'token'}", tmp_path / "elsewhere").reveal() == "abc"


def test_a_value_shows_itself_nowhere(tmp_path: Path) -> None:
    secret = resolve("env:X", tmp_path, {"X": CANARY})
    assert CANARY not in f"{secret} {secret!r} {[secret]} {secret!s:>20}"


@pytest.mark.parametrize("reference", ["env:ABSENT", "file:absent", "file:empty", "file:large", "file:binary", CANARY])
def test_a_reference_without_a_value_is_an_error_that_shows_none(reference: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(CANARY.encode() * MAX_BYTES)
    (tmp_path / "binary").write_bytes(CANARY.encode() + b"\xff")
    with pytest.raises(SecretError) as caught:
        resolve(reference, tmp_path, {})
    assert CANARY not in "".join(traceback.format_exception(caught.value))
