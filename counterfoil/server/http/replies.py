"""The short replies of the edge: what is refused before MCP sees it, and why."""

from __future__ import annotations

from typing import Final

from mcp.types import INVALID_REQUEST
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ..strict import Id, error_line

WHOLE_BODY_S: Final = 30.0
"""How long a client may take for the body of a request, in seconds."""
_CLOSE: Final = {"Connection": "close"}


def healthy() -> Response:
    """We are here; that is all."""
    return Response(status_code=200)


def foreign_host() -> Response:
    """A name that is none of ours: a page that had its own name point at us would send it."""
    return PlainTextResponse(
        "This Host is not served here; name it in server.allowed_hosts if it is yours.", 421, headers=_CLOSE
    )


def foreign_origin() -> Response:
    """A web page from elsewhere."""
    return PlainTextResponse(
        "This Origin is not served here; name its host in server.allowed_hosts if it is yours.", 403, headers=_CLOSE
    )


def unauthenticated(*, tried: bool) -> Response:
    """Who asks is not known."""
    challenge = 'Bearer error="invalid_token"' if tried else "Bearer"
    body = {"error": "invalid_token" if tried else "unauthorized"}
    return JSONResponse(body, 401, headers={"WWW-Authenticate": challenge} | _CLOSE)


def nothing_here() -> Response:
    """Another path."""
    return PlainTextResponse("MCP is at /mcp.", 404)


def heard() -> Response:
    """Somebody's word that a far side is done."""
    return Response(status_code=204, headers=_CLOSE)


def wrong_method(allowed: str = "GET, POST, DELETE") -> Response:
    """Another verb."""
    return Response(status_code=405, headers={"Allow": allowed})


def no_json() -> Response:
    """Another kind of body."""
    return PlainTextResponse("Expected Content-Type: application/json.", 415, headers=_CLOSE)


def too_slow() -> Response:
    """The rest of the body did not come."""
    return PlainTextResponse(f"The body was not here within {WHOLE_BODY_S:g} s.", 408, headers=_CLOSE)


def too_large(limit: int) -> Response:
    """More than any call may have."""
    return PlainTextResponse(f"Expected at most {limit:,} bytes.", 413, headers=_CLOSE)


def too_many_requests() -> Response:
    """All of them together."""
    return PlainTextResponse("Too many requests are open; nothing was sent.", 503, headers={"Retry-After": "1"})


def still_leaving() -> Response:
    """Its own earlier request, whose client has hung up, has not come to its end: nothing can be said of repeats."""
    message = "An earlier request whose client has gone is still ending; nothing was sent."
    return PlainTextResponse(message, 503, headers={"Retry-After": "1"})


def too_many_streams(request_id: Id) -> Response:
    """Of one principal."""
    message = "Too many streams of this principal are open; end one first"
    return broken(error_line(request_id, INVALID_REQUEST, message), 429)


def too_many_sessions(request_id: Id) -> Response:
    """Of one subject."""
    message = "Too many sessions of this subject are open; end one first, with DELETE"
    return broken(error_line(request_id, INVALID_REQUEST, message), 429)


def id_in_use(request_id: Id) -> Response:
    """A second request under an id that is open in its session."""
    message = "Invalid Request: this id is open in this session; give each request its own"
    return broken(error_line(request_id, INVALID_REQUEST, message))


def broken(answer: bytes, status: int = 400) -> Response:
    """A JSON-RPC error that is known already."""
    return Response(answer, status, media_type="application/json")
