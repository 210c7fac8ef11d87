"""The commands that this program will have and this version does not, so that nobody is told that they are unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .exits import CommandError, Exit

LATER: Final = frozenset(
    {
        *("signal", "import", "worker", "console", "bench"),
        "tools pin",
    }
)


def refuse(rest: Sequence[str], there: Mapping[str, Any]) -> None:
    """Refuse a line whose command comes later; `there` are the commands that there are, groups with their `commands`.

    Raises:
        CommandError: the line names one.
    """
    first, second = ([*rest, "", ""])[:2]
    inner = getattr(there.get(first), "commands", {})
    for name, word, known in ((first, first, there), (f"{first} {second}", second, inner)):
        if name in LATER and word not in known:
            message = f"`counterfoil {name}` is not available in this version; see --help for what is"
            raise CommandError(Exit.USAGE, "not_available", message)
