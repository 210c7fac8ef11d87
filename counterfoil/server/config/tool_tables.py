"""The tables of tools that need no Python: `[http]`, `[tools.NAME]` and what stands below a tool.

A key that is absent keeps the contract's own default. Plain values, checked one by one; whatever needs two keys, the
policy or another tool is checked where tools are made of them. The text below a key is its documentation.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ...registry.vocabulary import Assurance, Idempotency, Visibility
from .kinds import Count, Name, Pointer, RateText, Seconds, WordOfEffect
from .table import Table
from .tool_kinds import (
    Argument,
    Json,
    JsonTable,
    Method,
    ShortType,
    Statuses,
    Texts,
)

NotNegative = Annotated[float, Field(ge=0, le=315_360_000, allow_inf_nan=False)]
WordOfIdempotency = Annotated[Idempotency, Field(strict=False)]
WordOfApproval = Annotated[Assurance, Field(strict=False)]
WordOfVisibility = Annotated[Visibility, Field(strict=False)]


class HttpTable(Table):
    """The guarded outbound client."""

    allow_hosts: Texts = ()
    """Hosts that tools may reach; nothing else is. A name alone is https on port 443; any other port, and an address,
    is named as `HOST:PORT`."""


class RetryTable(Table):
    """How often and how patiently one call is attempted."""

    attempts: Count | None = None
    """Attempts in all; 3 for a read, else 1."""
    backoff_s: NotNegative | None = None
    """The first pause, in seconds; 0.5. It grows and is jittered."""
    least_s: NotNegative | None = None
    """No attempt starts with less time left than this, in seconds; 1."""


class PagesTable(Table):
    """How the pages of a list become one output, `{items, next}`."""

    items: Pointer
    """Where a page has its list."""
    next: Pointer = ""
    """Where a page has the cursor or URL of the next one; empty: its `Link` header."""
    parameter: str = ""
    """The query parameter that takes the cursor; empty: `next` is a URL."""
    most: Annotated[int, Field(ge=1, le=1_000)] = 10
    """How many pages one call reads."""
    argument: str = ""
    """The tool's argument that takes the cursor to go on from."""


class SignTable(Table):
    """What in a probe's answer means one thing: tests at a path, a status, or both."""

    path: Pointer = ""
    """Where in the body the tests look."""
    status: Statuses = ()
    """Statuses of this sign; without them 200 to 299."""
    eq: Json = None
    """Equal to this."""
    ne: Json = None
    """Not equal to this."""
    gt: Json = None
    """More than this number."""
    ge: Json = None
    """This number or more."""
    lt: Json = None
    """Less than this number."""
    le: Json = None
    """This number or less."""
    in_: Json = Field(default=None, alias="in")
    """One of these."""
    not_in: Json = None
    """None of these."""
    matches: Json = None
    """The whole text matches this regular expression."""
    exists: Json = None
    """Whether there is anything at the path."""


class RequestTable(Table):
    """One request; its texts are templates (`{order_id}`, `{call.action_id}`)."""

    headers: dict[Name, str] = Field(default_factory=dict)
    """Headers: secret references (`env:NAME`, `file:PATH`), or templates."""
    query: JsonTable = Field(default_factory=dict)
    """Query parameters; one whose optional argument is absent is left out."""
    json_: Json = Field(default=None, alias="json")
    """The body as JSON; a whole template keeps its value's type."""
    form: JsonTable | None = None
    """The body as a form."""


class AnswerTable(RequestTable):
    """A request with an effect or an output of its own, and how its answer is read."""

    no_result_status: Statuses = ()
    """Statuses that mean: done, and there is nothing to show."""
    refused_status: Statuses = ()
    """Statuses that mean: refused without effect, beyond the defaults."""
    unknown_status: Statuses = ()
    """Statuses after which nobody knows, beyond the defaults."""
    idempotency_header: Name | None = None
    """The header that carries a keyed tool's key, the same on every attempt."""
    precondition_header: Name | None = None
    """The header that carries the caller's `if_version`, such as `If-Match`."""
    output: Pointer = ""
    """Where in the body the output is; empty: all of it."""
    evidence: dict[Name, Name] = Field(default_factory=dict)
    """Evidence by name (`external_version`, `external_reference`): a pointer into the body, or `header:NAME`."""


class ToolHttpTable(AnswerTable):
    """The request that a tool makes."""

    method: Method
    """The method."""
    url: str
    """The URL; a template in it becomes one percent-encoded segment."""
    pages: PagesTable | None = None
    """For reads that answer page by page."""


class ToolProbeTable(RequestTable):
    """What became of a call? A read with the tool's own arguments that looks for what only this call has."""

    method: Method = "GET"
    """The method."""
    url: str
    """The URL; `{call.action_id}` is the call's own number."""
    happened: SignTable
    """What means that it took effect."""
    pending: SignTable | None = None
    """What means that the other side still works on it."""
    absent: SignTable | None = None
    """What means that it is not there; alone that never sends again."""
    output: Pointer = ""
    """Where in the answer the call's output is."""
    evidence: dict[Name, Name] = Field(default_factory=dict)
    """Evidence by name: a pointer into the body, or `header:NAME`."""
    timeout_s: Seconds | None = None
    """How long the probe may take, in seconds; 30."""


