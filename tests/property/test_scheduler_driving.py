"""Random plans, driven on a real ledger through outcomes, decisions and a death: what must hold for every run.

Nothing starts before what it depends on has ended, exclusive resources never overlap, nothing without a key happens
twice, every run ends or is parked with its reason, and the events alone give the stored state.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from counterfoil.ledger.queries import EventRow
from counterfoil.ledger.run_rows import RunRow
from counterfoil.runtime.chain.states import FINAL
from counterfoil.server.app import open_app
from tests.kit.clock import SetClock
from tests.property.fold_run import ENDED, FoldedRun, fold_run
from tests.property.run_hands import FAR, Far
from tests.runtime.chain.mortal import Mortal
from tests.runtime.chain.running import CAROL, Runs
from tests.runtime.chain.test_resuming import dies

CONFIG: Final = """
[ledger]
url = "sqlite+aiosqlite:///ledger.db"
durability = "normal"
[python]
modules = ["tests.property.run_hands"]
path = ["{root}"]
[policy_defaults]
write = "allow"
"""
TOOLS: Final = ("do_read", "do_write", "do_write", "do_keyed", "do_probed", "do_ask")
FATES: Final = ("success", "success", "success", "success", "permanent", "lost before", "lost after", "partial")
ROUNDS: Final = 60  # decisions and words that a run of this size can need


@dataclass(frozen=True)
class Story:
    """A plan, what its calls come to, what people say, and the commit at which its first process dies."""

    steps: tuple[dict[str, Any], ...]
    plan: dict[str, Any]
    fates: dict[str, str]
    approves: tuple[bool, ...]
    dies_at: int | None
    made: bool


@st.composite
def stories(draw: st.DrawFn) -> Story:
    count = draw(st.integers(2, 6))
    steps: list[dict[str, Any]] = []
    fates: dict[str, str] = {}
    for number in range(count):
        name = f"s{number}"
        items = draw(st.sampled_from([None, None, None, 0, 1, 2, 3]))
        on = draw(st.sampled_from(["x", "y", name]))
        ref = name if items is None else f"{name}.${{item}}"
        one: dict[str, Any] = {"id": name, "tool": draw(st.sampled_from(TOOLS)), "args": {"ref": ref, "on": on}}
        if number:
            one["depends_on"] = sorted(draw(st.sets(st.sampled_from([f"s{n}" for n in range(number)]), max_size=2)))
            one["needs"] = draw(st.sampled_from(["success", "success", "settled"]))
        if items is not None:
            one["for_each"] = list(range(items))
        if draw(st.integers(0, 7)) == 0:
            one["when"] = {"ref": "${input.yes}", "eq": draw(st.booleans())}
        one["on_failure"] = draw(st.sampled_from(["fail", "fail", "continue"]))
        steps.append(one)
        for place in [name] if items is None else [f"{name}.{n}" for n in range(items)]:
            fates[place] = draw(st.sampled_from(FATES))
    return Story(
        steps=tuple(draw(st.permutations(steps))),
        plan={
            "on_failure": draw(st.sampled_from(["stop", "stop", "compensate"])),
            "max_parallel": draw(st.integers(1, 3)),
            "input": {"yes": True},
        },
        fates=fates,
        approves=tuple(draw(st.lists(st.sampled_from([True, True, False]), min_size=1, max_size=4))),
        dies_at=draw(st.none() | st.integers(1, 40)),
        made=draw(st.booleans()),
    )


@settings(
    max_examples=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a story takes too long to be told again a hundred times
    suppress_health_check=[HealthCheck.too_slow],
)
@given(stories())
def test_every_run_keeps_the_rules_whatever_happens_to_it(story: Story) -> None:
    FAR.__init__()  # type: ignore[misc]  # every example has a far side of its own
    FAR.fates.update(story.fates)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(story, Path(folder)))


async def live(story: Story, folder: Path) -> None:
    file = folder / "counterfoil.toml"
    file.write_text(CONFIG.format(root=Path(__file__).parents[2]))
    clock = SetClock()
    async with open_app(file, role="embedded", clock=clock) as app:
        runs = Runs(app)
        if story.dies_at is None:
            run_id = await runs.start(*story.steps, **story.plan)
        else:
            async with open_app(file, role="embedded", clock=clock) as first:
                run_id = await Runs(first).start(*story.steps, drive=False, **story.plan)
                mortal = Mortal(first, story.dies_at, made=story.made)
                first.runtime.driver.wake(run_id)
                await dies(mortal, runs, run_id)
                await mortal.bury(app)
            await app.runtime.driver.sweep()
        row = await to_its_end(runs, run_id, story)
        await judge(runs, row, story)


async def to_its_end(runs: Runs, run_id: str, story: Story) -> RunRow:
    """Decide and say what is asked for, until the run has ended."""
    decided = 0
    for _ in range(ROUNDS):
        row = await runs.rest(run_id)
        await held_to_its_events(runs, row)
        if row.status in FINAL:
            return row
        assert row.status in {"awaiting_approval", "awaiting_reconciliation"}, row
        calls = await runs.calls(run_id)
        waiting = [(str(step), int(item or 0)) for (step, item), call in calls.items() if call.state == row.status]
        if not waiting:
            continue  # a sweep has woken it since
        name, item = waiting[0]
        if row.status == "awaiting_approval":
            decision = "approve" if story.approves[decided % len(story.approves)] else "reject"
            decided += 1
            await runs.decide(run_id, name, decision, item)
        else:
            await told_or_moved(runs, run_id, calls[name, item].call_id)
    raise AssertionError("it neither ends nor says what it waits for")


async def told_or_moved(runs: Runs, run_id: str, call_id: str) -> None:
    """A person's word; where a sweep followed the call up just then, that counts, and the run is looked at again."""
    await runs.woken(run_id)
    view = await runs.app.runtime.reconcile(
        runs.app.local, call_id=call_id, resolution="happened", evidence="their list", person=CAROL
    )
    assert view.error is None or view.error.code == "version_conflict", view.error
    runs.app.runtime.driver.wake(run_id)


