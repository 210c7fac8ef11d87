"""The picture of a chain: true to its plan and its run, valid whatever is written in it, readable without colour."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from random import Random
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.server.graph import Edge, EdgeKind, Facts, Graph, Node, Undone, graph_of, mermaid, svg
from counterfoil.server.graph.folding import MOST
from counterfoil.server.graph.layout import COLUMNS, lay_out
from counterfoil.server.graph.looks import INK, LOOKS, wrapped

SVG: Final = "{http://www.w3.org/2000/svg}"
HOSTILE: Final = (
    'end"]; click n0 "javascript:alert(1)"\n%%{init: {"theme": "dark"}}%% <script>alert(1)</script> ```x``` '
    "]]> &amp; #quot; --> n1 subgraph \\n \u202egnp\u2066 \x00\x1b[31m \ufffe \ud800 style n0 fill:red; href=http://evil.example"
)
PLAN: Final[dict[str, Any]] = {
    "goal": "Make good",
    "steps": [
        {"id": "order", "tool": "orders_get", "args": {"o": "${input.o}"}},
        {"id": "policy", "tool": "policy_find", "args": {}, "save_as": "rules"},
        {
            "id": "refund",
            "tool": "orders_refund",
            "args": {"a": "${order.total}"},
            "depends_on": ["rules", "order"],
            "when": "${order.late}",
        },
        {
            "id": "tell",
            "tool": "notify_send",
            "for_each": "${order.contacts}",
            "args": {"t": "${refund.amount}"},
            "needs": "settled",
        },
    ],
}
FACTS: Final = {"order": Facts("read", "none", "1"), "refund": Facts("destructive", "operator", "2")}
VIEW: Final[dict[str, Any]] = {
    "run_id": "run_1",
    "goal": "Make good",
    "status": "awaiting_approval",
    "reason": None,
    "compensation": "running",
    "steps": [
        {"id": "order", "state": "succeeded", "outcome": "success", "attempts": 2},
        {"id": "policy", "state": "failed", "attempts": 1, "error": {"code": "tool_failed", "message": "It said no."}},
        {"id": "refund", "state": "awaiting_approval", "attempts": 0},
        {
            "id": "tell",
            "state": "not_run",
            "reason": "policy",
            "items": [{"n": 0, "state": "succeeded"}, {"n": 1, "state": "failed"}, {"n": 2, "state": "succeeded"}],
        },
    ],
    "pending": [{"approval_id": "apr_7", "step": "refund"}],
    "compensations": [
        {"step": "order", "item": None, "call_id": "call_1", "state": "undone", "tool": "orders_undo", "reason": None}
    ],
}


def some_text(chance: Random) -> str:
    """A name, something hostile or a part of it, or any characters at all."""
    match chance.randrange(4):
        case 0:
            return HOSTILE
        case 1:
            return HOSTILE[chance.randrange(len(HOSTILE)) :][:20]
        case 2:
            return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(12)))
        case _:
            return f"step_{chance.randrange(100)}"


def graph_from(seed: int) -> Graph:
    """A chain of any shape, whose texts are anything."""
    chance = Random(seed)
    count = chance.randrange(1, 18)
    after = [sorted(chance.sample(range(n), min(n, chance.randrange(4)))) for n in range(count)]
    waves: list[int] = []
    for before in after:
        waves.append(max((waves[one] + 1 for one in before), default=0))
    nodes = tuple(
        Node(
            id=some_text(chance),
            tool=some_text(chance),
            wave=wave,
            effect=chance.choice([None, "read", "write", "destructive"]),
            approval=chance.choice([None, some_text(chance)]),
            state=chance.choice([None, "unheard_of", *LOOKS]),
            reason=chance.choice([None, some_text(chance)]),
            waits=chance.choice([None, some_text(chance)]),
            items=chance.choice([{}, {"succeeded": 3, "failed": 1}]),
            undos=chance.choice([(), (Undone("undone", tool=some_text(chance)),), (Undone("kept"), Undone("running"))]),
        )
        for wave in waves
    )
    edges = tuple(Edge(b, n, chance.choice(list(EdgeKind))) for n, before in enumerate(after) for b in before)
    return Graph(some_text(chance), nodes, edges, "run_1", chance.choice([None, some_text(chance)]), some_text(chance))


SEEDS: Final = st.integers(0, 2**32)


def parsed(text: str | bytes) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 (our own)


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each step's box."""
    found = parsed(text).iter(f"{SVG}rect")
    stated = [[float(one.attrib[name]) for name in ("x", "y", "width", "height")] for one in found if "x" in one.attrib]
    return [(x, y, x + width, y + height) for x, y, width, height in stated]


