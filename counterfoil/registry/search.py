"""The search over tools: BM25F over the index, computed for one kind of caller at a time.

Everything that an answer shows (hits, scores, counts, what did not match) is computed over the tools of one `View`,
so that a tool that its caller may not see leaves no trace in it. Who may see what is the catalogue's to say.
A search's cost is bounded however large the catalogue is: rare words are followed to all of their tools, frequent
ones only to the contenders that are left, once the words that chose these carry most of what the query says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from .index import K1, Index
from .stemming import terms, words

COMMON: Final = 0.2
"""A word in more than this part of the seen tools only adds to tools that a rarer word has found."""
COMMON_MIN: Final = 200
"""A word in no more than this many tools is never common: it costs nothing to follow."""
FOLLOWED: Final = 1_500
"""After so many places in the index, less rare words count as common too."""
TELLING: Final = 0.5
"""Words that carry less than this part of a query's weight cannot choose the contenders: further ones are followed."""
PLACES_MAX: Final = 12_000
"""But never to more places in the index than these."""
CONTENDERS: Final = 200
"""The best tools so far, to which common words add; far more than an answer can show."""
LOOKS: Final = 4_000
"""Where few words are left to be added, as many contenders as make no more looks than these."""
QUERY_CHARS: Final = 20_000
QUERY_TERMS: Final = 32
"""The rarest terms of a query that are followed."""
UNMATCHED_MAX: Final = 20
UNMATCHED_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: names with scores, best first; how many more there are; the query's words that nothing has."""

    hits: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    more: int = 0
    unmatched: list[str] = field(default_factory=list[str])


