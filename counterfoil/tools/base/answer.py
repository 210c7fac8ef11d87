"""What a base tool is asked with and what it answers: values, before anything of MCP."""

from __future__ import annotations

from dataclasses import dataclass

from ...canonical import JsonObject
from ...registry.adapter import ProgressSink
from ...registry.principal import Principal
from ...registry.question import Question, Said
from ...registry.vocabulary import ErrorCode


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and how long they wait if they do not say (in seconds).

    `can_ask` is true where this client shows its person forms; `said` is what that person answered to the last one.
    """

    principal: Principal
    progress: ProgressSink | None = None
    default_wait_s: float = 4.0
    has_progress_token: bool = False
    can_ask: bool = False
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The body that goes out as structured content and as text; `delivers` are the calls whose end it shows.

    With a `question` the person at the client is to be asked first; the body is what goes out if that cannot be.
    """

    body: JsonObject
    is_error: bool = False
    delivers: tuple[str, ...] = ()
    question: Question | None = None

    @classmethod
    def refused(cls, code: ErrorCode, message: str, details: JsonObject) -> Answer:
        """A refusal of the base tool itself: nothing was asked of anything."""
        error: JsonObject = {"code": code, "message": message, "retryable": False, "details": details}
        return cls({"outcome": "invalid_request", "sent": "no", "error": error}, is_error=True)
