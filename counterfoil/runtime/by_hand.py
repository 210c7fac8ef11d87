"""A call that a person performs: what they are told to do, and what their word must hold. Pure.

No program sends it, repeats it or finds out about it. It is recorded, and from then on it waits for that word.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ..visible import visible
from .refusal import refuse_arguments

if TYPE_CHECKING:
    from ..ledger.rows import CallRow
    from ..registry.contract import Contract
    from ..registry.vocabulary import JsonValue

SHOWN: Final = 1_000
"""How many characters of its arguments the sentence shows; the call's record has the rest."""
BY_A_PERSON: Final = "A person does "
"""How the sentence about such a call begins."""


def how_by_hand(row: CallRow, contract: Contract) -> str:
    """What a person does, and how they say that it is done, in a few sentences."""
    shown = visible(json.dumps(json.loads(row.args_shown), ensure_ascii=False))
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}… (the rest: `counterfoil status {row.call_id}`)"
    title = contract.text.title
    what = contract.name if title == contract.name else f"{contract.name} ({visible(title)})"
    output = "" if contract.schemas.output is None else ", whose output fits the tool's output schema"
    return (
        f"{BY_A_PERSON}{what} outside, with {shown}. Once it is done they run `counterfoil reconcile {row.call_id} "
        f"--resolution happened --evidence TEXT --output JSON`{output}; if it will not be done, `--resolution "
        "not_happened --evidence TEXT`. Until then nothing else happens to it: do not ask for it again."
    )


def require_fitting(contract: Contract, output: JsonValue) -> None:
    """Refuse what a person says came of it where it breaks the output schema: they are there to say it right.

    Raises:
        RefusedError: the first thing that is wrong with it.
    """
    problems = contract.gives.problems(output, limit=1) if contract.gives is not None else ()
    for problem in problems:
        raise refuse_arguments(f"/output{problem.path}", problem.expected, problem.got)
