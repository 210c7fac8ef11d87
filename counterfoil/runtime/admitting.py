"""Steps 1 to 5 of the call path: name, visibility, scopes, arguments, policy. Pure; the first no is raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ledger.redact import hide_values, redact_text
from ..registry.arguments import Arguments, InvalidArgumentsError
from ..registry.catalogue import Catalogue, Entry, Sight
from ..registry.contract import Contract, ContractError
from ..registry.policy import Decision, Policy
from ..registry.principal import Principal
from ..registry.problem import Problem, as_json
from ..registry.request import CallRequest
from ..registry.secret_places import secret_texts
from ..registry.template import SHARED
from ..registry.vocabulary import Assurance, ErrorCode, JsonObject, Route, Verdict, Visibility
from .case import Admitted, Within
from .refusal import RefusedError, refuse, refuse_arguments
from .views import Next

if TYPE_CHECKING:
    from .parts import Parts

SERVER_AUTHORITY = Decision(
    Verdict.ALLOW, Assurance.NONE, "server:probe", "A probe asks under the server's own authority."
)
NOT_ASKED = Decision(Verdict.DENY, Assurance.NONE, "server:unsendable", "Nobody is asked about what cannot be sent.")


@dataclass(frozen=True, slots=True)
class Admission:
    """The rules of one process; `mac` is the ledger's keyed digest."""

    catalogue: Catalogue
    policy: Policy
    mac: Callable[[str, bytes], str]
    everything_listed: bool = False

    @classmethod
    def of(cls, parts: Parts) -> Admission:
        """The rules of now."""
        return cls(parts.catalogue, parts.policy, parts.ledger.mac, parts.settings.everything_listed)

    def admit(self, request: CallRequest, within: Within | None = None) -> Admitted:
        """What may be done about a request; the policy's verdict is part of the answer.

        Raises:
            RefusedError: unknown, not visible, out of scope, or arguments that break the schema. Those that fit it
                and cannot be sent are in the answer, since a call that was made with them once may be joined.
        """
        entry = self._resolve(request) if within is None else self._pinned(request, within)
        if request.route is not Route.PROBE and not request.dry_run:
            self._check_scopes(entry, request.principal)
        if request.read_only and not entry.contract.is_read:
            raise refuse(
                ErrorCode.NOT_READ_ONLY,
                f"{request.tool} has effect '{entry.contract.gate.effect}'; tool_read takes reads only. Use tool_call.",
                Next(
                    "tool_call",
                    {"name": request.tool, "schema_digest": entry.contract.short_digest},
                    "Call it as what it is.",
                ),
            )
        if not request.dry_run:
            self._check_digest(entry, request)
        conceal = (*entry.contract.gate.sensitive, *(within.conceal if within is not None else ()))
        try:
            arguments = entry.contract.takes.effective(request.arguments, conceal=conceal)
        except InvalidArgumentsError as error:
            raise refuse(
                ErrorCode.INVALID_ARGUMENTS,
                str(error),
                problems=as_json(error.problems),
                example=error.example,
            ) from None
        probe = request.route is Route.PROBE
        problems = () if probe else entry.adapter.problems(arguments.value, request.if_version)
        if problems:
            unsendable = _unsendable(arguments, problems, conceal)
            return Admitted(entry.contract, entry.adapter, arguments, NOT_ASKED, (), self.policy, unsendable=unsendable)
        contract = entry.contract if within is None else within.narrow(entry.contract)
        decision = SERVER_AUTHORITY if probe else self.policy.decide(contract, arguments.value, request.principal)
        try:
            resources = self._resources(contract, arguments.value)
        except ContractError as error:
            raise refuse_arguments("", "arguments that name what the call holds", f"others ({error})") from error
        return Admitted(contract, entry.adapter, arguments, decision, resources, self.policy)

    def _resources(self, contract: Contract, arguments: JsonObject) -> tuple[str, ...]:
        """The keys that are held and written down; one that tells a secret is its keyed digest, the same each time."""
        keys = contract.resource_keys(arguments)
        secret = contract.secret_keys(keys, arguments)
        return tuple(sorted(self._hidden(key) if key in secret else key for key in keys))

    def _hidden(self, key: str) -> str:
        name = key.removeprefix(SHARED)
        return key[: len(key) - len(name)] + self.mac("resource", name.encode(errors="replace"))

    def _resolve(self, request: CallRequest) -> Entry:
        entry = self.catalogue.get(request.tool, request.version)
        inner = request.route in {Route.PROBE, Route.PREVIEW, Route.COMPENSATION}
        if entry is not None and inner:
            return entry
        if (
            entry is None
            or self.catalogue.sight(request.tool, request.principal, self.policy, request.version) is Sight.UNKNOWN
        ):
            raise self._unknown(request)
        return entry

    def _pinned(self, request: CallRequest, within: Within) -> Entry:
        """The tool of a step, exactly as its plan has seen it."""
        entry = self.catalogue.get(request.tool, request.version)
        if entry is not None and entry.contract.schema_digest == within.schema_digest:
            return self._resolve(request)
        what = "is not there any more" if entry is None else "has another schema, effect or recovery now"
        raise refuse(
            ErrorCode.PLAN_STALE,
            f"{request.tool} {request.version} {what} than when this was planned, so the step is not sent. "
            "Plan the rest anew.",
            Next("plan", {}, "Plan what is left with the tools of now."),
        )

    def _unknown(self, request: CallRequest) -> Exception:
        if self.catalogue.plan_sight(request.tool, request.principal, self.policy) is Sight.SEEN:
            return refuse(
                ErrorCode.UNKNOWN_TOOL,
                f"{request.tool} is a stored plan, and no tool. Start it with run and its name.",
                Next("run", {"name": request.tool}, "Run it by its name, with an input that fits its input_schema."),
            )
        nearest = self.catalogue.nearest(request.tool, request.principal, self.policy)
        hint = f" Did you mean {nearest}?" if nearest else ""
        return refuse(
            ErrorCode.UNKNOWN_TOOL,
            f"There is no tool {request.tool[:64]!r}.{hint} Use tool_search to find tools.",
            Next("tool_search", {"query": request.tool[:64].replace("_", " ")}, "Search for it in your own words."),
        )

    def _check_scopes(self, entry: Entry, principal: Principal) -> None:
        missing = principal.missing(entry.contract.gate.scopes)
        if missing:
            raise refuse(
                ErrorCode.INSUFFICIENT_SCOPE,
                f"{entry.contract.name} needs scopes that you do not have: {', '.join(missing)}.",
                missing_scopes=list(missing),
            )

    def _check_digest(self, entry: Entry, request: CallRequest) -> None:
        contract = entry.contract
        listed = self.everything_listed or contract.gate.visibility is Visibility.BASE
        if not request.needs_digest or listed or contract.is_read:
            if request.schema_digest is None or request.schema_digest == contract.short_digest:
                return
        elif request.schema_digest == contract.short_digest:
            return
        code = ErrorCode.NOT_VISIBLE if request.schema_digest is None else ErrorCode.STALE_SCHEMA
        why = "you have not seen its schema" if request.schema_digest is None else "its schema is another one now"
        raise refuse(
            code,
            f"{contract.name} is not called blind: {why}. Call it again with the schema_digest given here, with "
            "arguments that fit the input_schema.",
            Next(
                "tool_call",
                {"name": contract.name, "schema_digest": contract.short_digest},
                "Check your arguments against details.input_schema, then call with this digest.",
            ),
            schema_digest=contract.short_digest,
            input_schema=contract.schemas.input,
        )


def _unsendable(arguments: Arguments, problems: Sequence[Problem], conceal: Sequence[str]) -> RefusedError:
    """Told by the tool, whose own words may quote what they are about: secrets among the arguments are hidden."""
    secrets = secret_texts(arguments.value, conceal)

    def clear(text: str) -> str:
        return redact_text(str(hide_values(text, secrets)))

    shown = [
        Problem(one.path, clear(one.expected), clear(one.got), clear(one.message), one.nearest) for one in problems
    ]
    text = "; ".join(one.message for one in shown)
    return refuse(ErrorCode.INVALID_ARGUMENTS, text, problems=as_json(shown))
