"""The registered, versioned description of a tool: what it takes, what it does, what it needs, how it is followed up.

A contract is made of a few frozen values and has two digests: `schema_digest` covers what plans and approvals pin,
`text_digest` what a person reads. Building one checks it; nothing else in the project has defaults for its fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from ..canonical import canonical, sha256_hex
from .arguments import ArgumentSchema, argument_schema
from .schema import Validator, compile_schema
from .secret_places import names_secret, places, secret_texts
from .template import SHARED, fault_of, placeholders, render_key
from .vocabulary import Assurance, Effect, Idempotency, JsonObject, RecoveryClass, Visibility

NAME = re.compile(r"[a-z0-9_]{1,64}")
BASE_NAMES = frozenset(
    {"tool_search", "tool_read", "tool_call", "plan", "run", "confirm", "reconcile", "status", "cancel", "exec"}
)
PROBE_ENDING, UNDO_ENDING = "__probe", "__undo"
RESERVED_ENDINGS = (PROBE_ENDING, UNDO_ENDING)

MANUAL_READ: Final = (
    "a person performs it, and a person's word settles effects only; it has effect 'write' or 'destructive', even if "
    "all that they do is find something out"
)
MANUAL_ALONE: Final = "a person performs it, and only that person's word settles it; leave this out"

ResourceFunction = Callable[..., list[str]]


class ContractError(ValueError):
    """A contract that cannot be registered; the message names the tool, the field and what it may be."""


@dataclass(frozen=True, slots=True)
class Text:
    """What a person or a model reads: documentation, never enforcement."""

    title: str
    description: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Schemas:
    """JSON Schema 2020-12 of the arguments and of the output; `None` output means any value."""

    input: JsonObject
    output: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently one call is attempted; times in seconds."""

    attempts: int = 1
    backoff_s: float = 0.5
    least_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in each `per_s` seconds."""

    count: int
    per_s: float


@dataclass(frozen=True, slots=True)
class Gate:
    """What must hold before a call is sent."""

    effect: Effect
    open_world: bool = True
    scopes: tuple[str, ...] = ()
    approval: Assurance = Assurance.NONE
    resources: tuple[str, ...] | ResourceFunction = ()
    sensitive: tuple[str, ...] = ()
    preview: str | None = None
    preview_arguments: JsonObject | None = None  # the template of its arguments; None: the call's own that it takes
    visibility: Visibility = Visibility.DEFERRED
    code: bool = False
    manual: bool = False  # a person performs it outside, and their word settles it


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds; `concurrency`, `rate` and `pool` bound how much runs at once.

    `retry` is None where nobody stated it; what then holds depends on the effect and is `Contract.retry`.
    """

    timeout_s: float = 30.0
    external_wait_s: float = 86_400.0
    freshness_s: float = 300.0
    retry: Retry | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    pool: str | None = None
    cost: float = 0.0
    sandbox: str | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """How an attempt without a settlement is followed up.

    `probe` and `compensation` name contracts; `compensation_arguments` are the template of the arguments that the
    latter takes, None where it takes the call's own. `settle_s` is the author's promise: this long after the hard
    deadline an absent effect can no longer appear. `evidence` maps evidence names to JSON Pointers into the output.
    """

    idempotency: Idempotency = Idempotency.NONE
    key_retention_s: float = 86_400.0
    probe: str | None = None
    settle_s: float | None = None
    compensation: str | None = None
    compensation_arguments: JsonObject | None = None
    evidence: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Contract:
    """One version of one tool.

    Raises:
        ContractError: a name, a combination of fields or a resource template that cannot be right.
    """

    name: str
    text: Text
    schemas: Schemas
    gate: Gate
    limits: Limits = field(default_factory=Limits)
    recovery: Recovery = field(default_factory=Recovery)
    version: str = "1"
    upstream: str | None = None
    asked_about: str | None = None
    """For a probe or a compensation: the tool that it belongs to. Never listed, never called directly."""

    def __post_init__(self) -> None:
        _check_name(self.name, self.asked_about)
        _check_figures(self.name, self.limits, self.recovery)
        if self.asked_about and self.name.endswith(PROBE_ENDING) and self.gate.effect is not Effect.READ:
            raise ContractError(f"{self.name}: a probe has effect 'read', not '{self.gate.effect}'")
        _check_by_hand(self.name, self.gate, self.limits, self.recovery)
        if self.gate.effect is Effect.DESTRUCTIVE and self.gate.approval is Assurance.CLIENT:
            raise ContractError(f"{self.name}: approval 'client' is for reversible writes; a destructive tool needs "
                                "'operator' or 'second_person'")  # fmt: skip
        if not callable(self.gate.resources):
            _check_templates(self.name, self.gate.resources, self.schemas.input)

    def __hash__(self) -> int:
        """By name and version: its schemas are dicts, which have none."""
        return hash((self.name, self.version))

    @cached_property
    def takes(self) -> ArgumentSchema:
        """Its input schema, closed and compiled.

        Raises:
            SchemaError: the schema cannot be used.
        """
        return argument_schema(self.schemas.input)

    @cached_property
    def gives(self) -> Validator | None:
        """Its output schema, compiled; None if it has none.

        Raises:
            SchemaError: the schema cannot be used.
        """
        return None if self.schemas.output is None else compile_schema(self.schemas.output)

    @cached_property
    def recovery_class(self) -> RecoveryClass:
        """Section 4's order, as far as the contract alone decides it."""
        if self.gate.manual:
            return RecoveryClass.PERSON
        if self.recovery.probe:
            return RecoveryClass.PROBE
        if self.recovery.idempotency is Idempotency.KEYED:
            return RecoveryClass.KEYED
        if self.gate.effect is Effect.READ or self.recovery.idempotency is Idempotency.NATURAL:
            return RecoveryClass.NATURAL
        return RecoveryClass.PERSON

    @cached_property
    def retry(self) -> Retry:
        """How it is attempted: as stated, else three times for a read and once for anything else."""
        return self.limits.retry or Retry(attempts=3 if self.is_read else 1)

    @property
    def is_read(self) -> bool:
        """True if the effect is `read`."""
        return self.gate.effect is Effect.READ

    @cached_property
    def schema_digest(self) -> str:
        """64 hex characters over schemas, effect, idempotency, recovery, scopes and resources (design section 4).

        And whether a person performs it. This is what plans and approvals pin, beside the version; shown on the wire
        as its first eight characters.
        A resource function can be told from templates, but not from another function.
        """
        resources, recovery = self.gate.resources, self.recovery
        keyed = recovery.idempotency is Idempotency.KEYED
        pinned: dict[str, Any] = {
            "input": self.schemas.input,
            "output": self.schemas.output,
            "effect": self.gate.effect.value,
            "scopes": sorted(set(self.gate.scopes)),
            "resources": "function" if callable(resources) else sorted(set(resources)),
            "idempotency": recovery.idempotency.value,
            "key_retention_s": float(recovery.key_retention_s) if keyed else None,
            "probe": recovery.probe,
            "settle_s": None if recovery.settle_s is None else float(recovery.settle_s),
            "compensation": recovery.compensation,
            "compensation_arguments": recovery.compensation_arguments,
            **({"manual": True} if self.gate.manual else {}),  # who carries it out is a part of what is agreed to
        }
        return sha256_hex(canonical(pinned))

    @property
    def short_digest(self) -> str:
        """The eight characters that a caller shows."""
        return self.schema_digest[:8]

    @cached_property
    def text_digest(self) -> str:
        """64 hex characters over title, description and the annotations that `schema_digest` does not cover."""
        annotations: dict[str, Any] = {"tags": sorted(set(self.text.tags)), "open_world": self.gate.open_world}
        return sha256_hex(canonical([self.text.title, self.text.description, annotations]))

    def resource_keys(self, arguments: JsonObject) -> list[str]:
        """The canonical keys that a call with these arguments holds, sorted; shared ones keep their `shared:` prefix.

        A key that is also held exclusively is not shared.

        Raises:
            ContractError: a resource function that raised, or returned something else than a list of texts.
        """
        resources = self.gate.resources
        if callable(resources):
            keys = _checked_keys(self.name, _answered(self.name, resources, arguments))
        else:
            rendered = (render_key(template, arguments) for template in resources)
            keys = {key for key in rendered if key is not None}
        return sorted(key for key in keys if not key.startswith(SHARED) or key.removeprefix(SHARED) not in keys)

    def secret_keys(self, keys: Collection[str], arguments: JsonObject) -> frozenset[str]:
        """Those of its keys that hold a marked or secret-named argument, and so are written down nowhere in clear.

        A template is judged by the arguments that it names, so that one contract's keys are all hidden or all clear;
        what a function made, by whether a secret stands in it.
        """
        resources, sensitive = self.gate.resources, self.gate.sensitive
        if callable(resources):
            secrets = secret_texts(arguments, sensitive)
            return frozenset(key for key in keys if any(secret in key for secret in secrets))
        marked = places(sensitive)
        telling = [one for one in resources if any(names_secret(arguments, p, marked) for p in placeholders(one))]
        return frozenset(keys) & {render_key(template, arguments) for template in telling}


