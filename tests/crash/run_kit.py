"""What the crash tests of runs share: the plan, a client with a person beside it that see a run through, and what must
hold of a stored run at any moment and at its end. Nothing here kills.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from counterfoil.ledger.queries import EventRow
from counterfoil.ledger.rows import CallRow
from counterfoil.runtime.chain.folding import state_of
from tests.kit.run_rules import ENDED, FINAL, REASONS, WAITS, check_run_view
from tests.property.fold_run import FoldedRun, fold_run

from .kit import HAPPENED, LIMIT_S, Forge, GoneError, Server, Stage, assert_whole

View = dict[str, Any]
HANDS: Final = "tests.crash.chain_hands"
READ: Final = "run_look"
KEY: Final = "once"
WAIT_S: Final = LIMIT_S / 2
WORDS_MAX: Final = 12
EVIDENCE: Final = "the far side's own books"
FIELDS: Final = ("step", "item", "action_id", "state", "outcome", "generation", "dispatched_at", "settled_at")
STEPS: Final[list[View]] = [
    {"id": "look", "tool": READ, "args": {"note": "look"}},
    {"id": "plain", "tool": "run_plain", "args": {"note": "plain ${look.reference}"}},
    {"id": "keyed", "tool": "run_keyed", "args": {"note": "keyed ${look.reference}"}},
    {
        "id": "probed", "tool": "run_probed",
        "args": {"note": 'probed ${plain.reference ?? "told"} ${keyed.reference}'},
    },
    {
        "id": "each", "tool": "run_keyed", "for_each": "${input.names}",
        "args": {"note": '${item} ${probed.reference ?? "told"}'},
    },
    {"id": "approved", "tool": "run_approved", "args": {"note": "approved ${each[1].reference}"}},
]  # fmt: skip
PLAN: Final[View] = {"goal": "Survive", "input": {"names": ["first", "second"]}, "steps": STEPS}
NEEDS: Final = {
    "look": (), "plain": ("look",), "keyed": ("look",), "probed": ("plain", "keyed"),
    "each": ("probed",), "approved": ("each",),
}  # fmt: skip
EFFECTS: Final = ("plain", "keyed", "probed", "first", "second", "approved")
"""One effect for each write, by the first word of its note."""


def stage_of_run(folder: Path, **more: Any) -> Stage:
    """A stage without a ledger, with the tools of the run."""
    return Stage.make(folder, hands=HANDS, **more)


def run_of(stage: Stage) -> View | None:
    """The row of the only run, if there is one yet."""
    rows = stage.rows("SELECT * FROM runs") if stage.ledger.exists() else []
    assert len(rows) <= 1, "the same key never makes a second run"
    return rows[0] if rows else None


def calls_of(stage: Stage) -> list[View]:
    """The calls of the run's steps."""
    return [row for row in stage.calls() if row["step"] is not None and row["route"] == "step"]


def effects_of(stage: Stage) -> Counter[str]:
    """How often each write happened, reads left out."""
    return Counter(line["note"].split()[0] for line in stage.world.effects() if line["tool"] != READ)


def begin(server: Server, **more: Any) -> View:
    """Ask for the run, as a client does that never heard of its first answer."""
    return server.do("run", plan=PLAN, request_key=KEY, **{"wait_s": WAIT_S} | more)


def status(server: Server, run_id: str, **more: Any) -> View:
    """How the run stands once nothing of it moves by itself."""
    view = server.do("status", run_id=run_id, **{"wait_s": WAIT_S} | more)
    check_run_view(view)
    return view


def see_through(server: Server, stage: Stage, *, alone: bool = True) -> View:
    """The run, begun if need be, and after it each decision and each word that it waits for, until it has ended.

    `alone` says that no other server may drive it just now.
    """
    if alone and run_of(stage) is not None:
        assert_left_to_somebody(stage)
    view = begin(server)
    assert view["error"] is None, view
    check_run_view(view)
    for _ in range(WORDS_MAX):
        if view["status"] in FINAL:
            return view
        take_the_way_on(server, stage, view)
        view = status(server, view["run_id"])
    raise AssertionError(f"still {view['status']} after {WORDS_MAX} words: {view}")


def take_the_way_on(server: Server, stage: Stage, view: View) -> None:
    """What a run waits for: unknown calls are followed up, then told of by a person; proposals are approved."""
    assert view["status"] in WAITS, f"{view['status']} ({view['reason']}) is nothing that a person can help with"
    for asked in view["pending"]:
        server.do("decide", approval_id=asked["approval_id"], decision="approve")
    if not view["unresolved"]:
        return
    left = server.do("reconcile", run_id=view["run_id"])
    for unknown in left["unresolved"]:
        tell_the_truth(server, stage, unknown["call_id"])


