"""Why T1 was not made where that is no refusal: the answer is another call's, another state's, or a later time's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..ledger.admission import Duplicate, Unresolved
    from ..ledger.approval_rows import ApprovalRow
    from ..ledger.rows import CallRow


class CallerGoneError(Exception):
    """Nobody waits for a call that has no row: it is given up before anything was sent."""


class NotSentError(Exception):
    """T1 was not made, and the answer is another call's or another state's; see the attributes of the kinds below."""


class IsDuplicateError(NotSentError):
    """The request is, or collides with, a call that is there already."""

    def __init__(self, duplicate: Duplicate) -> None:
        super().__init__(duplicate.relation)
        self.duplicate = duplicate


class MovedOnError(NotSentError):
    """The call is no longer ours to send: decided otherwise, cancelled, taken over, or reported late."""

    def __init__(self, row: CallRow | None, *, late: bool = False) -> None:
        super().__init__(row.state if row else "gone")
        self.row = row
        self.late = late


class NeedsProposalError(NotSentError):
    """Its approval cannot be consumed (any more): a fresh proposal is needed."""

    def __init__(self, approval: ApprovalRow | None) -> None:
        super().__init__(approval.state if approval else "none")
        self.approval = approval


class LimitReachedError(NotSentError):
    """Since the decision the limit of a rule was reached, so that the rule matches now: it is to be made anew."""

    def __init__(self, rule_id: str) -> None:
        super().__init__(rule_id)
        self.rule_id = rule_id


class HeldUpError(NotSentError):
    """A step is held up by a call elsewhere whose outcome nobody knows: it waits, without a place in any queue."""

    def __init__(self, found: Unresolved) -> None:
        super().__init__(found.row.call_id)
        self.found = found


class RunSaysNoError(NotSentError):
    """The run of a step does not let it be sent now; see the ledger's `RunSaysNo`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class RulesChangedError(NotSentError):
    """Since the decision the configuration was read again: it is to be made anew, under the policy of now."""
