"""The catalogue at run time: versions, changes, and one answer to who may know of which tool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfoil.registry.adapter import Call
from counterfoil.registry.catalogue import VIEWS, Catalogue, Sight
from counterfoil.registry.contract import Contract, ContractError, Gate, Recovery, Schemas, Text
from counterfoil.registry.outcome import Outcome
from counterfoil.registry.policy import Policy, Rule
from counterfoil.registry.principal import Principal
from counterfoil.registry.vocabulary import Effect, JsonObject, Verdict, Visibility

ALICE = Principal("a", "alice", scopes=frozenset({"*"}))
BOB = Principal("a", "bob", scopes=frozenset({"orders:read"}))
OPEN = Policy()
NO_WRITES = Policy([Rule(id="no", verdict=Verdict.DENY, effect=Effect.WRITE, subject="bob")])


class Hands:
    hard_deadline = False
    blocking = False

    async def ready(self) -> None:
        """Always ready."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> tuple[()]:
        _ = arguments, if_version
        return ()

    async def invoke(self, arguments: JsonObject, call: Call, extra: dict[str, Any]) -> Outcome[Any]:
        _ = call, extra
        return Outcome[Any].success(arguments)


def tool(
    name: str,
    effect: Effect = Effect.READ,
    scope: str = "orders:read",
    visibility: Visibility = Visibility.DEFERRED,
    version: str = "1",
) -> Contract:
    gate = Gate(effect, scopes=(scope,), visibility=visibility)
    return Contract(name, Text(name, f"About {name}.", ("orders",)), Schemas({"type": "object"}), gate, version=version)


def filled(*contracts: Contract) -> Catalogue:
    catalogue = Catalogue()
    for contract in contracts:
        catalogue.register(contract, Hands())
    return catalogue


class TestVersions:
    def test_an_unpinned_call_takes_the_version_registered_last_and_a_pinned_one_goes_on(self) -> None:
        catalogue = filled(tool("orders_get", version="2"), tool("orders_get", version="1"))
        latest, pinned = catalogue.get("orders_get"), catalogue.get("orders_get", "2")
        assert latest
        assert latest.contract.version == "1"
        assert pinned
        assert pinned.contract.version == "2"

    def test_a_second_contract_of_one_name_and_version_is_refused_and_changes_nothing(self) -> None:
        catalogue = filled(tool("orders_get"))
        with pytest.raises(ContractError, match="version '1' is registered already"):
            catalogue.register(tool("orders_get", Effect.WRITE), Hands())
        assert catalogue.revision == 1
        assert catalogue.sight("orders_get", BOB, NO_WRITES) is Sight.SEEN

    def test_removing_the_last_registered_version_uncovers_the_one_before(self) -> None:
        catalogue = filled(tool("orders_get"), tool("orders_get", version="2"))
        catalogue.remove("orders_get", "2")
        entry = catalogue.get("orders_get")
        assert entry
        assert entry.contract.version == "1"
        catalogue.remove("orders_get")
        assert catalogue.get("orders_get") is None
        assert catalogue.names() == []

    def test_sight_of_a_pinned_version_follows_that_version(self) -> None:
        catalogue = filled(tool("orders_get", scope="orders:admin"), tool("orders_get", version="2"))
        assert catalogue.sight("orders_get", BOB, OPEN) is Sight.SEEN
        assert catalogue.sight("orders_get", BOB, OPEN, "1") is Sight.LOCKED
        assert catalogue.sight("orders_get", BOB, OPEN, "3") is Sight.UNKNOWN


class TestChanges:
    def test_subscribers_hear_each_change_once_and_the_catalogue_has_changed_by_then(self) -> None:
        catalogue = Catalogue()
        heard: list[tuple[str, bool, int]] = []
        end = catalogue.subscribe(lambda name: heard.append((name, name in catalogue.names(), catalogue.revision)))
        catalogue.register(tool("a"), Hands())
        catalogue.remove("a", "2")
        catalogue.remove("a")
        catalogue.remove("a")
        end()
        catalogue.register(tool("b"), Hands())
        assert heard == [("a", True, 1), ("a", False, 2)]

    def test_a_search_sees_tools_come_change_and_go(self) -> None:
        catalogue = filled(tool("orders_get"))
        assert [name for name, _ in catalogue.search("orders", ALICE, OPEN).hits] == ["orders_get"]
        catalogue.register(tool("orders_list"), Hands())
        assert {name for name, _ in catalogue.search("orders", ALICE, OPEN).hits} == {"orders_get", "orders_list"}
        catalogue.register(tool("orders_list", visibility=Visibility.HIDDEN, version="2"), Hands())
        catalogue.remove("orders_get")
        assert catalogue.search("orders", ALICE, OPEN).hits == []

    def test_many_kinds_of_callers_each_get_their_own_answer(self) -> None:
        catalogue = filled(*(tool(f"tool_{n}", scope=f"s{n}") for n in range(VIEWS + 5)))
        for _ in range(2):
            for n in range(VIEWS + 5):
                caller = Principal("a", "x", scopes=frozenset({f"s{n}"}))
                assert [name for name, _ in catalogue.search("tool", caller, OPEN).hits] == [f"tool_{n}"]


