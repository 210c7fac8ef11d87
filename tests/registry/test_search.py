"""Finding tools by words: what is found, in which order, what is said of the rest, and that nothing is left behind."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.registry.contract import Contract, Gate, Schemas, Text
from counterfoil.registry.index import Index
from counterfoil.registry.search import COMMON_MIN, CONTENDERS, FOLLOWED, UNMATCHED_MAX, View, search
from counterfoil.registry.stemming import stem, terms, words
from counterfoil.registry.vocabulary import Effect, JsonObject, JsonValue


def tool(name: str, description: str = "", tags: tuple[str, ...] = (), **parameters: str) -> Contract:
    properties: dict[str, JsonValue] = {
        key: {"type": "string", "description": text} for key, text in parameters.items()
    }
    schema: JsonObject = {"type": "object", "properties": properties}
    return Contract(name, Text(name, description, tags), Schemas(schema), Gate(Effect.READ))


SHOP = (
    tool("orders_get", "Look up one order: state, shipment, refunds.", ("orders",), order_id="Order number"),
    tool("orders_refund", "Refund an order, in full or in part.", ("orders", "money"), amount="How much"),
    tool("mail_send", "Send a message to a customer.", ("mail",), recipient="Whom to notify about a parcel"),
    tool("weather_today", "天气查询。The forecast for a city.", ("weather",), city="Name of the city"),
)


def index(*contracts: Contract) -> Index:
    built = Index()
    for contract in contracts or SHOP:
        built.put(contract)
    return built


def hits(query: str, category: str | None = None, limit: int = 5) -> list[str]:
    return [name for name, _ in search(index(), query, lambda _: True, category, limit).hits]


class TestWords:
    def test_identifiers_are_cut_at_underscores_case_and_digits(self) -> None:
        alone = [stem(word) for word, _ in words("getHTTPResponse_v2 order-id XMLFile")]
        assert alone == [*map(stem, ["get", "http", "response", "v"]), "2", *map(stem, ["order", "id", "xml", "file"])]
        assert set(alone) < set(terms("getHTTPResponse_v2 order-id XMLFile"))

    def test_a_name_with_capitals_inside_is_found_however_it_is_written(self) -> None:
        tools = index(tool("github_issue_create", "Open an issue."), tool("notes_add", "Keep one in PayPal or S3."))
        for query, name in [("GitHub", "github_issue_create"), ("paypal", "notes_add"), ("s3", "notes_add")]:
            found = search(tools, query, lambda _: True)
            assert ([hit for hit, _ in found.hits], found.unmatched) == ([name], []), query

    @pytest.mark.parametrize(
        "family",
        [
            "refund refunds refunded refunding",
            "create creates created creating creation creator",
            "translate translates translation translations translating translator",
            "query queries",
            "shipment shipments shipping",
            "configure configures configuration configurations",
            "box boxes",
            "address addresses",
        ],
    )
    def test_forms_of_a_word_are_one_term(self, family: str) -> None:
        assert len({stem(word) for word in family.split()}) == 1

    @pytest.mark.parametrize("word", ["news", "status", "ed", "ping", "über", "x2", "sing", "thing"])
    def test_short_and_foreign_words_keep_what_makes_them_words(self, word: str) -> None:
        assert len(stem(word)) >= min(len(word), 3)

    @settings(deadline=None)
    @given(st.text(max_size=60))
    def test_any_text_has_terms_of_bounded_length_and_the_same_each_time(self, text: str) -> None:
        found = list(terms(text))
        assert found == list(terms(text))
        assert all(0 < len(term) <= 40 for term in found)


class TestRanking:
    @pytest.mark.parametrize(
        ("query", "best"),
        [
            ("refund an order", "orders_refund"),
            ("refunding orders", "orders_refund"),
            ("what is the shipment of my order", "orders_get"),
            ("notify the customer", "mail_send"),
            ("parcel", "mail_send"),
            ("天气", "weather_today"),
            ("city forecasts", "weather_today"),
        ],
    )
    def test_the_tool_that_fits_comes_first(self, query: str, best: str) -> None:
        assert hits(query)[0] == best

    def test_a_name_counts_more_than_a_tag_a_description_and_a_parameter(self) -> None:
        filler = "this and that tool does what twenty quite ordinary words can say about some thing or other " * 2
        built = index(
            tool("d_one", f"parcel {filler}"),
            tool("a_parcel", filler),
            tool("c_one", filler, parcel=filler),
            tool("b_one", filler, tags=("parcel", "mail")),
        )
        found = [name for name, _ in search(built, "parcel", lambda _: True).hits]
        assert found == ["a_parcel", "b_one", "d_one", "c_one"]

    @pytest.mark.parametrize("query", ["orders_get", "Orders-Get", " orders get ", "ORDERS_GET"])
    def test_an_exact_name_comes_first(self, query: str) -> None:
        rivals = [tool(f"orders_get_{n}", "orders get orders get") for n in range(3)]
        found = search(index(*rivals, *SHOP), query, lambda _: True).hits
        assert found[0][0] == "orders_get"
        assert found[0][1] > found[1][1]

    def test_a_name_made_of_stop_words_is_found_by_itself(self) -> None:
        assert search(index(tool("what_is")), "what_is", lambda _: True).hits[0][0] == "what_is"

    def test_equals_come_by_name_in_whatever_order_they_were_put(self) -> None:
        names = ["c", "a", "d", "b"]
        built = index(*(tool(name, "parcel") for name in names))
        assert [name for name, _ in search(built, "parcel", lambda _: True, limit=3).hits] == ["a", "b", "c"]

    def test_scores_fall_and_more_counts_what_was_left_off(self) -> None:
        built = index(*(tool(f"t{n}", "parcel " * (n + 1)) for n in range(30)))
        found = search(built, "parcel", lambda _: True, limit=7)
        scores = [score for _, score in found.hits]
        assert scores == sorted(scores, reverse=True)
        assert (len(found.hits), found.more) == (7, 23)
        assert search(built, "parcel", lambda _: True, limit=0).more == 30

    def test_more_counts_only_what_the_caller_may_see(self) -> None:
        built = index(*(tool(f"t{n}", "parcel") for n in range(30)))
        found = search(built, "parcel", lambda name: name in {"t1", "t2", "t3"}, limit=2)
        assert (len(found.hits), found.more) == (2, 1)

    def test_a_word_that_most_tools_have_only_ranks_those_that_a_rarer_one_found(self) -> None:
        many = [tool(f"t{n:04}", "common") for n in range(COMMON_MIN + 1)]
        built = index(*many, tool("x", "rare common"), tool("y", "rare thing"))
        assert [name for name, _ in search(built, "rare common", lambda _: True).hits] == ["x", "y"]
        alone = search(built, "common", lambda _: True, limit=5)
        assert len(alone.hits) + alone.more == COMMON_MIN + 2


class TestCategories:
    def test_a_category_is_a_tag_and_narrows_the_answer(self) -> None:
        assert hits("order", "money") == ["orders_refund"]
        assert hits("order", "nothing") == []

    def test_without_a_query_a_category_is_browsed_by_name(self) -> None:
        assert hits("", "orders") == ["orders_get", "orders_refund"]
        found = search(index(), "  ", lambda _: True, "orders", limit=1)
        assert ([name for name, _ in found.hits], found.more) == (["orders_get"], 1)

    def test_counts_are_of_what_the_caller_may_see(self) -> None:
        view = View(index(), lambda name: name != "orders_refund")
        assert view.categories() == {"mail": 1, "orders": 1, "weather": 1}


class TestOddQueries:
    def test_words_that_nothing_has_are_named_as_they_were_written(self) -> None:
        found = search(index(), "refund the spaceships Zebra spaceships", lambda _: True)
        assert found.hits[0][0] == "orders_refund"
        assert found.unmatched == ["spaceships", "zebra"]

    def test_nothing_fits_is_an_empty_answer(self) -> None:
        found = search(index(), "launch spaceships", lambda _: True)
        assert (found.hits, found.more) == ([], 0)

    @pytest.mark.parametrize("query", ["", "   ", "\n"])
    def test_no_query_finds_nothing_and_complains_of_nothing(self, query: str) -> None:
        found = search(index(), query, lambda _: True)
        assert (found.hits, found.more, found.unmatched) == ([], 0, [])

    @pytest.mark.parametrize(
        "query", ["🎉🎉", "(.*)+[", "the of a", "'; drop table tools; --", "\x00", "\ud800", "数据库"]
    )
    def test_what_is_no_word_here_is_a_normal_question(self, query: str) -> None:
        found = search(index(), query, lambda _: True)
        assert found.hits == []
        assert found.unmatched

    def test_a_very_long_query_is_answered_with_bounded_complaints(self) -> None:
        words = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}zq" for n in range(3_000))
        found = search(index(), f"refund {words}"[:10_000], lambda _: True)
        assert found.hits[0][0] == "orders_refund"
        assert len(found.unmatched) == UNMATCHED_MAX
        assert search(index(), "x" * 10_000, lambda _: True).hits == []

    @settings(deadline=None)
    @given(st.text(max_size=200))
    def test_any_query_gets_the_same_answer_twice(self, query: str) -> None:
        assert search(index(), query, lambda _: True) == search(index(), query, lambda _: True)


def shares(built: Index) -> dict[str, dict[str, float]]:
    return {term: {built.names[tool]: share for tool, share in at.items()} for term, at in built.postings.items()}


class TestChanges:
    def test_putting_a_tool_again_replaces_it(self) -> None:
        built = index(tool("a", "parcel", ("mail",)))
        built.put(tool("a", "invoice", ("money",)))
        assert search(built, "parcel", lambda _: True).unmatched == ["parcel"]
        assert View(built, lambda _: True).categories() == {"money": 1}

    def test_removing_everything_leaves_nothing_behind(self) -> None:
        built = index()
        for _ in range(3):
            for contract in SHOP:
                built.put(contract)
        for contract in SHOP:
            built.remove(contract.name)
            built.remove(contract.name)
        assert (len(built), built.names, built.postings, built.named, built.tagged) == (0, {}, {}, {}, {})

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(SHOP), st.booleans()), max_size=12))
    def test_changes_one_by_one_end_where_a_fresh_index_would(self, steps: list[tuple[Contract, bool]]) -> None:
        built, kept = Index(), dict[str, Contract]()
        for contract, put in steps:
            if put:
                built.put(contract)
                kept[contract.name] = contract
            else:
                built.remove(contract.name)
                kept.pop(contract.name, None)
        fresh = Index()
        for contract in kept.values():
            fresh.put(contract)
        assert shares(built) == shares(fresh)
        for query in ("refund order", "city", "message parcel"):
            assert search(built, query, lambda _: True) == search(fresh, query, lambda _: True)

    def test_hostile_texts_and_schemas_are_indexed_in_bounded_time(self) -> None:
        deep: JsonValue = {"type": "string", "description": "bottom"}
        for _ in range(2_000):
            deep = {"anyOf": [deep, deep]}
        schema: JsonObject = {"type": "object", "properties": {"x": deep}}
        contract = Contract("t", Text("t", "word " * 1_000_000), Schemas(schema), Gate(Effect.READ))
        built = index(contract)
        assert search(built, "word", lambda _: True).hits[0][0] == "t"


class TestBounds:
    def test_a_number_is_never_given_twice_so_a_view_that_was_not_told_shows_nobody_else(self) -> None:
        built = index(tool("a", "parcel"))
        view = View(built, lambda _: True)
        built.remove("a")
        built.put(tool("b", "parcel"))
        assert view.search("parcel").hits == []

    def test_counts_follow_every_change_of_what_is_seen(self) -> None:
        built = index(*(tool(f"t{n}", "parcel") for n in range(4)))
        view = View(built, lambda name: name != "t3")
        assert (len(view.search("parcel", limit=1).hits), view.search("parcel", limit=1).more) == (1, 2)
        view.hide("t0")
        assert view.search("parcel", limit=1).more == 1
        built.put(tool("t9", "parcel"))
        view.show("t9")
        assert view.search("parcel", limit=1).more == 2

    def test_the_best_of_a_large_catalogue_are_found_although_not_every_word_is_followed(self) -> None:
        parts = [f"w{chr(97 + n)}" for n in range(10)]
        crowd = [tool(f"t{n:04}", " ".join(parts[n % 10 : n % 10 + 2])) for n in range(4 * FOLLOWED)]
        built = index(*crowd, tool("wa_wb_wc", "whole"))
        found = search(built, "wa wb wc", lambda _: True, limit=3)
        assert found.hits[0][0] == "wa_wb_wc"
        assert found.more > CONTENDERS

    def test_names_that_share_words_come_rarest_word_first(self) -> None:
        view = View(index(), lambda name: name != "mail_send")
        assert view.by_name("refunded orders", 5) == ["orders_refund", "orders_get"]
        assert view.by_name("send", 5) == []
        assert view.by_name("shipment", 5) == []

    def test_a_tool_that_has_every_word_is_found_where_each_word_is_in_every_fourth_tool(self) -> None:
        parts = [f"w{chr(97 + n)}" for n in range(24)]
        crowd: list[Contract] = []
        for n, name in enumerate(combinations(parts, 3)):
            others = [parts[(n * 5 + step * 7) % 24] for step in range(4)]
            crowd.append(tool("_".join([*name, *["long"] * (n % 5 // 2)]), "", (), **dict.fromkeys(others, "")))
        built = index(*crowd)
        for longest in crowd[4::100]:
            found = search(built, longest.name.replace("_long", "").replace("_", " "), lambda _: True, limit=20)
            assert longest.name in [name for name, _ in found.hits]
