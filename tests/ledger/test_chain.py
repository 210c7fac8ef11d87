"""Chains: how they grow, what tampering shows, and that an export proves the same without the database."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.canonical import JsonObject, canonical
from counterfoil.ledger.chain import Head, append, first_prev, head_of, rfc3339
from counterfoil.ledger.errors import DamagedChainError
from counterfoil.ledger.events import EventType
from counterfoil.ledger.export import export
from counterfoil.ledger.measure import CALL, INSERT_CALL
from counterfoil.ledger.sql import Fact, change
from counterfoil.ledger.store import Ledger
from counterfoil.ledger.verify import Problem, VerifyReport, verify_database, verify_export

pytestmark = pytest.mark.anyio
OpenLedger = Callable[..., Awaitable[Ledger]]


def grow(run_id: str, count: int = 4, data: JsonObject | None = None) -> Fact[Head]:
    """A direct call's chain, whose end its row names."""
    head = Head.new(run_id)
    for n in range(count):
        head = yield from append(
            head, tenant="t", call_id=run_id, type=EventType.QUEUED, at=1_000_000 + n, data=data or {"n": n}
        )
    yield from change(
        INSERT_CALL, **{**CALL, "seq": head.seq}, call_id=run_id, run_id=run_id, head=head.hash, owner_id="own"
    )
    return head