class View:
    """What one kind of caller sees of an index: the part that every answer is computed over."""

    def __init__(self, index: Index, may_see: Callable[[str], bool]) -> None:
        self._index = index
        self._numbers = {name: number for name, number in index.ids.items() if may_see(name)}
        self._seen = set(self._numbers.values())
        self._counts: dict[str, int] = {}
        self._told_at = index.changes

    @property
    def names(self) -> AbstractSet[str]:
        """The tools in it."""
        return self._numbers.keys()

    def show(self, name: str) -> None:
        """The caller may see this tool, which the index has, from now on."""
        self.hide(name)
        self._numbers[name] = self._index.ids[name]
        self._seen.add(self._index.ids[name])

    def hide(self, name: str) -> None:
        """The caller may not see this tool, or it is gone."""
        self._seen.discard(self._numbers.pop(name, -1))
        self._counts.clear()
        self._told_at = self._index.changes

    def categories(self) -> dict[str, int]:
        """Tags, sorted, with how many seen tools have them."""
        counts = ((tag, len(tools & self._seen)) for tag, tools in sorted(self._index.tagged.items()))
        return {tag: count for tag, count in counts if count}

    def search(self, query: str, category: str | None = None, limit: int = 5) -> Found:
        """Rank the seen tools, those with the tag `category` if one is given; without a query all of them, by name."""
        query = query[:QUERY_CHARS].strip()
        allowed = self._seen if category is None else self._seen & self._index.tagged.get(category, set())
        if not query:
            browsed = sorted(map(self._index.names.__getitem__, allowed)) if category is not None else []
            return Found([(name, 0.0) for name in browsed[:limit]], max(len(browsed) - limit, 0))
        matched, unmatched = self._match(query)
        scores, dropped = self._score(matched, allowed)
        exact = self._numbers.get(query.casefold().replace("-", "_").replace(" ", "_"))
        if exact is not None and exact in allowed:
            scores[exact] = max(scores.values(), default=0.0) + 1.0
        hits = self._best(scores, limit)
        return Found(hits, dropped + len(scores) - len(hits), unmatched)

    def by_name(self, text: str, limit: int) -> list[str]:
        """Seen tools whose names share a word with this text, those that share most, or the rarest, first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for term in list(dict.fromkeys(terms(text[:QUERY_CHARS])))[:QUERY_TERMS]:
            having = self._index.named.get(term, set()) & self._seen
            for tool in having:
                scores[tool] += math.log(1 + len(self._seen) / len(having))
        return [name for name, _ in self._best(scores, limit)]

    def _match(self, query: str) -> tuple[list[tuple[int, str]], list[str]]:
        """The query's terms with the number of seen tools that have them, rarest first; and the words without any."""
        counts: dict[str, int] = {}
        unmatched: dict[str, None] = {}
        meaningful = False
        for word, found in words(query):
            for term in found:
                meaningful = True
                if term not in counts:
                    counts[term] = self._count(term)
            if found and not any(counts[term] for term in found):
                unmatched[word] = None
        if not meaningful:
            unmatched[query[:UNMATCHED_CHARS]] = None
        rarest = sorted((count, term) for term, count in counts.items() if count)
        return rarest[:QUERY_TERMS], list(unmatched)[:UNMATCHED_MAX]

    def _count(self, term: str) -> int:
        """How many seen tools have a term; counted once between two changes."""
        postings = self._index.postings.get(term)
        if not postings:
            return 0
        if self._sees_all(self._seen):
            return len(postings)
        if self._told_at != self._index.changes:  # somebody changed the index and told this view nothing
            return sum(map(self._seen.__contains__, postings))
        count = self._counts.get(term)
        if count is None:
            count = self._counts[term] = sum(map(self._seen.__contains__, postings))
        return count

    def _score(self, matched: Sequence[tuple[int, str]], allowed: AbstractSet[int]) -> tuple[dict[int, float], int]:
        """The scores of the tools that can still be shown, and how many were found beside them."""
        common = max(COMMON * len(self._seen), COMMON_MIN)
        scores: dict[int, float] = {}
        followed, told = 0, 0.0
        telling = TELLING * sum(self._weight(count) for count, _ in matched)
        for place, (count, term) in enumerate(matched):
            dear = count > COMMON_MIN and (count > common or followed > FOLLOWED)
            if scores and dear and (told >= telling or followed + count > PLACES_MAX):
                return self._add_common(scores, matched[place:])
            followed += count
            weight, known = self._weight(count), scores.get
            told += weight
            shares = self._shares(term, allowed)
            if not scores:
                scores = {tool: weight * share for tool, share in shares.items()}
                continue
            for tool, share in shares.items():
                scores[tool] = known(tool, 0.0) + weight * share
        return scores, 0

    def _add_common(self, scores: dict[int, float], matched: Sequence[tuple[int, str]]) -> tuple[dict[int, float], int]:
        found = len(scores)
        most = max(CONTENDERS, LOOKS // len(matched))
        if found > most:
            least = sorted(scores.values())[-most]
            scores = {tool: score for tool, score in scores.items() if score >= least}
        for count, term in matched:
            weight, share_of = self._weight(count), self._index.postings[term].get
            for tool in scores:
                if share := share_of(tool):
                    scores[tool] += weight * share
        return scores, found - len(scores)

    def _shares(self, term: str, allowed: AbstractSet[int]) -> Mapping[int, float]:
        """The allowed tools of a term, found from whichever side is shorter."""
        postings = self._index.postings[term]
        if self._sees_all(allowed):
            return postings
        if len(allowed) < len(postings):
            share_of = postings.get
            return {tool: share for tool in allowed if (share := share_of(tool))}
        return {tool: share for tool, share in postings.items() if tool in allowed}

    def _sees_all(self, allowed: AbstractSet[int]) -> bool:
        return len(allowed) == len(self._index) and self._told_at == self._index.changes

    def _weight(self, count: int) -> float:
        return math.log(1 + (len(self._seen) - count + 0.5) / (count + 0.5)) * (K1 + 1)

    def _best(self, scores: Mapping[int, float], limit: int) -> list[tuple[str, float]]:
        """The best ones, equals by name; found without sorting all."""
        if limit < len(scores):
            worst = nlargest(limit, scores.values())[-1] if limit else math.inf
            scores = {tool: score for tool, score in scores.items() if score >= worst}
        names = self._index.names
        ranked = sorted((-score, names[tool]) for tool, score in scores.items())
        return [(name, round(-score, 4)) for score, name in ranked[:limit]]


def search(
    index: Index, query: str, may_see: Callable[[str], bool], category: str | None = None, limit: int = 5
) -> Found:
    """One search over what `may_see` lets through. Who searches often keeps the `View`."""
    return View(index, may_see).search(query, category, limit)
