"""What a person sees of a run: where it is and why, what it waits for, what stands; readable with a thousand steps."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console, RenderableType

from counterfoil.server.cli import following
from counterfoil.server.cli.following import commands_of_run, run_text
from counterfoil.server.cli.run_events import calls_section, timeline
from counterfoil.server.cli.run_page import run_page, runs_table
from counterfoil.server.cli.run_reasons import why

NOW = datetime(2026, 11, 30, 20, 0, 1, tzinfo=UTC)
STARTED = "2026-11-30T19:56:01.000000Z"


def step(name: str, state: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {"id": name, "tool": f"{name}_tool", "state": state, "outcome": None, "call_id": None, "attempts": 0} | more


def run(status: str = "running", *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "reason": None,
        "outputs": {},
        "pending": [],
        "unresolved": [],
        "compensations": [],
        "budget": None,
    }
    times = {"started_at": STARTED, "updated_at": STARTED, "finished_at": None, "deadline": None}
    known = {"run_id": "run_1", "plan_id": "plan_1", "goal": "Make good", "compensation": "none", "next": None}
    return {"status": status, "steps": list(steps), **known, **empty, **times} | more


def drawn(shown: RenderableType, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(shown)
    return out.getvalue()


def page(view: dict[str, Any]) -> list[str]:
    return [line.rstrip() for line in drawn(run_page(view, NOW)).splitlines()]


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (run("awaiting_approval", pending=[{"step": "refund"}, {"step": "refund"}]), "A person must decide: refund."),
        (run("awaiting_reconciliation", unresolved=[{"step": "a"}]), "Nobody knows what became of: a."),
        (
            run(
                "awaiting_reconciliation",
                unresolved=[{"step": "a", "how": "A person does sign outside."}, {"step": "b", "how": "Reconcile."}],
            ),
            "Nobody knows what became of: b. A person does this outside, and says so then: a.",
        ),
        (
            run("awaiting_reconciliation", unresolved=[{"step": "a", "how": "A person does sign outside."}]),
            "A person does this outside, and says so then: a.",
        ),
        ({"status": "awaiting_approval", "reason": None}, "A person must decide."),
        ({"status": "awaiting_reconciliation", "reason": None}, "Nobody knows what became of a call."),
        (run("awaiting_reconciliation"), "Another run's call is unresolved."),
        (run("queued"), "No process drives it now; a running server takes it up."),
        (run("queued", reason="held"), "It may not go on while a hold stands."),
        (run("queued", reason="budget: full again at 20:10"), "A budget is used up. (full again at 20:10)"),
        (run("queued", reason="stopped by its client"), "stopped by its client"),
        (
            run("failed", step("a", "failed"), step("b", "rejected"), reason="a: failed"),
            "Steps that failed: a, b.",
        ),
        (run("failed", error={"code": "deadline_exceeded", "message": "Too late."}), "deadline_exceeded: Too late."),
        (run("failed", reason="deadline_exceeded"), "Its deadline passed before every step had ended."),
        (run("succeeded", reason="continued after a"), "continued after a."),
        (run("succeeded"), ""),
    ],
)
def test_why_a_run_stands_where_it_is_said_in_a_sentence(view: dict[str, Any], said: str) -> None:
    assert why(view) == said


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (run("queued", reason="stopped"), "Taken up. Take it up with the command below."),
        (run("running"), "It goes on by itself; watch it with the command below."),
        (run("queued"), "A running server takes it up; or do it here, with the command below."),
        (run("queued", reason="budget"), "It goes on by itself at noon."),
        (run("failed"), None),
    ],
)
def test_what_to_do_next_names_no_base_tool(view: dict[str, Any], said: str | None) -> None:
    texts = {
        "stopped": ("run", "Taken up. Take it up with run."),
        "budget": ("status", "It goes on by itself at noon."),
    }
    tool, text = texts.get(view["reason"], ("status", "Look again with status."))
    assert run_text(view | {"next": {"tool": tool, "arguments": {"run_id": "run_1"}, "text": text}}) == said


def test_what_is_unknown_in_a_cancelled_run_is_settled_without_its_going_on() -> None:
    following = {"next": {"tool": "reconcile", "arguments": {"run_id": "run_1"}, "text": "Look."}}
    assert "the run goes on" in str(run_text(run("awaiting_reconciliation") | following))
    cancelled = run("awaiting_reconciliation", cancel_requested_at=STARTED) | following
    assert "nothing further starts" in str(run_text(cancelled))


def test_a_step_that_was_not_wanted_says_so() -> None:
    assert "dry  its `when` was false" in page(run("succeeded", step("dry", "skipped", reason="when")))


def test_a_sentence_names_five_steps_and_counts_the_rest() -> None:
    view = run("awaiting_approval", pending=[{"step": f"s{n}"} for n in range(8)])
    assert why(view) == "A person must decide: s0, s1, s2, s3, s4, 3 more."


def test_the_page_has_each_step_with_its_state_as_a_word() -> None:
    lines = page(run("running", step("order", attempts=2), step("tell", "waiting")))
    assert "status   running" in lines
    assert "steps    1 of 2 ended" in lines
    assert "started  2026-11-30 19:56:01Z, 4 m ago" in lines
    assert [line.split() for line in lines if line.startswith(("order", "tell"))] == [
        ["order", "order_tool", "succeeded", "2"],
        ["tell", "tell_tool", "waiting"],
    ]


def test_what_was_not_run_names_its_cause_once_for_neighbours() -> None:
    steps = [step("a", "failed", error={"code": "tool_failed", "message": "no such order"})]
    steps += [step(f"b{n}", "not_run", reason="a") for n in range(3)]
    lines = page(run("failed", *steps))
    assert "a  tool_failed: no such order" in lines
    assert "b0 … b2 (3)  because of a" in lines


def test_items_are_counted_by_state_and_the_failed_ones_are_named() -> None:
    items = [{"n": n, "state": "succeeded", "outcome": "success", "call_id": f"call_{n}"} for n in range(5)]
    items[3] |= {"state": "failed", "outcome": "permanent_failure"}
    lines = page(run("failed", step("tell", "failed", items=items)))
    assert any("1 failed, 4 succeeded" in line for line in lines)
    assert "tell[3]  failed  permanent_failure  call_3" in lines


def test_a_proposal_and_an_unresolved_call_stand_with_what_to_type() -> None:
    pending = [{"approval_id": "apr_1", "step": "refund", "tool": "shop_refund", "arguments": {"amount": 20}}]
    unresolved = [{"call_id": "call_9", "step": "tell", "tool": "notify_send", "how": "ask its probe"}]
    view = run("awaiting_reconciliation", pending=pending, unresolved=unresolved)
    lines = page(view)
    assert "apr_1  refund  shop_refund" in lines
    assert '  {"amount": 20}' in lines
    assert "call_9  notify_send  ask its probe" in lines
    assert commands_of_run(view) == [
        "counterfoil approvals approve apr_1",
        "counterfoil reconcile run_1",
        "counterfoil status call_9",
        "counterfoil runs resume run_1",
        "counterfoil runs watch run_1",
        "counterfoil runs show run_1",
        "counterfoil runs cancel run_1",
    ]


def test_a_finished_run_shows_its_outputs_and_offers_nothing_that_cannot_be_done() -> None:
    view = run("succeeded", step("order"), outputs={"order": {"total": 3}}, finished_at="2026-11-30T19:56:04.250000Z")
    lines = page(view)
    assert "ended    2026-11-30 19:56:04Z, after 3.2 s" in lines
    assert 'order  {"total": 3}' in lines
    assert commands_of_run(view) == ["counterfoil runs show run_1"]


def test_effects_that_stand_and_effects_that_were_not_undone_are_listed() -> None:
    effects = [{"step": "tell", "item": 2, "call_id": "call_1", "tool": "notify_send"}]
    effects.append(effects[0] | {"item": 3, "known": False})
    undone = [{"step": "refund", "item": None, "call_id": "call_2", "state": "not_undone", "reason": "later"}]
    lines = page(run("failed", effects=effects, compensations=undone, compensation="incomplete"))
    assert "tell[2]  notify_send  call_1" in lines
    assert "tell[3]  notify_send  call_1  it may stand: nobody knows" in lines
    assert "refund  not_undone  call_2  later" in lines
    assert "compensation  incomplete" in lines


def test_a_budget_is_told_in_one_line_with_its_limits() -> None:
    used = {"calls": 3, "writes": 1, "destructive": 0, "cost": 0, "output_bytes": 310, "elapsed_s": 4.213871}
    shown = page(run(budget={**used, "limits": {"calls": 20, "cost": 2.5}}))
    assert "budget   calls 3 of 20, writes 1, cost 0 of 2.5, output_bytes 310, elapsed_s 4.2" in shown


def test_the_page_of_a_thousand_steps_fits_and_shows_what_needs_a_look() -> None:
    steps = [step(f"s{n}", "succeeded" if n < 600 else "waiting") for n in range(1000)]
    steps[300] = step("broken", "failed", error={"code": "tool_failed", "message": "no"})
    lines = page(run("running", *steps))
    assert len(lines) < 40
    assert any(line.startswith("broken ") and "failed" in line for line in lines)
    assert any("s0 … s299 (300)" in line for line in lines)
    assert any("(400)" in line and "waiting" in line for line in lines)


def test_what_the_far_side_or_the_model_wrote_can_neither_move_the_cursor_nor_hide() -> None:
    steps = [step("a", "failed", error={"code": "tool_failed", "message": "\x1b[1A\u202e gone"}, reason=None)]
    steps.append(step("b", "not_run", reason="\u061ca"))
    pending = [{"approval_id": "apr_1", "step": "a\u200b", "tool": "t", "arguments": {"to": "\u2066x"}}]
    shown = "\n".join(page(run("failed", *steps, goal="do\rit", pending=pending, outputs={"a\u202e": "\x07"})))
    assert not {"\x1b", "\u202e", "\u200b", "\u2066", "\r", "\x07", "\u061c"} & set(shown)
    for written in ("do<U+000D>it", "<U+001B>[1A<U+202E> gone", "a<U+200B>", "<U+2066>x", "a<U+202E>"):
        assert written in shown


def test_what_is_unresolved_is_to_be_settled_also_where_a_person_is_to_do_it() -> None:
    unresolved = [{"call_id": "call_1", "step": "a", "tool": "sign", "how": "A person does sign outside."}]
    lines = page(run("awaiting_reconciliation", step("a", "awaiting_reconciliation"), unresolved=unresolved))
    assert "To be settled" in lines
    assert not any("Nobody knows" in line for line in lines)


def test_a_refusal_shows_no_empty_run() -> None:
    view = {"error": {"code": "not_found", "message": "There is no such run."}, "next": None}
    assert page(view) == ["not_found: There is no such run."]


def test_the_list_has_each_run_on_a_line_of_eighty_characters_and_says_what_it_waits_for() -> None:
    waiting = run("awaiting_reconciliation", step("a"), step("b", "waiting"), run_id=f"run_{'1' * 32}")
    waiting["unresolved"] = [{"step": "b"}]
    lines = drawn(runs_table([waiting, run("succeeded", step("a"))], NOW)).splitlines()
    assert lines[0] == f"run_{'1' * 32}  awaiting_reconciliation  1/2  4 m ago"
    assert lines[1:3] == ["  Make good", "  Nobody knows what became of: b."]
    assert lines[3].split() == ["run_1", "succeeded", "1/1", "4", "m", "ago"]
    assert drawn(runs_table([], NOW)) == "There are no runs.\n"


def events(count: int) -> list[dict[str, Any]]:
    return [
        {
            "seq": n,
            "type": "dispatched",
            "at": f"2026-11-30T19:56:{n % 60:02d}.500000Z",
            "data": {"step": "a", "item": 2},
        }
        for n in range(1, count + 1)
    ]


def test_the_end_of_a_call_stands_beside_its_step_though_its_event_does_not_name_it() -> None:
    told = [
        {"seq": 1, "type": "dispatched", "at": STARTED, "data": {"action_id": "act_1", "step": "a", "item": 2}},
        {"seq": 2, "type": "dispatched", "at": STARTED, "data": {"action_id": "act_2", "step": "b"}},
        {"seq": 3, "type": "lost", "at": STARTED, "data": {"action_id": "act_2", "outcome": "ambiguous"}},
        {"seq": 4, "type": "settled", "at": STARTED, "data": {"action_id": "act_1", "outcome": "success"}},
    ]
    lines = drawn(timeline(told, STARTED)).splitlines()
    assert [line.split()[3:5] for line in lines[3:5]] == [["lost", "b"], ["settled", "a[2]"]]


def test_the_timeline_has_the_time_since_the_start_and_the_item() -> None:
    assert drawn(timeline(events(1), STARTED)).splitlines()[1].split() == ["1", "+0.500", "s", "dispatched", "a[2]"]


def test_a_long_timeline_has_its_beginning_its_end_and_how_much_is_between() -> None:
    lines = drawn(timeline(events(59), STARTED)).splitlines()
    assert len(lines) == 1 + 10 + 1 + 30
    assert lines[11].split() == ["(19", "more)"]
    assert len(drawn(timeline(events(59), STARTED, everything=True)).splitlines()) == 60


def test_each_call_has_its_attempts_and_evidence() -> None:
    evidence = {
        "request_id": None,
        "external_reference": "ref_88",
        "settled_at": STARTED,
        "source": "t",
        "untrusted": True,
    }
    view = {"call_id": "call_1", "state": "settled", "outcome": "success", "attempts": 2, "evidence": evidence}
    assert drawn(calls_section([("refund", view)], 7)).splitlines() == [
        "call_1  refund  settled  success  2 attempts",
        "  external_reference ref_88, settled_at 2026-11-30 19:56:01Z",
        "and 7 more calls; --all shows them",
    ]


def test_a_run_that_can_be_undone_further_names_the_command_for_that() -> None:
    view = {
        "run_id": "run_1", "status": "failed", "reason": "b: failed", "compensation": "incomplete", "steps": [],
        "unresolved": [], "pending": [], "finished_at": "2026-12-01T05:00:00Z",
        "next": {"tool": "reconcile", "arguments": {"run_id": "run_1"}, "text": "..."},
    }  # fmt: skip
    assert following.commands_of_run(view)[0] == "counterfoil reconcile run_1"
    assert "tries that undo again" in (following.run_text(view) or "")
    strict = view | {"status": "awaiting_reconciliation", "reason": "strict", "finished_at": None}
    assert not any("resume" in line for line in following.commands_of_run(strict))


def test_what_a_person_must_decide_about_an_undo_is_named_as_that() -> None:
    asked = {"approval_id": "apr_1", "step": "refund", "tool": "refund__undo", "undo": True}
    assert why({"status": "awaiting_approval", "pending": [asked]}) == "A person must decide: the undo of refund."


def test_a_call_that_a_person_does_names_what_to_do_and_the_command_that_tells_of_it() -> None:
    view = {
        "call_id": "call_1", "error": {"code": "ambiguous", "details": {"reason": "manual"}},
        "next": {"tool": "reconcile", "arguments": {"call_id": "call_1"}, "text": "Do pack with these arguments."},
    }  # fmt: skip
    assert following.text_of(view) == "Do pack with these arguments."
    assert following.commands_of_call(view)[0].endswith("--evidence 'HOW YOU KNOW' --output JSON")
