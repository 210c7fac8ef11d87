"""What the play showed, judged, and told to a person or to a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ..cli.answer import View
from ..cli.render import headed
from .order_store import Count
from .picture import Picture
from .timeline import Timeline

Say = Callable[[RenderableType], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it.

    `refunds` and `messages` are counted in the order service's own database; `contacts` is how many were to be told.
    `undone` is, of the chain that failed: refunds made and asked for, and taken back and asked to be.
    """

    run_id: str
    call_id: str
    before: str | None
    after: str | None
    run_status: str
    refunds: Count
    undone: tuple[int, ...]
    compensation: str
    messages: Count
    contacts: int
    killed: bool
    restarted: bool
    ledger: View
    timeline: Timeline

    @property
    def ok(self) -> bool:
        """True if every promise of the play was kept: each effect once, asked for once, and known in the end."""
        return (
            (self.before, self.after, self.run_status) == ("ambiguous", "success", "succeeded")
            and self.refunds == (1, 1)
            and (self.undone, self.compensation) == ((1, 1, 1, 1), "complete")
            and self.messages == (self.contacts, self.contacts)
            and self.killed
            and self.restarted
            and bool(self.ledger.get("ok"))
        )

    def wire(self) -> dict[str, Any]:
        """The form that `--json` prints."""
        return {
            "ok": self.ok,
            "call_id": self.call_id,
            "before": self.before,
            "after": self.after,
            "effects": self.refunds.made,
            "killed": self.killed,
            "restarted": self.restarted,
            "ledger": dict(self.ledger),
            "run_id": self.run_id,
            "run_status": self.run_status,
            "notifications": self.messages.made,
            "compensation": self.compensation,
        }

    def told(self, seconds: float) -> Iterator[RenderableType]:
        """The count, the picture, the chain and the verdict."""
        made = f"{_many(self.refunds.made, 'refund')}, {_many(self.messages.made, 'message')}"
        asked = f"{self.refunds.asked} and {_many(self.messages.asked, 'request')}"
        yield headed("Count", f"the service's own books: {made}, from {asked};")
        refunded, _, back, _ = self.undone
        yield headed("", f"of the one that failed {_many(refunded, 'refund')} made, {back} taken back.")
        yield Text(f"\nWhat the ledger knows of {self.run_id}", style="bold")
        yield Picture(self.timeline)
        held = "every link holds" if self.ledger["ok"] else f"damaged: {self.ledger['problems']}"
        yield Text(f"\nledger verify: {self.ledger['events']} events in {self.ledger['runs']} chains, {held}.")
        verdict = "Nothing happened twice, and nothing was called failed that was not."
        style = "bold green" if self.ok else "bold red"
        yield Text(f"{verdict if self.ok else 'The play failed.'} ({seconds:.0f} s)", style=style)


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
