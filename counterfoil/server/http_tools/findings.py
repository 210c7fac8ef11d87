"""What is allowed in a described tool and still worth a look: `counterfoil check` shows it, a start does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...registry.filling import TemplateError, holes
from ...registry.policy_check import Finding, Severity
from ...registry.vocabulary import Effect, Idempotency
from ...secret_names import is_secret_name
from ..config import Configuration
from ..config.errors import KeyPath
from ..config.tool_tables import ToolTable
from .keys import is_reference, names_call, sends_key
from .making import probe_of, tool_of

_ANOTHERS: Final = (
    "this probe could match another call: nothing in its request is this call's alone; send "
    "{call.action_id} with the call and ask for it here"
)
_NEVER_SENT: Final = (
    "this probe asks for {call.action_id}, and the tool's own request never sends it, so it can find no call; state "
    "idempotency_header on a keyed tool, or {call.action_id} in the request"
)
_NOBODY_ASKS: Final = (
    "settle_s lets a call be sent again once its probe says absent; without a probe or a key nothing asks"
)
_BARE: Final = (
    "a destructive tool without probe, key or compensation: a lost answer can be settled by a person alone, and "
    "nothing here can undo its effect"
)
LITERAL: Final = (
    "a literal in a header of this name looks like a secret written down; put it in the environment or a file and "
    "write env:NAME or file:PATH"
)


def findings(config: Configuration) -> list[Finding]:
    """Everything worth saying about the described tools, in the order of the file."""
    return [
        Finding(severity, "", str(config.problem(("tools", name, *below), text)))
        for name, table in config.tools.items()
        for severity, below, text in _of_tool(table)
    ]


Said = tuple[Severity, KeyPath, str]


def _of_tool(table: ToolTable) -> Iterator[Said]:
    keyed = table.idempotency is Idempotency.KEYED
    if table.probe is not None and not names_call(probe_of(table.probe).request):
        yield Severity.WARNING, ("probe",), _ANOTHERS
    elif table.probe is not None and (spec := tool_of(table)) is not None and not sends_key(spec):
        yield Severity.WARNING, ("probe",), _NEVER_SENT
    if table.settle_s is not None and table.probe is None and not keyed:
        yield Severity.WARNING, ("settle_s",), _NOBODY_ASKS
    bare = table.probe is None and table.compensation is None and not keyed
    if bare and table.effect is Effect.DESTRUCTIVE and not table.manual:
        yield Severity.NOTE, (), _BARE


def is_written_down(name: str, text: str) -> bool:
    """Whether a header looks like a secret that stands in the file itself."""
    try:
        return is_secret_name(name) and not is_reference(text) and not any(holes(text))
    except TemplateError:
        return True