def _check_name(name: str, asked_about: str | None) -> None:
    if asked_about is not None:
        if name not in {asked_about + ending for ending in RESERVED_ENDINGS}:
            raise ContractError(f"tool name {name!r}: what belongs to {asked_about!r} is called by that name and "
                                f"{' or '.join(RESERVED_ENDINGS)}")  # fmt: skip
        name = asked_about
    if not NAME.fullmatch(name):
        raise ContractError(f"tool name {name!r}: 1 to 64 characters of a-z, 0-9 and _")
    if name in BASE_NAMES:
        raise ContractError(f"tool name {name!r} is the name of a base tool; choose another")
    if name.endswith(RESERVED_ENDINGS):
        raise ContractError(f"tool name {name!r}: the endings {' and '.join(RESERVED_ENDINGS)} belong to probes and "
                            "compensations")  # fmt: skip


def _check_figures(name: str, limits: Limits, recovery: Recovery) -> None:
    retry, rate = limits.retry or Retry(), limits.rate
    positive = {
        "timeout_s": limits.timeout_s,
        "external_wait_s": limits.external_wait_s,
        "retry.attempts": retry.attempts,
        "concurrency": 1 if limits.concurrency is None else limits.concurrency,
        "rate count": rate.count if rate else 1,
        "rate time": rate.per_s if rate else 1,
    }
    not_negative = {
        "freshness_s": limits.freshness_s,
        "retry.backoff_s": retry.backoff_s,
        "retry.least_s": retry.least_s,
        "cost": limits.cost,
        "key_retention_s": recovery.key_retention_s,
        "settle_s": recovery.settle_s or 0,
    }
    for field_name, figure in (positive | not_negative).items():
        if not math.isfinite(figure) or figure < 0 or (figure == 0 and field_name in positive):
            least = "more than 0" if field_name in positive else "0 or more"
            raise ContractError(f"{name}: {field_name} is {figure}; it must be {least}")