def edit(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(sql, values).rowcount > 0


@pytest.fixture
async def runs(open_ledger: OpenLedger) -> Ledger:
    """Three runs of four events."""
    ledger = await open_ledger()
    async with asyncio.timeout(30):
        for run_id in ("run_a", "run_b", "run_c"):
            await ledger.record(partial(grow, run_id))
    return ledger


def exported(ledger: Ledger) -> bytes:
    out = io.BytesIO()
    export(ledger.path, out)
    return out.getvalue()


def offline(data: bytes) -> VerifyReport:
    return verify_export(io.BytesIO(data))


async def test_a_line_of_the_export_is_what_the_design_promises(runs: Ledger) -> None:
    lines = [json.loads(line) for line in exported(runs).splitlines()]
    assert [(line["run_id"], line["seq"]) for line in lines] == [(f"run_{c}", n) for c in "abc" for n in (1, 2, 3, 4)]
    prev = hashlib.sha256(b"run_a").digest()
    for line in lines[:4]:
        assert set(line) == {"run_id", "seq", "type", "at", "prev", "hash", "body"}
        assert line["prev"] == prev.hex()
        prev = hashlib.sha256(b"\0" + prev + line["body"].encode()).digest()
        assert line["hash"] == prev.hex()
        body = json.loads(line["body"])
        assert {name: body[name] for name in ("run_id", "seq", "type", "at")} == {
            name: line[name] for name in ("run_id", "seq", "type", "at")
        }
    assert lines[0]["at"] == "1970-01-01T00:00:01.000000Z"


async def test_untouched_chains_are_sound_in_the_database_and_offline(runs: Ledger) -> None:
    assert verify_database(runs.path) == VerifyReport(ok=True, events=12, runs=3, problems=())
    assert offline(exported(runs)) == VerifyReport(ok=True, events=12, runs=3, problems=())


@pytest.mark.parametrize(
    ("sql", "seq", "what"),
    [
        ("UPDATE events SET body = replace(body, '\"n\":1', '\"n\":7') WHERE run_id = 'run_b' AND seq = 2", 2, "hash"),
        ("UPDATE events SET body = substr(body, 1, 20) WHERE run_id = 'run_b' AND seq = 2", 2, "hash"),
        ("UPDATE events SET hash = zeroblob(32) WHERE run_id = 'run_b' AND seq = 2", 2, "hash"),
        ("UPDATE events SET prev = zeroblob(32) WHERE run_id = 'run_b' AND seq = 1", 1, "linked"),
        ("UPDATE events SET hash = 'text' WHERE run_id = 'run_b' AND seq = 2", 2, "type"),
        ("UPDATE events SET at = at + 1 WHERE run_id = 'run_b' AND seq = 3", 3, "at differs"),
        ("UPDATE events SET type = 'settled' WHERE run_id = 'run_b' AND seq = 3", 3, "type differs"),
        ("UPDATE events SET tenant = 'other' WHERE run_id = 'run_b' AND seq = 3", 3, "tenant differs"),
        ("UPDATE events SET call_id = NULL WHERE run_id = 'run_b' AND seq = 3", 3, "call_id differs"),
        ("DELETE FROM events WHERE run_id = 'run_b' AND seq = 2", 3, "missing"),
        ("DELETE FROM events WHERE run_id = 'run_b' AND seq = 4", 4, "missing"),
        ("DELETE FROM events WHERE run_id = 'run_b'", 4, "missing"),
        (
            (
                "UPDATE calls SET seq = 3, head = (SELECT hash FROM events WHERE run_id = 'run_b' AND seq = 3) "
                "WHERE call_id = 'run_b'"
            ),
            3,
            "there are events after",
        ),
        ("UPDATE events SET seq = seq + 10 WHERE run_id = 'run_b' AND seq = 4", 14, "expected event 4"),
    ],
)
async def test_damage_is_named_by_run_and_row_and_stays_in_its_run(runs: Ledger, sql: str, seq: int, what: str) -> None:
    edit(runs.path, sql)
    report = verify_database(runs.path)
    assert not report.ok
    assert {problem.run_id for problem in report.problems} == {"run_b"}
    assert report.problems[0].seq == seq
    assert what in report.problems[0].what
    async with asyncio.timeout(30):
        with pytest.raises(DamagedChainError, match="run_b is damaged at event"):
            await runs.require_sound_chain("run_b")
        await runs.require_sound_chain("run_a")
        await runs.require_sound_chain("run_c")


async def test_events_in_another_order_are_named(runs: Ledger) -> None:
    edit(runs.path, "UPDATE events SET seq = 9 WHERE run_id = 'run_a' AND seq = 2")
    edit(runs.path, "UPDATE events SET seq = 2 WHERE run_id = 'run_a' AND seq = 3")
    edit(runs.path, "UPDATE events SET seq = 3 WHERE run_id = 'run_a' AND seq = 9")
    assert verify_database(runs.path).problems[0].seq == 2


async def test_a_rewritten_row_breaks_the_link_of_the_next(runs: Ledger) -> None:
    with closing(sqlite3.connect(runs.path, isolation_level=None)) as hand:
        prev, body = hand.execute("SELECT prev, body FROM events WHERE run_id = 'run_a' AND seq = 2").fetchone()
        body = body.replace('"n":1', '"n":7')
        forged = hashlib.sha256(b"\0" + prev + body.encode()).digest()
        hand.execute("UPDATE events SET body = ?, hash = ? WHERE run_id = 'run_a' AND seq = 2", (body, forged))
    problems = verify_database(runs.path).problems
    assert problems[0] == Problem("run_a", 3, "it is not linked to the event before it")


async def test_every_flipped_byte_of_an_export_is_noticed(runs: Ledger) -> None:
    data = exported(runs)[:500]
    end = data.rindex(b"\n") + 1
    line = data[:end]
    for at in range(0, len(line) - 1, 3):
        flipped = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        assert not offline(flipped).ok, flipped


async def test_an_export_with_lines_lost_swapped_or_garbled_is_refused(runs: Ledger) -> None:
    lines = exported(runs).splitlines(keepends=True)
    assert not offline(b"".join(lines[:1] + lines[2:])).ok
    assert not offline(b"".join([lines[1], lines[0], *lines[2:]])).ok
    assert not offline(b"".join([*lines, lines[-1]])).ok
    assert offline(b"".join(lines[4:] + lines[:4])).ok  # whole runs in another order prove as much
    garbled = offline(b"".join([*lines[:4], b"{not json\n", b'{"run_id": 1}\n', *lines[4:]]))
    assert [problem.what.partition(" ")[0] for problem in garbled.problems] == ["line", "line"]
    assert garbled.events == 12


async def test_nothing_is_added_to_a_chain_that_does_not_end_where_the_state_says(runs: Ledger) -> None:
    async with asyncio.timeout(30):
        head = (await runs.reads.look(lambda: head_of("run_a")))._replace(at=None)
        edit(runs.path, "DELETE FROM events WHERE run_id = 'run_a' AND seq = 4")
        with pytest.raises(DamagedChainError):
            await runs.record(lambda: append(head, tenant="t", call_id=None, type=EventType.SETTLED, at=1, data={}))
        stale = Head("run_b", 2, b"x" * 32)
        with pytest.raises(DamagedChainError):
            await runs.record(lambda: append(stale, tenant="t", call_id=None, type=EventType.SETTLED, at=1, data={}))


async def test_time_in_a_chain_never_goes_back(ledger: Ledger) -> None:
    async with asyncio.timeout(30):
        head = await ledger.record(lambda: grow("run_a", 1))
        later = await ledger.record(
            lambda: append(head._replace(at=None), tenant="t", call_id="run_a", type=EventType.SETTLED, at=-5, data={})
        )
    assert later.at == head.at == 1_000_000


async def test_content_never_keeps_an_event_from_being_stored(ledger: Ledger) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    data: JsonObject = {
        "\ud800": "\udfff",
        "nan": float("nan"),
        "inf": [float("-inf")],
        "big": 2**70,
        "deep": deep,
        "nul": "\0",
    }
    async with asyncio.timeout(30):
        await ledger.record(lambda: grow("run_a", 2, data))
        await ledger.record(lambda: grow("run_b", 1, {"huge": 10**5000}))
    report = verify_database(ledger.path)
    assert report.ok, report
    assert offline(exported(ledger)).ok
    assert str(2**70) in exported(ledger).decode()


@given(
    run_id=st.text(min_size=1),
    tenant=st.text(),
    call_id=st.none() | st.text(),
    data=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())),
)
def test_a_body_is_the_canonical_form_of_what_it_says(
    run_id: str, tenant: str, call_id: str | None, data: JsonObject
) -> None:
    fact = append(Head.new(run_id), tenant=tenant, call_id=call_id, type=EventType.LOST, at=5, data=data)
    _, columns = next(fact)
    fact.close()
    assert isinstance(columns, dict)
    said: JsonObject = {
        "at": "1970-01-01T00:00:00.000005Z", "call_id": call_id, "data": data, "run_id": run_id, "seq": 1,
        "tenant": tenant, "type": "lost",
    }  # fmt: skip
    assert columns["body"].encode() == canonical(said)
    assert columns["prev"] == first_prev(run_id)


def test_times_are_written_without_loss() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert rfc3339(1_790_000_000_123_456) == "2026-09-21T14:13:20.123456Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999Z"
