"""The demo keeps its promise on real parts, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 58.0


def test_the_demo_plays_one_chain_through_a_lost_reply_and_a_killed_server_with_each_effect_once(
    tmp_path: Path,
) -> None:
    temporary, working = tmp_path / "tmp", tmp_path / "work"
    temporary.mkdir()
    working.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "counterfoil", "demo", "--json"],
        cwd=working,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode() + ran.stdout.decode()
    result = json.loads(ran.stdout)
    assert result["ok"] is True
    assert (result["before"], result["after"], result["effects"]) == ("ambiguous", "success", 1)
    assert (result["killed"], result["restarted"]) == (True, True)
    assert (result["run_status"], result["notifications"]) == ("succeeded", 3)
    assert result["compensation"] == "complete"
    assert result["ledger"]["ok"] is True
    assert result["ledger"]["problems"] == []
    assert b"side by side" in ran.stderr
    assert list(temporary.iterdir()) == []
    assert list(working.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    ran = subprocess.run(
        [sys.executable, "-m", "counterfoil", "demo", "--json", "--keep", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ran.returncode, json.loads(ran.stdout)["ok"]) == (1, False)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
