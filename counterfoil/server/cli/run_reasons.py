"""Why a run is where it is, in a sentence for a person, from its view alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from ...runtime.by_hand import BY_A_PERSON
from . import following
from .answer import View, part, parts

_QUEUED: Final = {
    "held": "It may not go on while a hold stands.",
    "stopped": "Its client cancelled the request: no further step with an effect starts until somebody takes it up.",
    "authority_expired": "The authority it was started under has run out: whoever started it takes it up again.",
    "budget": "A budget is used up.",
    "unavailable": "What it needs next is not there now.",
}
_ENDED: Final = {
    "budget": "Its own budget is used up; what it could not afford was not sent.",
    "deadline_exceeded": "Its deadline passed before every step had ended.",
}
_NAMED: Final = 5
"""How many steps a sentence names."""


def why(view: View) -> str:
    """What keeps it where it is, or how it ended; of a run that cannot be shown, why not.

    The short form of a run, in what `status` lists, has no steps, proposals or calls to name.
    """
    if view.get("error") and "steps" not in view:
        return following.error_text(part(view, "error"))
    said = _BY_STATUS.get(str(view.get("status")))
    return _sentence(str(view.get("reason") or "")) if said is None else said(view)


def _decision(view: View) -> str:
    names = _steps_of(view, "pending")
    return f"A person must decide: {_named(names)}." if names else "A person must decide."


def _unknown(view: View) -> str:
    accepted = _in_state(view, "awaiting_external")  # of those the far side knows
    by_hand = {_step_of(found) for found in parts(view, "unresolved") if BY_A_PERSON in str(found.get("how"))}
    names = [name for name in _steps_of(view, "unresolved") if name not in accepted]
    unknown, to_do = [name for name in names if name not in by_hand], [name for name in names if name in by_hand]
    if names:
        told = [f"Nobody knows what became of: {_named(unknown)}."] if unknown else []
        return " ".join(
            [*told, *([f"A person does this outside, and says so then: {_named(to_do)}."] if to_do else [])]
        )
    if view.get("reason") == "strict":
        return "An undo failed, and its plan is strict: nothing further is undone before that is."
    other = "Another run's call is unresolved." if "unresolved" in view else "Nobody knows what became of a call."
    return str(view.get("reason") or other)


def _far_side(view: View) -> str:
    names = _named(_in_state(view, "awaiting_external"))
    return f"A far side has accepted and still works: {names}. It is asked again by itself."


def _cancelled(view: View) -> str:
    del view
    return "It was cancelled; the effects that stand are not undone."


def _queued(view: View) -> str:
    reason = view.get("reason")
    if reason is None:
        return "No process drives it now; a running server takes it up."
    word, _, more = str(reason).partition(":")
    return f"{_QUEUED[word]}{f' ({more.strip()})' if more else ''}" if word in _QUEUED else str(reason)


def _failed(view: View) -> str:
    error, reason = part(view, "error"), str(view.get("reason") or "")
    failed = [*_in_state(view, "failed"), *_in_state(view, "rejected")]
    steps = f"Steps that failed: {_named(failed)}." if failed else ""
    said = following.error_text(error) if error else _ENDED.get(reason, "" if steps else reason)
    return " ".join(filter(None, (_sentence(said), steps)))


def _sentence(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."


def _in_state(view: View, state: str) -> list[str]:
    return [str(step.get("id")) for step in parts(view, "steps") if step.get("state") == state]


def _steps_of(view: View, name: str) -> list[str]:
    """The steps of what is pending or unresolved, each once."""
    return list(dict.fromkeys(_step_of(found) for found in parts(view, name)))


def _step_of(found: View) -> str:
    name = str(found.get("step") or found.get("call_id"))
    return f"the undo of {name}" if found.get("undo") else name


def _named(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join([*names[:_NAMED], *([f"{rest} more"] if rest > 0 else [])])


def notes(steps: Iterable[View]) -> Iterable[tuple[str, str]]:
    """The error or reason of each step that has one; neighbours with the same one are told together."""
    said = [(str(step.get("id")), _note(step)) for step in steps]
    for text, found in groupby(said, lambda pair: pair[1]):
        names = [name for name, _ in found]
        if text:
            yield names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})", text


def _note(step: View) -> str:
    error, reason = part(step, "error"), step.get("reason")
    if error or not reason:
        return following.error_text(error) if error else ""
    said = {"not_run": f"because of {reason}", "skipped": "its `when` was false"}
    return said.get(str(step.get("state")), str(reason))


_BY_STATUS: Final[Mapping[str, Callable[[View], str]]] = {
    "awaiting_approval": _decision,
    "awaiting_reconciliation": _unknown,
    "awaiting_external": _far_side,
    "queued": _queued,
    "failed": _failed,
    "budget_exhausted": _failed,
    "cancelled": _cancelled,
}
