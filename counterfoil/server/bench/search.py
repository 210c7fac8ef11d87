"""`tool_search` as a whole over a large catalogue, and registering it, beside a plain BM25 over the same tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import quantiles
from typing import Final

from ...registry.catalogue import Catalogue
from ...registry.contract import Contract
from ...registry.policy import Policy
from ...registry.principal import Principal
from ...tools.base.answer import Asked
from ...tools.base.search import tool_search
from ..shelf import Shelf
from .figures import Figure, Judged, at_most
from .plain import PlainBM25
from .quality import measure_quality
from .rounds import MS, Tell, measured
from .settings import Settings
from .synthetic import Nothing, queries, tools

LIMIT_MS: Final = 3.0
REGISTER_S: Final = 3.0
LINEAR: Final = 1.3
"""How much dearer one tool may be where four times as many are registered; 1 is linear, the rest is noise."""
SHOWN: Final = 5
_AGAINST: Final = "plain BM25 over the same tools"
_Ask = Callable[[str], Awaitable[None]]


def measure(settings: Settings, tell: Tell) -> list[Figure]:
    """Registering, searching, and the quality where labelled queries are at hand."""
    tell(f"search: making {settings.tools:,} tools")
    contracts = tools(settings.tools * 2)
    figures = _registering(contracts, settings, tell)
    figures += asyncio.run(_searching(contracts[: settings.tools], settings, tell))
    if settings.search_data is not None:
        tell("search: quality")
        figures += measure_quality(settings.search_data)
    return figures


def registered(contracts: list[Contract]) -> Catalogue:
    """A catalogue of these."""
    catalogue = Catalogue()
    for contract in contracts:
        catalogue.register(contract, Nothing())
    return catalogue


def _registering(contracts: list[Contract], settings: Settings, tell: Tell) -> list[Figure]:
    """All of them beside a plain index; and one of twice as many beside one of half as many."""
    half, whole = contracts[: settings.tools // 2], contracts[: settings.tools]
    seconds: list[float] = []
    plain: list[float] = []
    few: list[float] = []
    many: list[float] = []
    for number in range(settings.search_rounds):
        tell(f"search: registering, round {number + 1} of {settings.search_rounds}")
        seconds.append(measured(lambda: registered(whole)).cpu_s)
        plain.append(measured(lambda: PlainBM25(whole)).cpu_s)
        few.append(measured(lambda: registered(half), len(half)).cpu_s * MS)
        many.append(measured(lambda: registered(contracts), len(contracts)).cpu_s * MS)
    return [
        Figure.of(
            "search.register", f"registering {len(whole):,} tools, CPU", "s", seconds, plain,
            against="indexing them for a plain BM25", target=at_most(REGISTER_S, Judged.OURS),
        ),
        Figure.of(
            "search.linear", f"one of {len(contracts):,} tools, CPU", "ms", many, few,
            against=f"one of {len(half):,} tools", target=at_most(LINEAR),
        ),
    ]  # fmt: skip


async def _searching(contracts: list[Contract], settings: Settings, tell: Tell) -> list[Figure]:
    ask = tool_search(Shelf(registered(contracts), Policy())).handler
    plain = PlainBM25(contracts)
    scopes = sorted({scope for contract in contracts for scope in contract.gate.scopes})
    everything = Asked(Principal("local", "me", scopes=frozenset(["*"])))
    part = Asked(Principal("local", "you", scopes=frozenset(scopes[::3])))
    category = max(contracts[0].text.tags)
    asked = queries(settings.queries, contracts)

    async def whole(query: str) -> None:
        await ask({"query": query}, everything)

    async def seen(query: str) -> None:
        await ask({"query": query}, part)

    async def narrowed(query: str) -> None:
        await ask({"query": query, "category": category}, everything)

    async def reference(query: str) -> None:
        plain.search(query, SHOWN)

    kinds: dict[str, tuple[str, list[str], _Ask]] = {
        "sentence": ("a long sentence", asked["sentence"], whole),
        "words": ("a few words", asked["words"], whole),
        "common": ("one frequent word", asked["common"], whole),
        "rare": ("one rare word", asked["rare"], whole),
        "part": ("a long sentence, a part seen", asked["sentence"], seen),
        "category": ("a long sentence, one category", asked["sentence"], narrowed),
    }
    figures: list[Figure] = []
    for name, (title, texts, ours) in kinds.items():
        tell(f"search: {title}")
        figures += await _compared(name, title, texts, (ours, reference), settings.search_rounds)
    return figures


async def _compared(name: str, title: str, texts: list[str], pair: tuple[_Ask, _Ask], rounds: int) -> list[Figure]:
    """The median and the 95th percentile of each round; every query is asked on both sides in turn."""
    halves: list[list[float]] = [[], []]
    tails: list[list[float]] = [[], []]
    for _ in range(rounds):
        costs: list[list[float]] = [[], []]
        for text in texts:
            for side, ask in enumerate(pair):
                begun = time.process_time()
                await ask(text)
                costs[side].append((time.process_time() - begun) * MS)
        for side in range(2):
            twentieths = quantiles(costs[side], n=20)
            halves[side].append(twentieths[9])
            tails[side].append(twentieths[18])
    target = at_most(LIMIT_MS, Judged.OURS)
    return [
        Figure.of(f"search.{name}.p50", f"{title}, CPU p50", "ms", *halves, against=_AGAINST, target=target),
        Figure.of(f"search.{name}.p95", f"{title}, CPU p95", "ms", *tails, against=_AGAINST, target=target),
    ]