def wide(steps: int) -> dict[str, Any]:
    """One step, many beside one another after it, and one after all of those; no two of a tool."""
    middle = [{"id": f"s{n}", "tool": f"t{n}", "args": {"x": "${first.v}"}} for n in range(steps - 2)]
    last: Any = {"id": "last", "tool": "end", "args": {}, "depends_on": [one["id"] for one in middle]}
    return {"goal": "wide", "steps": [{"id": "first", "tool": "begin", "args": {}}, *middle, last]}


def test_edges_say_whether_a_value_goes_along_them() -> None:
    assert graph_of(PLAN, FACTS).wire()["edges"] == [
        {"from": "order", "to": "refund", "kind": "value"},
        {"from": "policy", "to": "refund", "kind": "order"},
        {"from": "order", "to": "tell", "kind": "value"},
        {"from": "refund", "to": "tell", "kind": "value"},
    ]


def test_a_node_has_what_is_known_of_its_step() -> None:
    order, policy, refund, tell = graph_of(PLAN, FACTS, VIEW).nodes
    assert (order.effect, order.state, order.attempts, order.wave) == ("read", "succeeded", 2, 0)
    assert order.undos == (Undone("undone", tool="orders_undo"),)
    assert policy.reason == "tool_failed: It said no."
    assert refund.waits == "the decision of an operator: apr_7"
    assert (refund.version, refund.conditional, refund.wave) == ("2", True, 1)
    assert (tell.reason, tell.any_end, tell.repeats) == ("because of policy", True, True)
    assert tell.items == {"failed": 1, "succeeded": 2}
    assert all(node.state is None for node in graph_of(PLAN, FACTS).nodes), "a plan does not stand anywhere"


@pytest.mark.parametrize("draw", [mermaid, svg])
def test_a_picture_says_in_words_all_that_colours_say(draw: Any) -> None:
    text = draw(graph_of(PLAN, FACTS, VIEW))
    for said in ("succeeded", "failed", "awaiting approval", "not run", "destructive", "approval operator", "apr_7"):
        assert said in text
    assert "undo by orders_undo: undone" in text
    assert "3 items: 1 failed, 2 succeeded" in text
    assert "because of policy" in text


def test_no_two_states_of_another_meaning_look_alike_without_colour() -> None:
    quiet = {"waiting", "ready"}, {"skipped", "not_run"}
    for one, other in combinations(LOOKS, 2):
        same = (LOOKS[one].sign, LOOKS[one].dash, LOOKS[one].ends) == (
            LOOKS[other].sign, LOOKS[other].dash, LOOKS[other].ends)  # fmt: skip
        assert not same or {one, other} in quiet, (one, other)


def test_text_stands_out_from_what_it_is_written_on() -> None:
    for look in LOOKS.values():
        assert contrast(INK, look.fill) >= 12
        assert contrast(look.line, look.fill) >= 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_every_svg_is_xml_of_known_elements_that_runs_and_fetches_nothing(seed: int) -> None:
    graph = graph_from(seed)
    text = svg(graph)
    root = parsed(text.encode())
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        *("svg", "title", "desc", "defs", "marker", "path", "rect", "g", "text")
    }
    for one in root.iter():
        for name, value in one.attrib.items():
            assert not name.startswith("on"), name
            assert "href" not in name, name
            assert not re.search(r"url\((?!#cf-head\))", value), value
    assert root.find(f"{SVG}title") is not None
    assert root.find(f"{SVG}desc") is not None
    assert text == svg(graph), "the same graph has the same bytes"


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_every_step_has_its_place_and_every_edge_its_way(seed: int) -> None:
    graph = graph_from(seed)
    text = svg(graph)
    root, found = parsed(text.encode()), boxes(text)
    assert len(found) == len(graph.nodes)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for left, top, right, bottom in found:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    for one, other in combinations(found, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1], "they overlap"
    layout = lay_out([node.wave for node in graph.nodes], graph.edges)
    ways: dict[int, set[int]] = {}
    for segment in layout.segments:
        assert layout.spots[segment.above].row < layout.spots[segment.below].row
        ways.setdefault(segment.above, set()).add(segment.below)
    for edge in graph.edges:
        assert edge.after in reached(ways, edge.before), "an edge is not drawn"
        assert (found[edge.before][3]) < found[edge.after][1], "what waits stands below"


