"""What a fork takes over only once its arguments are known: an earlier call stands for a place that would send the
same.

Where a fork would send something else, a read is made anew. An effect is not: it stands already, and another one beside
it is what nobody asked for. Pure: told what a place comes to, it says what the earlier call is good for.
"""  # noqa: D205 (one sentence)

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ...canonical import canonical
from ...ledger.forking import as_it_was
from ...ledger.run_rows import WHOLE
from ...registry.arguments import InvalidArgumentsError
from .board import Place
from .states import ENDED, StepState

if TYPE_CHECKING:
    from ...ledger.rows import CallRow
    from ...ledger.run_rows import StepRow
    from ...registry.catalogue import Catalogue
    from ...registry.vocabulary import JsonValue
    from ..plan.model import Step

Mac: TypeAlias = "Callable[[str, bytes], str]"
LIST: Final = "list"
"""The member of a note's `details` with the keyed digest of what a `for_each` was repeated for."""
_PURPOSE: Final = "counterfoil list of a for_each"


@dataclass(frozen=True, slots=True)
class Again:
    """The earlier call stands for this place; nothing is sent."""

    row: CallRow


@dataclass(frozen=True, slots=True)
class Differs:
    """The earlier call has had its effect, and this place would send something else. Nothing is sent."""

    message: str


def digest_of_list(found: JsonValue, mac: Mac) -> str:
    """A keyed digest of the list of a `for_each`."""
    return mac(_PURPOSE, canonical(found))


def is_same(catalogue: Catalogue, step: Step, arguments: JsonValue, earlier: CallRow) -> bool:
    """True if an earlier call had exactly these arguments, defaults filled in, of exactly this tool."""
    entry = catalogue.get(step.tool, step.version)
    if entry is None or entry.contract.schema_digest != step.schema_digest:
        return False
    if (earlier.tool, earlier.version, earlier.schema_digest) != (step.tool, step.version, step.schema_digest):
        return False
    try:
        return entry.contract.takes.effective(arguments).digest == earlier.args_digest
    except InvalidArgumentsError:
        return False


def differing(earlier: CallRow) -> str:
    """Why an effect is neither taken over nor had again."""
    return (
        f"{earlier.call_id} of {earlier.run_id} had its effect with other arguments than this step comes to now. It "
        "stands; nothing was sent. Plan what is left by hand."
    )


@dataclass(frozen=True, slots=True)
class Reusable:
    """The earlier calls that may stand for places of a run, and the digests of the lists that items were made from."""

    calls: dict[Place, CallRow] = field(default_factory=dict[Place, "CallRow"])
    lists: Mapping[int, str] = field(default_factory=dict[int, str])

    def covers(self, step: int) -> bool:
        """True if an earlier call may stand for this step, or for one of its items."""
        return step in self.lists or Place(step) in self.calls

    def take(self, catalogue: Catalogue, step: Step, place: Place, arguments: JsonValue) -> Again | Differs | None:
        """What the earlier call of a place is good for; None if there is none, or it is a read of something else."""
        earlier = self.calls.get(place)
        if earlier is None:
            return None
        if is_same(catalogue, step, arguments, earlier):
            return Again(earlier)
        if not earlier.is_read:
            return Differs(differing(earlier))
        del self.calls[place]
        return None

    def of_list(self, step: int, found: JsonValue, mac: Mac) -> Differs | None:
        """A `for_each` is repeated for this list now: with another one its items are other ones."""
        known = self.lists.get(step)
        if known is None or known == digest_of_list(found, mac):
            return None
        mine = [place for place in self.calls if place.step == step]
        acted = next((self.calls[place] for place in mine if not self.calls[place].is_read), None)
        if acted is not None:
            return Differs(f"Its list is another one than in {acted.run_id}, where items of it have had their effects. "
                           "They stand; nothing was sent. Plan what is left by hand.")  # fmt: skip
        for place in mine:
            del self.calls[place]
        return None


def reusable(notes: Mapping[Place, StepRow], earlier: Mapping[str, CallRow]) -> Reusable:
    """What the notes of a run leave to be taken over; `notes` are those of places that have no call of their own."""
    calls: dict[Place, CallRow] = {}
    lists: dict[int, str] = {}
    for place, note in notes.items():
        if StepState(note.state) in ENDED:
            continue
        if note.reused is not None and note.reused in earlier:
            calls[place] = as_it_was(earlier[note.reused], note.outcome)
        elif place.item == WHOLE and note.details is not None and LIST in (said := json.loads(note.details)):
            lists[place.step] = said[LIST]
    return Reusable(calls, lists)
