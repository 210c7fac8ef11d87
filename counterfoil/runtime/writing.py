"""The first record of a call, as a value: its row before any move, and what the duplicate rules ask about it."""

from __future__ import annotations

import json

from ..ledger.admission import Neighbours
from ..ledger.redact import project
from ..ledger.rows import CallRow
from ..registry.vocabulary import JsonObject
from .case import Case
from .clock import micros

SHOWN_BYTES = 4_096


def new_row(case: Case, at: int, payload_id: str, grant_expires_at: int) -> CallRow:
    """A row as it is before its first move; `create` fills in state, revision and chain."""
    known, request, principal = case.known, case.request, case.principal
    assert request is not None, "only a request makes a row"
    contract = known.contract
    return CallRow(
        call_id=case.call_id,
        run_id=case.call_id,
        step=None,
        item=None,
        parent_call_id=request.parent_call_id,
        route=request.route.value,
        tenant=principal.tenant,
        subject=principal.subject,
        client=principal.client,
        scopes=json.dumps(sorted(principal.scopes)),
        grant_expires_at=grant_expires_at,
        claimed=json.dumps(project(dict(principal.claimed))),
        tool=contract.name,
        version=contract.version,
        schema_digest=contract.schema_digest,
        effect=contract.gate.effect.value,
        args_digest=known.arguments.digest,
        args_payload=payload_id,
        args_shown=json.dumps(shown(known.arguments.value, contract.gate.sensitive)),
        if_version=request.if_version,
        resources=json.dumps(list(known.resources)),
        action_id=case.action_id,
        key=request.idempotency_key,
        key_retention=micros(contract.recovery.key_retention_s),
        state="new",
        outcome=None,
        sent="no",
        code=None,
        message=None,
        details=None,
        retryable=0,
        output_payload=None,
        evidence=None,
        attempts=0,
        generation=0,
        owner_id=None,
        not_before=None,
        by_decision=0,
        approval_id=None,
        rule_id=known.decision.rule_id,
        created_at=at,
        dispatched_at=None,
        settled_at=None,
        settled_by=None,
        delivered_at=None,
        request_open=0,
        cancel_requested_at=None,
        cancel_requested_by=None,
        cancel_reason=None,
        revision=0,
        seq=0,
        head=b"",
    )


def shown(arguments: JsonObject, sensitive: tuple[str, ...]) -> JsonObject:
    """The redacted, bounded form of arguments that events and lists have."""
    projected = project(arguments, sensitive, limit_bytes=SHOWN_BYTES)
    return projected if isinstance(projected, dict) else {"cut": projected}


def neighbours(case: Case, at: int, window_s: float) -> Neighbours:
    """What the duplicate rules need to know of a request."""
    known, request = case.known, case.request
    assert request is not None, "only a request has neighbours"
    return Neighbours(
        tenant=case.principal.tenant,
        subject=case.principal.subject,
        tool=known.contract.name,
        args_digest=known.arguments.digest,
        key=request.idempotency_key,
        is_read=known.contract.is_read,
        direct=request.route.value == "direct",
        now=at,
        window=micros(window_s),
    )