def reached(ways: dict[int, set[int]], start: int) -> set[int]:
    seen, waiting = set[int](), [start]
    while waiting:
        for one in ways.get(waiting.pop(), ()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return seen


LABEL: Final = r'"(?:[\w _.,:()+=/…→◌✓▶□↶⇄⊘✗‽-]|#\d+;|<br/>)*"'
LINES: Final = re.compile(
    "|".join(
        (
            r"flowchart TD",
            r"  acc(?:Title|Descr): [\w _.,()-]+",
            rf"  n\d+(?:\[{LABEL}\]|\({LABEL}\)|\(\[{LABEL}\]\)|\[\[{LABEL}\]\]|\{{\{{{LABEL}\}}\}}|>{LABEL}\]):::\w+",
            rf"  u\d+\(\[{LABEL}\]\):::undo",
            r"  n\d+ -\. undo \.-> u\d+",
            r"  n\d+ (?:-->|-\.->) n\d+",
            r"  classDef \w+ fill:#\w{6},stroke:#\w{6},color:#\w{6}(?:,stroke-dasharray:\d \d)?",
        )
    )
)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_every_mermaid_text_keeps_to_the_grammar_whatever_names_and_reasons_hold(seed: int) -> None:
    graph = graph_from(seed)
    text = mermaid(graph)
    for line in text.removesuffix("\n").split("\n"):
        assert LINES.fullmatch(line), line
    assert text == mermaid(graph)
    defined = re.findall(r"^  (n\d+)[^ ]*[\[({>]", text, re.MULTILINE)
    assert len(set(defined)) == len(graph.nodes)
    classes = set(re.findall(r":::(\w+)$", text, re.MULTILINE))
    assert classes == set(re.findall(r"classDef (\w+)", text))


def test_hostile_words_are_shown_and_mean_nothing() -> None:
    graph = Graph(HOSTILE, (Node(HOSTILE, HOSTILE, state="failed", reason=HOSTILE),), ())
    drawn = svg(graph)
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "U+202E" in drawn, "what is unseen is written out"
    text = mermaid(graph)
    for means in ("%%", "<script", "```", "subgraph \\", '"]; '):
        assert means not in text
    assert "#34;" in text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("two words", ["two", "words"]),
        ("unbreakable", ["unbrea", "kable"]),
        ("one two three four", ["one", "two t…"]),
        ("漢字漢字", ["漢字漢", "字"]),
    ],
)
def test_long_words_are_wrapped_and_what_is_left_out_is_marked(text: str, lines: list[str]) -> None:
    assert wrapped(text, 6, 2) == lines


def test_two_edges_that_need_not_cross_do_not() -> None:
    edges = [Edge(0, 3, EdgeKind.VALUE), Edge(1, 2, EdgeKind.VALUE)]
    layout = lay_out([0, 0, 1, 1], edges)
    x = [spot.x for spot in layout.spots]
    assert (x[0] < x[1]) == (x[3] < x[2])


def test_two_hundred_steps_have_a_box_each_in_a_page_of_bounded_width() -> None:
    text = svg(graph_of(wide(200), {}))
    assert len(boxes(text)) == 200
    assert float(parsed(text).attrib["width"]) < 400 * COLUMNS
    rows: dict[float, int] = {}
    for _, top, _, _ in boxes(text):
        rows[top] = rows.get(top, 0) + 1
    assert max(rows.values()) <= COLUMNS


def chain(steps: int) -> list[dict[str, Any]]:
    return [{"id": f"s{n}", "tool": f"t{n}", "args": {"x": f"${{s{n - 1}.v}}"} if n else {}} for n in range(steps)]


def net(steps: int) -> dict[str, Any]:
    """A chain whose every step also waits for one that ended long before."""
    linked = [one | ({"depends_on": [f"s{n // 2}"]} if n > 1 else {}) for n, one in enumerate(chain(steps))]
    return {"goal": "net", "steps": linked}


@pytest.mark.parametrize("plan", [wide(5_000), net(5_000)], ids=["wide", "net"])
def test_five_thousand_steps_are_drawn_within_bounds(plan: dict[str, Any]) -> None:
    graph = graph_of(plan, {})
    assert len(graph.nodes) == 5_000
    drawn = svg(graph)
    assert max(len(drawn), len(mermaid(graph))) < 6_000_000
    assert drawn.endswith("</svg>\n")


def test_steps_that_are_alike_are_folded_and_what_a_person_looks_for_stands_alone() -> None:
    plan = wide(5_000)
    for step in plan["steps"][1:-1]:
        step["tool"] = "same"
    states = {one["id"]: "succeeded" for one in plan["steps"]} | {"s77": "failed", "s78": "awaiting_approval"}
    view = {"status": "running", "steps": [{"id": name, "state": state} for name, state in states.items()]}
    text = svg(graph_of(plan, {}, view))
    assert len(boxes(text)) == 5
    assert len(boxes(text)) <= MOST
    assert "4996 steps: s0 … s4997" in text
    assert "s77" in text
    assert "5000 steps in 3 waves" in text
    assert "4998 succeeded" in text


def test_a_long_chain_does_not_drift_out_of_the_page() -> None:
    plan: Any = {"goal": "g", "steps": chain(300)}
    lefts = [left for left, _, _, _ in boxes(svg(graph_of(plan, {})))]
    assert all(one == other for one, other in pairwise(lefts))
