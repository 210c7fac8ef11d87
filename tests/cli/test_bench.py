"""`bench`: every figure stands beside its reference, whatever is not met is said, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from counterfoil.server.bench.engines import installed
from counterfoil.server.bench.figures import Figure, Judged, Spread, at_least, at_most, ratios
from counterfoil.server.bench.machine import machine
from counterfoil.server.bench.plain import PlainBM25
from counterfoil.server.bench.plot import svg
from counterfoil.server.bench.quality import recall
from counterfoil.server.bench.run import MEASUREMENTS, Report
from counterfoil.server.bench.settings import QUICK
from counterfoil.server.bench.synthetic import queries, tools
from counterfoil.server.bench.table import shown

ROOT = Path(__file__).parents[2]
Command = Callable[..., Any]
POSITIVE = st.floats(min_value=1e-6, max_value=1e6)


def figure(ours: list[float], reference: list[float], **more: Any) -> Figure:
    return Figure.of("a.b", "a <b>", "ms", ours, reference, against="c & d", **more)


class TestFigures:
    def test_a_spread_is_the_median_with_its_quartiles(self) -> None:
        assert Spread.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(3.0, 2.0, 4.0, 5)
        assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0, 1)
        with pytest.raises(ValueError, match="at least one"):
            Spread.of([])

    @settings(deadline=None)
    @given(st.lists(POSITIVE, min_size=1, max_size=20))
    def test_a_spread_lies_within_its_samples_in_whatever_order_they_come(self, samples: list[float]) -> None:
        spread = Spread.of(samples)
        assert min(samples) <= spread.low <= spread.median <= spread.high <= max(samples)
        assert spread == Spread.of(samples[::-1])

    def test_a_ratio_is_of_what_was_measured_side_by_side(self) -> None:
        assert ratios([2.0, 20.0], [1.0, 10.0]) == [2.0, 2.0]
        assert ratios([2.0, 4.0, 6.0], [2.0]) == [2.0]
        with pytest.raises(ValueError, match="more than 0"):
            ratios([1.0], [0.0])

    def test_a_target_is_met_on_its_line_and_on_its_good_side(self) -> None:
        assert figure([3.0], [2.0], target=at_most(1.5)).met is True
        assert figure([3.1], [2.0], target=at_most(1.5)).met is False
        assert figure([1.0], [2.0], target=at_least(0.5)).met is True
        assert figure([0.9], [2.0], target=at_least(0.5)).met is False
        assert figure([3.0], [0.1], target=at_most(3.0, Judged.OURS)).met is True
        assert figure([3.0], [2.0]).met is None

    def test_beside_nothing_there_is_no_ratio_and_no_verdict_on_one(self) -> None:
        beside = figure([0.5], [0.0], target=at_most(1.5))
        assert (beside.ratio, beside.met, beside.wire()["ratio"]) == (None, None, None)

    def test_what_is_not_here_to_be_measured_is_named_and_says_how_to_get_it(self) -> None:
        absent = Figure.alone(
            "a.b", "a", "steps/s", [3.0], against="an engine", target=at_least(5.0), missing="not installed: pip ..."
        )
        assert (absent.met, absent.ratio) == (None, None)
        assert absent.wire()["reference"] == {"what": "an engine", "missing": "not installed: pip ..."}
        screen = StringIO()
        Console(width=120, file=screen).print(shown(Report((absent,), machine(), QUICK, 1.0)))
        said = screen.getvalue()
        assert "3 steps/s  not installed" in said
        assert "reference: an engine: not installed: pip ..." in said
        assert "MISSED" not in said

    @pytest.mark.parametrize(("depth", "expected"), [(1, 1.0), (2, 0.5), (3, 1.0), (9, 1.0)])
    def test_recall_is_over_the_most_that_could_be_there(self, depth: int, expected: float) -> None:
        assert recall(["a", "x", "b"], ["b", "a"], depth) == expected

    def test_the_same_seed_gives_the_same_tools_and_queries(self) -> None:
        made = tools(60)
        assert made == tools(60)
        assert made[:20] == tools(20)
        assert queries(5, made) == queries(5, made)
        assert PlainBM25(made).search(made[7].name, 3)[0] == made[7].name

    def test_a_picture_says_in_words_what_it_draws(self) -> None:
        drawn = [figure([3.0], [2.0], target=at_most(1.2)), figure([1.0], [2.0], target=at_most(3, Judged.OURS))]
        picture = ET.fromstring(svg(drawn))  # noqa: S314 (our own)
        space = "{http://www.w3.org/2000/svg}"
        assert picture.get("role") == "img"
        title, description = picture.find(f"{space}title"), picture.find(f"{space}desc")
        assert title is not None
        assert description is not None
        assert picture.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert "a <b>, beside c & d: 1.5x, at most 1.2x: missed." in (description.text or "")
        fills = [bar.get("fill") for bar in picture.iter(f"{space}rect")]
        assert "url(#missed)" in fills


ENGINES = [(name.lower(), what) for name, engine in installed().items() for what in ("", ".cpu") if engine or not what]
EXPECTED = {
    "call": {f"call.{kind}.{n}.{what}" for kind in ("read", "write") for n in (16, 1) for what in ("cpu", "wall")},
    "ledger": {f"ledger.{n}.{what}" for n in (1, 16, 64, 128) for what in ("rate", "cpu", "naive")},
    "search": {"search.register", "search.linear"}
    | {
        f"search.{kind}.{part}"
        for kind in ("sentence", "words", "common", "rare", "part", "category")
        for part in ("p50", "p95")
    }
    | {f"search.recall.live-step.{depth}" for depth in (1, 5, 10)},
    "start": {"start.wall", "start.cpu"},
    "growth": {"growth.tools", "growth.ledger"},
    "chains": {f"chains.{n}.{engine}{what}" for n in (16, 1) for engine, what in ENGINES}
    | {"chains.long.cpu", "chains.long.memory"},
}


ALONE = """
import asyncio, os, pathlib, sys