async def held_to_its_events(runs: Runs, row: RunRow) -> None:
    """The events alone give the stored state, and no call began before what its step depends on had ended."""
    plan = (await runs.stored(row.run_id)).plan
    needs = {step.id: [plan.steps[dep].id for dep in plan.edges[step.index]] for step in plan.steps}

    def look(known: FoldedRun, event: EventRow) -> None:
        data = json.loads(event.body).get("data", {})
        if event.type in {"dispatched", "observed", "proposed"} and "step" in data:
            for dep in needs[data["step"]]:
                assert known.step(dep) in ENDED, f"{data['step']} began while {dep} was {known.step(dep)}"

    folded = fold_run(await runs.events(row.run_id), look)
    states = await runs.states(row.run_id)
    if (await runs.row(row.run_id)).version != row.version:
        return  # a sweep woke it just then; its next rest is looked at
    stored = {name: "waiting" if state == "ready" else state for name, state in states.items()}
    assert {name: folded.step(name) for name in stored} == stored
    assert folded.status == row.status


async def judge(runs: Runs, row: RunRow, story: Story) -> None:
    far: Far = FAR
    assert far.met == [], "exclusive resources never overlap"
    twice = {ref: count for ref, count in far.effects.items() if count > 1}
    assert not twice, f"done twice: {twice}"
    states = await runs.states(row.run_id)
    assert set(states.values()) <= ENDED
    continued = {one["id"] for one in story.steps if one["on_failure"] == "continue"}
    failing = {name for name, state in states.items() if state in {"failed", "rejected", "cancelled"}}
    assert row.status == ("failed" if failing - continued else "succeeded")
    told = dict(said.split(": ") for _, _, said in runs.told)
    assert told.items() <= states.items(), "what was lived through is what is stored"