def _check_by_hand(name: str, gate: Gate, limits: Limits, recovery: Recovery) -> None:
    """What only a program could do for a tool is not stated for one that a person performs."""
    if not gate.manual:
        return
    if gate.effect is Effect.READ:
        raise ContractError(f"{name}: {MANUAL_READ}")
    stated = {
        "probe": recovery.probe is not None,
        "settle_s": recovery.settle_s is not None,
        "idempotency": recovery.idempotency is not Idempotency.NONE,
        "retry": limits.retry is not None and limits.retry.attempts > 1,
    }
    for field_name in (one for one, there in stated.items() if there):
        raise ContractError(f"{name}: {field_name}: {MANUAL_ALONE}")


def _answered(name: str, function: ResourceFunction, arguments: JsonObject) -> object:
    try:
        return function(**arguments)
    except BaseException as error:  # an author's code; not even SystemExit or KeyboardInterrupt may leave it
        raise ContractError(f"{name}: its resource function raised {type(error).__name__} for these arguments; it must "
                            "return a list of texts") from error  # fmt: skip


def _checked_keys(name: str, keys: object) -> set[str]:
    members = list(cast("Collection[object]", keys)) if isinstance(keys, list | tuple | set | frozenset) else [None]
    texts = {key for key in members if isinstance(key, str) and key}
    if not all(isinstance(key, str) and key for key in members):
        raise ContractError(f"{name}: its resource function returned {keys!r}; it must return a list of texts")
    return texts


def _check_templates(name: str, templates: tuple[str, ...], input_schema: JsonObject) -> None:
    properties = input_schema.get("properties")
    known = sorted(properties) if isinstance(properties, dict) else []
    for template in templates:
        if fault := fault_of(template):
            raise ContractError(f"{name}: resource {template!r}: {fault}")
        for path in placeholders(template):
            if path.split(".")[0] not in known:
                raise ContractError(f"{name}: resource {template!r} names the argument {path!r}; known are {known}")