def forbid(event, args):
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}:
        print("network:", event, args, file=sys.stderr)
        os._exit(9)

sys.addaudithook(forbid)
from counterfoil.server.bench.engines import installed

async def main():
    before = dict(os.environ)
    async with installed()[sys.argv[1]](pathlib.Path.cwd(), 3, 2) as run:
        await asyncio.gather(run(0), run(1), run(2))
    assert dict(os.environ) == before

asyncio.run(main())
print("done")
"""


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Two tools and a query whose tool is known."""
    folder = tmp_path / "labelled"
    folder.mkdir()
    rows: list[dict[str, Any]] = [
        {"id": f"x:{name}", "server": "x", "name": name, "description": f"{name} something", "params": []}
        for name in ("refund_order", "send_mail")
    ]
    (folder / "live_catalog.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    query = {"id": "1", "track": "live-step", "query": "refunding an order", "relevant": ["x:refund_order"]}
    (folder / "live_queries.jsonl").write_text(json.dumps(query) + "\n")
    return folder


@pytest.mark.parametrize("name", EXPECTED)
def test_a_quick_run_has_every_figure_beside_its_reference(
    command: Command, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    temporary, picture = tmp_path / "temporary", tmp_path / "ratios.svg"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    more = ["--svg", str(picture), "--search-data", str(labelled)]
    ran = command("bench", "--quick", "--rounds", "1", "--only", name, "--json", *more)
    assert ran.exit_code == 0, ran.err
    answer = ran.answer
    assert {one["name"] for one in answer["figures"]} == EXPECTED[name]
    for one in answer["figures"]:
        assert one["ours"]["samples"] >= 1
        assert one["reference"]["what"]
        missing = one["reference"]["missing"]
        no_ratio = missing or (one["name"].startswith("search.recall") and one["reference"]["median"] == 0)
        assert (one["ratio"] is None) == bool(no_ratio), one
        assert (one["met"] is None) == (one["target"] is None or missing is not None), one
    assert answer["missed"] == [one["name"] for one in answer["figures"] if one["met"] is False]
    assert {"python", "cpus", "sqlite", "durability"} <= set(answer["machine"])
    assert str(tmp_path) not in ran.out
    assert name in ran.err
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314 (our own)
    assert list(temporary.iterdir()) == []


def test_every_measurement_is_tested_here() -> None:
    assert list(EXPECTED) == list(MEASUREMENTS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["--only", "nonsense"], "call, ledger, search, start, growth, chains"),
        (["--rounds", "0"], "rounds"),
        (["--search-data", "nowhere"], "live_catalog.jsonl"),
        (["--svg", "nowhere/x.svg"], "nowhere"),
    ],
)
def test_a_wrong_line_is_refused_before_anything_is_measured(command: Command, line: list[str], expected: str) -> None:
    ran = command("bench", *line)
    assert (ran.exit_code, ran.out) == (2, "")
    assert expected in ran.err


@pytest.mark.parametrize("name", [name for name, engine in installed().items() if engine])
def test_an_engine_beside_us_carries_its_runs_out_and_speaks_to_nobody(folder: Path, name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, name], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


def test_ctrl_c_ends_it_cleanly(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    running = subprocess.Popen(
        [sys.executable, "-m", "counterfoil", "bench", "--only", "ledger", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment, text=True,
    )  # fmt: skip
    try:
        assert running.stderr is not None
        assert "ledger" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    finally:
        running.kill()
        running.wait()
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert list(folder.glob("counterfoil-bench-*")) == []