class TestWhatMustBeThere:
    def test_named_probes_compensations_and_previews_must_be_registered_by_the_time_of_the_check(self) -> None:
        named = replace(
            tool("orders_refund", Effect.WRITE),
            recovery=Recovery(probe="orders_refund__probe", compensation="orders_charge"),
            gate=Gate(Effect.WRITE, preview="orders_close"),
        )
        catalogue = filled(named)
        assert catalogue.check() == [
            "orders_refund: its probe 'orders_refund__probe' is not registered",
            "orders_refund: its compensation 'orders_charge' is not registered",
            "orders_refund: its preview 'orders_close' is not registered",
        ]
        catalogue.register(replace(tool("x"), name="orders_refund__probe", asked_about="orders_refund"), Hands())
        catalogue.register(tool("orders_charge", Effect.WRITE), Hands())
        catalogue.register(tool("orders_close", Effect.WRITE), Hands())
        assert catalogue.check() == [
            "orders_refund: its preview 'orders_close' has effect 'write'; it must be a 'read'"
        ]

    def test_a_read_cannot_be_the_compensation_of_an_effect(self) -> None:
        named = replace(tool("orders_refund", Effect.WRITE), recovery=Recovery(compensation="orders_look"))
        assert filled(named, tool("orders_look")).check() == [
            "orders_refund: its compensation 'orders_look' is a 'read', which undoes nothing"
        ]


class TestSight:
    BASE = tool("orders_get", visibility=Visibility.BASE)
    DEFERRED = tool("orders_list")
    WRITE = tool("orders_refund", Effect.WRITE, "orders:refund")
    HIDDEN = tool("orders_secret", visibility=Visibility.HIDDEN)
    PROBE = replace(tool("x"), name="orders_refund__probe", asked_about="orders_refund")

    def catalogue(self) -> Catalogue:
        return filled(self.WRITE, self.DEFERRED, self.BASE, self.HIDDEN, self.PROBE)

    @pytest.mark.parametrize(
        ("name", "principal", "policy", "expected"),
        [
            ("orders_get", BOB, OPEN, Sight.SEEN),
            ("orders_refund", ALICE, NO_WRITES, Sight.SEEN),
            ("orders_refund", BOB, OPEN, Sight.LOCKED),
            ("orders_refund", BOB, NO_WRITES, Sight.UNKNOWN),
            ("orders_secret", ALICE, OPEN, Sight.UNKNOWN),
            ("orders_refund__probe", ALICE, OPEN, Sight.UNKNOWN),
            ("nobody_has_this", ALICE, OPEN, Sight.UNKNOWN),
            ("ORDERS_GET", ALICE, OPEN, Sight.UNKNOWN),
            ("оrders_get", ALICE, OPEN, Sight.UNKNOWN),
        ],
    )
    def test_denied_and_hidden_tools_and_probes_do_not_exist_and_a_missing_scope_locks(
        self, name: str, principal: Principal, policy: Policy, expected: Sight
    ) -> None:
        assert self.catalogue().sight(name, principal, policy) is expected

    def test_base_tools_are_listed_and_deferred_ones_only_with_everything_by_name(self) -> None:
        catalogue = self.catalogue()

        def listed(principal: Principal, policy: Policy = OPEN, *, everything: bool) -> list[str]:
            return [contract.name for contract in catalogue.listed(principal, policy, everything=everything)]

        assert listed(ALICE, everything=False) == ["orders_get"]
        assert listed(ALICE, everything=True) == ["orders_get", "orders_list", "orders_refund"]
        assert listed(BOB, everything=True) == ["orders_get", "orders_list"]
        assert catalogue.locked("refund it", BOB, OPEN, 5) == ["orders_refund"]
        assert catalogue.locked("refund it", BOB, NO_WRITES, 5) == []

    @pytest.mark.parametrize("policy", [OPEN, NO_WRITES])
    def test_a_tool_that_is_not_seen_leaves_no_trace_in_any_answer(self, policy: Policy) -> None:
        with_it, without = self.catalogue(), filled(self.DEFERRED, self.BASE)
        for query in ("refund", "orders", "orders_refund", "orders-refund", "ORDERS_REFUND", "about get secret", ""):
            assert with_it.search(query, BOB, policy) == without.search(query, BOB, policy)
            assert with_it.search(query, BOB, policy, "orders") == without.search(query, BOB, policy, "orders")
        assert with_it.categories(BOB, policy) == without.categories(BOB, policy) == {"orders": 2}
        assert with_it.search("refund", BOB, policy).unmatched == ["refund"]
        assert with_it.categories(ALICE, OPEN) == {"orders": 3}

    def test_callers_of_equal_scopes_differ_where_policy_tells_them_apart(self) -> None:
        catalogue = self.catalogue()
        carol = Principal("a", "carol", scopes=frozenset({"orders:refund"}))
        bob = replace(carol, subject="bob")
        assert catalogue.search("refund", bob, NO_WRITES).hits == []
        assert [name for name, _ in catalogue.search("refund", carol, NO_WRITES).hits] == ["orders_refund"]
        assert catalogue.search("refund", bob, NO_WRITES).hits == []

    def test_list_search_and_sight_agree_for_everyone(self) -> None:
        catalogue = self.catalogue()
        for principal in (ALICE, BOB):
            for policy in (OPEN, NO_WRITES):
                listed = {one.name for one in catalogue.listed(principal, policy, everything=True)}
                found = {name for name, _ in catalogue.search("orders", principal, policy, limit=20).hits}
                seen = {name for name in catalogue.names() if catalogue.sight(name, principal, policy) is Sight.SEEN}
                assert listed == found == seen
