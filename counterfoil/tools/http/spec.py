"""What an HTTP tool is, as plain values: the request that it makes and how the answer is read.

Configuration makes these; the adapters carry them out. Strings that are sent are templates of the one dialect
(`{arguments.x}`, short `{x}`; `{output.x}` in a compensation; `{call.action_id}`); paths are JSON Pointers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...canonical import JsonValue


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    `headers` are templates, or secret references (`env:NAME`, `file:PATH`) that are resolved at call time. In `url` a
    value is one percent-encoded segment. In `query`, `json` and `form` a whole template keeps its value's type, and a
    member whose optional argument is absent is dropped.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    json: JsonValue = None
    form: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Pages:
    """How the pages of a list are followed and put together into one output, `{"items": [...], "next": cursor | null}`.

    `items` points at a page's list. The next page is at `next` (a pointer to a cursor, sent as the query parameter
    `parameter`, or to a URL where `parameter` is empty), or at the `Link` header's `rel="next"` where `next` is empty.
    `most` is how many pages one call reads; `argument` names the tool's argument that takes the cursor to go on from.
    """

    items: str
    next: str = ""
    parameter: str = ""
    most: int = 10
    argument: str = ""


@dataclass(frozen=True, slots=True)
class HttpTool:
    """A tool's request, and what the statuses of its answer mean beyond the defaults of design section 5.

    `key_header` carries the action id of a keyed tool, `precondition_header` the caller's `if_version`. `output` points
    into the body. `evidence` maps evidence names to pointers into the body, or to `header:NAME`. After
    `accepted_status` the far side has it and still works; the tool's probe tells how that ends.
    """

    request: Request
    no_result_status: frozenset[int] = frozenset()
    refused_status: frozenset[int] = frozenset()
    unknown_status: frozenset[int] = frozenset()
    accepted_status: frozenset[int] = frozenset()
    key_header: str | None = None
    precondition_header: str | None = None
    output: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict[str, str])
    pages: Pages | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """What in a probe's answer means one thing: tests at a path of the body, its status, or both.

    `tests` are those of a policy's `when` (`eq ne gt ge lt le in not_in matches exists`). A sign without `status` needs
    a status of 200 to 299.
    """

    path: str = ""
    tests: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    status: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """A request that asks what became of a call. No sign, or signs of two things at once, is `unknown`."""

    request: Request
    happened: Sign
    pending: Sign | None = None
    absent: Sign | None = None
    output: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict[str, str])
