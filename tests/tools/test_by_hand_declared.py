"""A tool that a person performs is declared whole, and nothing beside it that only a program could do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil import Probe, tool
from counterfoil.registry.catalogue import Catalogue
from counterfoil.registry.vocabulary import OutcomeClass, RecoveryClass, Sent
from counterfoil.tools.errors import ToolDefinitionError
from counterfoil.tools.person import PersonAdapter
from tests.kit.described import offered, problems_of

pytestmark = pytest.mark.anyio
HEAD = '[tools.pack]\ndescription = "Pack."\neffect = "write"\nmanual = true\ninput = { order_id = "string" }\n'


async def stub(order_id: str) -> str:
    """What a person takes and gives."""
    raise NotImplementedError


def test_a_function_of_three_dots_or_not_implemented_is_a_person() -> None:
    def dots(order_id: str) -> None: ...

    for function in (stub, dots):
        made = tool(effect="write", manual=True)(function)
        (registered,) = made.registrations()
        contract, adapter = registered
        assert (contract.gate.manual, contract.recovery_class) == (True, RecoveryClass.PERSON)
        assert isinstance(adapter, PersonAdapter)


async def test_the_body_is_never_run_by_a_call() -> None:
    async def packs(order_id: str) -> str:
        raise AssertionError(order_id)

    ((_, adapter),) = tool(effect="write", manual=True)(packs).registrations()
    outcome = await adapter.invoke({"order_id": "o1"}, None, {})  # type: ignore[arg-type] # it asks nothing of its call
    assert (outcome.kind, outcome.sent) == (OutcomeClass.AMBIGUOUS, Sent.UNKNOWN)


@pytest.mark.parametrize(
    ("field", "stated"),
    [
        ("idempotency", {"effect": "write", "idempotency": "keyed"}),
        ("settle_s", {"effect": "write", "settle_s": 5}),
        ("retry", {"effect": "write", "retry": {"attempts": 2}}),
        ("effect", {"effect": "read"}),
    ],
)
def test_what_only_a_program_can_do_is_refused(field: str, stated: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=field):
        tool(manual=True, **stated)(stub)


def test_it_has_no_probe() -> None:
    made = tool(effect="write", manual=True)(stub)

    def asks(order_id: str) -> Probe:
        return Probe.unknown()

    with pytest.raises(ToolDefinitionError, match="probe: a person performs it"):
        made.probe()(asks)


def test_that_a_person_performs_it_is_a_part_of_what_is_agreed_to() -> None:
    @tool(effect="write", name="stub")
    async def sends(order_id: str) -> str:
        """What a person takes and gives."""
        return order_id

    assert tool(effect="write", manual=True)(stub).contract.schema_digest != sends.contract.schema_digest


def test_the_configuration_describes_one_without_a_request(tmp_path: Path) -> None:
    entry = offered(tmp_path, HEAD).catalogue.get("pack")
    assert entry is not None
    assert (entry.contract.gate.manual, entry.contract.recovery_class) == (True, RecoveryClass.PERSON)
    assert isinstance(entry.adapter, PersonAdapter)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('http = { method = "POST", url = "https://orders.example/pack" }\n', "tools.pack.http"),
        ("settle_s = 5\n", "tools.pack.settle_s"),
        ('idempotency = "natural"\n', "tools.pack.idempotency"),
        ("retry = { attempts = 2 }\n", "tools.pack.retry"),
        ('probe = { url = "https://orders.example/p", happened = { status = [200] } }\n', "tools.pack.probe"),
    ],
)
def test_beside_a_person_the_configuration_states_nothing_that_a_program_does(
    tmp_path: Path, more: str, key: str
) -> None:
    (problem,) = problems_of(tmp_path, HEAD + more)
    assert key in str(problem)
    assert "a person performs it" in str(problem)


def test_a_preview_that_needs_what_its_tool_does_not_take_is_told() -> None:
    @tool(effect="read")
    async def look(sku: str, days: int = 1) -> str:
        """Look."""
        return sku * days

    made, shown = tool(effect="write", preview="look")(stub), look
    catalogue = Catalogue()
    for one in (made, shown):
        for contract, adapter in one.registrations():
            catalogue.register(contract, adapter)
    assert catalogue.check() == ["stub: its preview 'look' needs sku, which the tool does not take"]
