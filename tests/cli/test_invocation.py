"""`--config` and `--json` stand wherever a person puts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.server.cli.exits import CommandError, Exit
from counterfoil.server.cli.invocation import Invocation, split


@pytest.mark.parametrize(
    "line",
    [
        ["--config", "a.toml", "--json", "ledger", "verify"],
        ["ledger", "--json", "verify", "--config=a.toml"],
        ["ledger", "verify", "--config", "a.toml", "--json"],
    ],
)
def test_shared_options_are_taken_from_any_place(line: list[str]) -> None:
    assert split(line) == (Invocation(Path("a.toml"), json=True), ["ledger", "verify"])


def test_json_arguments_of_a_call_are_left_alone() -> None:
    assert split(["call", "t", '{"a": "--json"}']) == (Invocation(), ["call", "t", '{"a": "--json"}'])


def test_words_after_the_end_of_options_are_left_alone() -> None:
    assert split(["call", "--", "--json", "--config"]) == (Invocation(), ["call", "--", "--json", "--config"])


@pytest.mark.parametrize("line", [["--config"], ["--config="], ["check", "--config", ""]])
def test_config_without_a_file_is_wrong_usage(line: list[str]) -> None:
    with pytest.raises(CommandError) as refused:
        split(line)
    assert refused.value.exit_code is Exit.USAGE
