"""The state that a prompt embeds: what its principal may read anyway, made short, without what helps to decide."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final

from ...canonical import JsonObject, JsonValue

STATE_CHARS: Final = 24_000
"""The most of one state in a prompt; `status` has the rest."""
_LEFT_OUT: Final = frozenset({"outputs", "output", "events", "more"})
_DECIDED_BY: Final = frozenset({"digest"})
"""What whoever approves has to know of a proposal."""
_THEIR_OWN: Final = frozenset({"arguments"})
"""Members whose names are a tool's, and none of ours."""
_PLAIN: Final = frozenset({"succeeded", "waiting", "ready", "skipped", "not_run", "cancelled"})


def text_of(kind: str, state: JsonValue) -> str:
    """The state as marked JSON."""
    text = _written(kind, state)
    if len(text) <= STATE_CHARS:
        return text
    shorter = _shorter(state)
    text = _written(kind, shorter)
    return text if len(text) <= STATE_CHARS else _written(kind, _head(shorter))


def view(body: JsonObject) -> JsonObject:
    """A run or call without its outputs and events, and without what would help to decide its proposals."""
    return undecided({name: value for name, value in body.items() if name not in _LEFT_OUT})


def undecided(body: JsonObject) -> JsonObject:
    """A proposal, or what has some anywhere inside, without what whoever approves it has to know."""
    kept = {name: value for name, value in body.items() if name not in _DECIDED_BY}
    return {name: value if name in _THEIR_OWN else _inside(value) for name, value in kept.items()}


def _inside(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_inside(one) for one in value]
    return undecided(value) if isinstance(value, dict) else value


def objects(value: JsonValue) -> list[JsonObject]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def ids(value: JsonValue, name: str) -> list[str]:
    """Each object's member of that name, where it is text."""
    return [found for one in objects(value) if isinstance(found := one.get(name), str)]


def _written(kind: str, state: JsonValue) -> str:
    return json.dumps({"untrusted": True, kind: state}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _shorter(state: JsonValue) -> JsonValue:
    """A run without the steps of which there is nothing to say but how many they are; a list's beginning."""
    if isinstance(state, list):
        return state[:10]
    if not isinstance(state, dict) or "steps" not in state:
        return state
    steps = objects(state["steps"])
    plain = Counter(str(step.get("state")) for step in steps if step.get("state") in _PLAIN)
    told: list[JsonValue] = [_step(step) for step in steps if step.get("state") not in _PLAIN]
    return {**state, "steps": told[:20], "steps_not_shown": {**plain, "further": len(told[20:])}}


def _step(step: JsonObject) -> JsonObject:
    """A step without those of its items that need no word."""
    if "items" not in step:
        return step
    items: list[JsonValue] = [one for one in objects(step["items"]) if one.get("state") not in _PLAIN]
    return {**step, "items": items[:5]}


def _head(state: JsonValue) -> JsonValue:
    """What is left of a state that nothing makes short: its plain members."""
    if isinstance(state, list):
        return [_head(one) for one in state]
    if not isinstance(state, dict):
        return None
    return {name: value for name, value in state.items() if not isinstance(value, dict | list)}