def tell_the_truth(server: Server, stage: Stage, call_id: str) -> None:
    """A person says what the far side's books have; what did not happen is sent again."""
    (row,) = [row for row in calls_of(stage) if row["call_id"] == call_id]
    if row["state"] != "awaiting_reconciliation":
        return
    happened = stage.world.found(row["action_id"]) is not None
    word = {"resolution": "happened"} if happened else {"resolution": "not_happened", "then": "retry"}
    server.do("reconcile", call_id=call_id, evidence=EVIDENCE, **word)


def lives(forge: Forge, stage: Stage, **death: object) -> bool:
    """One server's life: what it takes up by itself, the run seen through, an orderly end. False if it was killed."""
    try:
        server = forge.start(stage, **death).rest()
        see_through(server, stage)
        server.rest().stop()
    except GoneError:
        return False
    return True


def settled(stage: Stage) -> dict[str, tuple[Any, ...]]:
    """What is settled for good: never sent again, never said otherwise."""
    rows = calls_of(stage) if stage.ledger.exists() else []
    return {row["call_id"]: tuple(row[name] for name in FIELDS) for row in rows if row["state"] == "settled"}


def assert_kept(stage: Stage, before: dict[str, tuple[Any, ...]]) -> None:
    """What was settled is as it was."""
    now = settled(stage)
    assert {call_id: now.get(call_id) for call_id in before} == before


def assert_left_to_somebody(stage: Stage) -> None:
    """A run that no process advances says what it waits for; it is never `running` without an owner."""
    run = run_of(stage)
    assert run is not None
    if run["status"] in FINAL:
        assert run["finished_at"] is not None
        return
    assert run["owner_id"] is None, run
    assert run["status"] in WAITS or (run["status"] == "queued" and run["reason"] in REASONS), run


def assert_run_sound(stage: Stage) -> None:
    """At any moment: the ledger is whole, is what its events say, and contradicts the world nowhere."""
    assert not {place: n for place, n in effects_of(stage).items() if n > 1}, "an effect is there twice"
    if not stage.ledger.exists():
        return
    assert_whole(stage)
    run = run_of(stage)
    if run is None:
        assert not stage.world.effects()
        return
    assert run["status"] != "running" or run["owner_id"] is not None
    calls = calls_of(stage)
    assert len({(row["step"], row["item"]) for row in calls}) == len(calls), "a place has two calls"
    for row in calls:
        assert_true(stage, row)
    assert_folded(stage, run, calls)


def assert_true(stage: Stage, row: View) -> None:
    """What the ledger says of one call of the run does not contradict the world."""
    if row["tool"] == READ:
        return
    there = stage.world.found(row["action_id"]) is not None
    told = (row["step"], row["item"], row["state"], row["outcome"], row["sent"], row["code"])
    if row["outcome"] in HAPPENED:
        assert there, f"said to have happened, and it has not: {told}"
    elif row["state"] in {"refused", "settled"} or row["sent"] == "no":
        under_way = row["state"] == "dispatched"
        assert under_way or not there, f"said not to have happened, and it has: {told}"


def assert_folded(stage: Stage, run: View, calls: Iterable[View]) -> None:
    """The events alone give the stored state, and no step began before what it needs had ended."""
    events = stage.rows("SELECT seq, type, at, body FROM events WHERE run_id LIKE 'run_%' ORDER BY seq")

    def look(known: FoldedRun, event: EventRow) -> None:
        data = json.loads(event.body).get("data", {})
        if event.type in {"dispatched", "observed", "proposed"} and "step" in data:
            for need in NEEDS.get(data["step"], ()):
                assert known.step(need) in ENDED, f"{data['step']} began while {need} was {known.step(need)}"

    folded = fold_run([EventRow(**event) for event in events], look)
    noted = stage.rows("SELECT * FROM steps")
    stored = {(row["step"], row["item"]): row["state"] for row in noted}
    stored |= {(row["step"], row["item"]): state_of(CallRow(**_call(row))).value for row in calls}
    assert folded.places == stored
    assert folded.items == {row["step"]: row["items"] for row in noted if row["items"] is not None}
    assert folded.status == run["status"]


def _call(row: View) -> View:
    return {name: row[name] for name in CallRow._fields}


def assert_ended(stage: Stage, *, status: str = "succeeded") -> None:
    """At the end of a run that was seen through: every effect is there once, and nothing is left to do."""
    assert_run_sound(stage)
    run = run_of(stage)
    assert run is not None
    assert (run["status"], run["owner_id"]) == (status, None)
    assert stage.rows("SELECT * FROM outbox") == []
    if status == "succeeded":
        assert effects_of(stage) == Counter(EFFECTS)
