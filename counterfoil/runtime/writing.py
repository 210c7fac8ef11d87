"""The first record of a call, as a value: its row before any move, and what the duplicate rules ask about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from ..canonical import sha256_hex
from ..ledger.admission import Neighbours
from ..ledger.rows import CallRow
from ..ledger.sealing import Sealed
from ..registry.vocabulary import JsonObject
from .case import Case
from .clock import micros
from .parts import CallKeeper, Parts


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """What a call's first record consists of."""

    row: CallRow
    who: Neighbours
    arguments: Sealed


def first_record(case: Case, parts: Parts, at: int) -> FirstRecord:
    """A case's first record, with its arguments sealed."""
    keeper = parts.keeper(case.call_id, case.principal.tenant)
    arguments = keeper.seal("arguments", case.known.arguments.canonical)
    row = _row(case, keeper, at, arguments.payload_id, at + micros(parts.settings.authority_s))
    return FirstRecord(row, neighbours(case, at, parts.settings.duplicate_window_s), arguments)


def _row(case: Case, keeper: CallKeeper, at: int, payload_id: str, grant_expires_at: int) -> CallRow:
    known, request, principal = case.known, case.request, case.principal
    assert request is not None, "only a request makes a row"
    contract = known.contract
    within = case.within
    return CallRow(
        call_id=case.call_id,
        run_id=case.call_id if within is None else within.run_id,
        step=None if within is None else within.step,
        item=None if within is None else within.item,
        parent_call_id=request.parent_call_id,
        route=request.route.value,
        tenant=principal.tenant,
        subject=principal.subject,
        client=principal.client,
        scopes=_scopes(principal.scopes),
        grant_expires_at=grant_expires_at if within is None else None,  # a step acts under its run's
        claimed=keeper.parts.claims(principal),
        proof=principal.proof,
        tool=contract.name,
        version=contract.version,
        schema_digest=contract.schema_digest,
        effect=contract.gate.effect.value,
        args_digest=digest_of(known.arguments.digest, request.if_version),
        args_payload=payload_id,
        args_shown=json.dumps(_shown(keeper, known.arguments.value, contract.gate.sensitive)),
        if_version=request.if_version,
        resources=json.dumps(list(known.resources)),
        action_id=case.action_id,
        key=request.idempotency_key,
        key_retention=micros(contract.recovery.key_retention_s),
        rule_id=known.decision.rule_id,
        created_at=at,
    )


@lru_cache(maxsize=256)
def _scopes(scopes: frozenset[str]) -> str:
    return json.dumps(sorted(scopes))


def _shown(keeper: CallKeeper, arguments: JsonObject, sensitive: tuple[str, ...]) -> JsonObject:
    projected = keeper.project(arguments, sensitive)
    return projected if isinstance(projected, dict) else {"cut": projected}


def digest_of(args_digest: str, if_version: str | None) -> str:
    """The digest that says whether two requests are the same: over the arguments and the version they are meant for."""
    return args_digest if if_version is None else sha256_hex(f"{args_digest}\0{if_version}".encode())


def neighbours(case: Case, at: int, window_s: float) -> Neighbours:
    """What the duplicate rules need to know of a request."""
    known, request = case.known, case.request
    assert request is not None, "only a request has neighbours"
    return Neighbours(
        tenant=case.principal.tenant,
        subject=case.principal.subject,
        tool=known.contract.name,
        args_digest=digest_of(known.arguments.digest, request.if_version),
        key=request.idempotency_key,
        is_read=known.contract.is_read,
        direct=request.route.value == "direct",
        now=at,
        window=micros(window_s),
        run_id=case.within.run_id if case.within is not None else None,
    )
