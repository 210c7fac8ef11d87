"""A stored plan that somebody wants to run by its name: whether it is there for them, and the input of that run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...ledger.redact import redact_text
from ...registry.arguments import InvalidArgumentsError
from ...registry.catalogue import Sight
from ...registry.problem import as_json
from ...registry.vocabulary import ErrorCode, JsonObject
from ..refusal import RefusedError, refuse
from ..views import Next

if TYPE_CHECKING:
    from ...registry.principal import Principal
    from ..parts import Parts

SHOWN = 64


def named_document(parts: Parts, principal: Principal, name: str, given: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The plan of now under this name, and the effective input: its defaults under what is given, in full.

    Raises:
        RefusedError: there is no such plan for this principal, scopes are missing, or the input does not fit.
    """
    catalogue, policy = parts.catalogue, parts.policy
    plan, known = catalogue.plan(name), catalogue.plan_sight(name, principal, policy)
    if plan is None or known is Sight.UNKNOWN:
        raise _unknown(parts, principal, name)
    missing = principal.missing(catalogue.offer(plan, principal, policy).scopes)
    if missing:
        text = f"The stored plan {name} needs scopes that you do not have: {', '.join(missing)}. Nothing was run."
        raise refuse(ErrorCode.INSUFFICIENT_SCOPE, text, missing_scopes=missing)
    try:
        return plan.document, plan.effective(given)
    except InvalidArgumentsError as error:
        raise refuse(
            ErrorCode.INVALID_ARGUMENTS,
            f"The input of {name}: {error}. Nothing was run.",
            Next("run", {"name": name}, "Give an input that fits details.input_schema."),
            problems=as_json([replace(one, path=f"/input{one.path}") for one in error.problems]),
            input_schema=plan.takes.schema,
        ) from None


def _unknown(parts: Parts, principal: Principal, name: str) -> RefusedError:
    near = parts.catalogue.nearest_plan(name, principal, parts.policy)
    hint = f" Did you mean {near}?" if near else ""
    shown = redact_text(name)[:SHOWN]
    return refuse(
        ErrorCode.NOT_FOUND,
        f"There is no stored plan called {shown!r}.{hint} tool_search finds stored plans beside tools.",
        Next("run", {"name": near}, "Run that one, if it is meant.") if near
        else Next("tool_search", {"query": shown.replace("_", " ")}, "Search for what you want to do."),
    )  # fmt: skip