class ToolCompensationTable(AnswerTable):
    """What undoes the tool's effect: another tool, or a request of its own."""

    tool: Name | None = None
    """The tool that undoes it; the rest of this table but `arguments` is for a request instead."""
    arguments: JsonTable | None = None
    """That tool's arguments, from `{arguments.x}` and `{output.x}`; absent: the call's own."""
    method: Method | None = None
    """The method of a request of its own."""
    url: str | None = None
    """Its URL; `{output.x}` is what the first call gave back."""
    idempotency: WordOfIdempotency | None = None
    """What makes it safe to send the undoing again; `none`."""
    key_retention_s: Seconds | None = None
    """How long the other side keeps its key, in seconds; 86400."""
    timeout_s: Seconds | None = None
    """How long it may take, in seconds; 30."""


class ToolPreviewTable(Table):
    """The read that shows whoever decides what is at stake; its name alone will do: `preview = "orders_get"`."""

    tool: Name
    """The read; `preview = "NAME"` is short for this alone."""
    arguments: JsonTable | None = None
    """Its arguments, from `{arguments.x}`; absent: those of the call's own that it takes."""


def _named(value: object) -> object:
    """The short form of a preview as the long one."""
    return {"tool": value} if isinstance(value, str) else value


class ToolTable(Table):
    """A tool that is described here: its contract, and in `http` its request."""

    description: Annotated[str, Field(min_length=1, max_length=8_000)]
    """What it does, as people and models read it."""
    title: Name | None = None
    """Its title; else its name."""
    version: Name | None = None
    """Its version; `1`."""
    tags: Texts | None = None
    """Categories of the search."""
    effect: WordOfEffect
    """What it does to the world."""
    open_world: bool | None = None
    """Whether it reaches beyond what is yours; true. A closed-world read is recorded once, with its outcome."""
    idempotency: WordOfIdempotency | None = None
    """What makes it safe to send again: its nature, a key that the other side honours, or nothing; `none`."""
    key_retention_s: Seconds | None = None
    """How long the other side keeps a key, in seconds; 86400."""
    settle_s: NotNegative | None = None
    """Your promise: this long after the deadline an absent effect can no longer appear, in seconds."""
    scopes: Texts | None = None
    """What a principal must be allowed."""
    resources: Texts | None = None
    """What a call holds until it is settled, such as `order:{order_id}`, or `shared:order:{order_id}` for readers."""
    cost: NotNegative | None = None
    """What one call costs, in units of yours; 0."""
    sensitive: Annotated[tuple[Pointer, ...], Field(strict=False)] | None = None
    """Arguments that are recorded redacted, by JSON Pointer."""
    evidence: dict[Name, Pointer] | None = None
    """Evidence by name, by JSON Pointer into the output."""
    timeout_s: Seconds | None = None
    """How long one attempt may take, in seconds; 30."""
    external_wait_s: Seconds | None = None
    """How long the other side may work after accepting, in seconds; 86400."""
    freshness_s: NotNegative | None = None
    """How long a read's output is good for a fork of its run, in seconds; 300."""
    retry: RetryTable | None = None
    """How often and how patiently one call is attempted."""
    rate: RateText | None = None
    """How many starts in a time, such as `20/s`."""
    concurrency: Count | None = None
    """How many calls at once."""
    pool: Name | None = None
    """The pool whose capacity it shares."""
    approval: WordOfApproval | None = None
    """Who must decide before it is sent, at least; `none` leaves it to the policy."""
    preview: Annotated[ToolPreviewTable | None, BeforeValidator(_named)] = None
    """A read that shows whoever decides what is at stake."""
    visibility: WordOfVisibility | None = None
    """Where it shows itself; `deferred`."""
    code: bool | None = None
    """Whether programs may call it; false."""
    input: dict[Argument, ShortType] | None = None
    """Its arguments in short: `string`, `number`, `integer`, `boolean`, `object` or `array`, with `?` where optional,
    and `: text` to describe."""
    input_schema: dict[str, Any] | None = None
    """Its arguments in full, as JSON Schema 2020-12, instead of `input`."""
    output: dict[Argument, ShortType] | None = None
    """What its output has at least, in the same short form."""
    output_schema: dict[str, Any] | None = None
    """Its output in full, as JSON Schema 2020-12, instead of `output`."""
    manual: bool | None = None
    """Whether a person performs it, outside, and settles it by what they say; such a tool has no `http`. False."""
    http: ToolHttpTable | None = None
    """The request that it makes."""
    probe: ToolProbeTable | None = None
    """What became of a call?"""
    compensation: ToolCompensationTable | None = None
    """What undoes its effect."""
