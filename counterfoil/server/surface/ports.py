"""What the MCP surface asks of the other rooms, by shape: the runtime, the catalogue, and the base tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...canonical import JsonObject, JsonValue
from ...registry.adapter import ProgressSink
from ...registry.contract import Contract
from ...registry.principal import Principal
from ...registry.question import Question, Said
from ...registry.request import CallRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """What a base tool's handler is told beside its arguments; the wait is in seconds.

    `can_ask` is true where this client shows its person forms; `said` is what that person answered to the last one.
    """

    principal: Principal
    progress: ProgressSink | None = None
    default_wait_s: float = 4.0
    has_progress_token: bool = False
    can_ask: bool = False
    said: Said | None = None


class Answered(Protocol):
    """What a base tool's handler gives back."""

    @property
    def body(self) -> JsonObject:
        """What goes out, as structured content and as text."""
        ...

    @property
    def is_error(self) -> bool:
        """Whether the host is told that it failed."""
        ...

    @property
    def delivers(self) -> tuple[str, ...]:
        """The calls whose settled state the body shows."""
        ...

    @property
    def question(self) -> Question | None:
        """What the person at the client is to be asked first."""
        ...


class Hints(Protocol):
    """MCP's four hints about a tool."""

    @property
    def read_only(self) -> bool: ...  # noqa: D102 (the class says it)
    @property
    def destructive(self) -> bool: ...  # noqa: D102
    @property
    def idempotent(self) -> bool: ...  # noqa: D102
    @property
    def open_world(self) -> bool: ...  # noqa: D102


class BaseTool(Protocol):
    """One tool of the constant list. Its handler checks its own arguments."""

    @property
    def name(self) -> str: ...  # noqa: D102 (as MCP has it, like the rest)
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def input_schema(self) -> JsonObject: ...  # noqa: D102
    @property
    def output_schema(self) -> JsonObject: ...  # noqa: D102
    @property
    def annotations(self) -> Hints: ...  # noqa: D102
    @property
    def handler(self) -> Callable[[JsonValue, Any], Awaitable[Answered]]:
        """Called with the arguments as they came and an `Asked`."""
        ...


class View(Protocol):
    """A call as it stands."""

    @property
    def is_error(self) -> bool:
        """True exactly when `error` is set and its code is not `in_progress`."""
        ...

    @property
    def delivers(self) -> tuple[str, ...]:
        """The calls whose settled state this shows."""
        ...

    @property
    def pending(self) -> tuple[str, ...]:
        """The undecided proposals that it waits for."""
        ...

    def wire(self) -> JsonObject:
        """The call view of design section 7."""
        ...


class Desk(Protocol):
    """The doors of the runtime that the surface uses itself. Base tools have more of them."""

    async def call(self, request: CallRequest) -> View:
        """The one call path. Refusals are views; it never raises once something may have been sent."""
        ...

    async def status(
        self,
        principal: Principal,
        *,
        call_id: str | None,
        run_id: str | None,
        after_seq: int | None,
        offset: int | None,
        wait_s: float,
    ) -> View:
        """A call or run with its events after `after_seq`; without an id the principal's overview."""
        ...

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        """What the user of this very client may be asked of these proposals."""
        ...

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> View:
        """Check and record what came back from a form."""
        ...

    async def follow(self, principal: Principal, call_id: str, wait_s: float, *, for_decision: bool = False) -> View:
        """A call as the answer of its own request."""
        ...

    async def delivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        """An answer that shows the end of these calls was written to the transport for this principal."""
        ...

    async def undelivered(self, call_ids: Sequence[str], principal: Principal) -> None:
        """Such an answer could not be written."""
        ...

    async def artifact(self, principal: Principal, artifact_id: str, offset: int, length: int) -> bytes | None:
        """A part of an artifact; empty beyond its end; None if the principal has none of that id."""
        ...


class Catalogue(Protocol):
    """The registered tools, as one principal sees them. No lookup here grows with their number."""

    def listed(self, principal: Principal) -> Sequence[Contract]:
        """What its tools/list shows beside the base tools; the same for the same scopes."""
        ...

    def card(self, principal: Principal, name: str) -> JsonObject | None:
        """Everything that it may read about one tool; None if it may not see it."""
        ...
