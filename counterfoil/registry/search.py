"""The search over tools: one inverted index in memory, ranked by BM25F, kept up to date one tool at a time.

Everything that an answer shows (hits, scores, counts, what did not match) is computed over the tools of one `View`,
so that a tool that its caller may not see leaves no trace in it. Who may see what is the catalogue's to say.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, Literal

from .contract import Contract
from .stemming import terms, words
from .vocabulary import JsonObject, JsonValue

Field = Literal["name", "tags", "description", "parameters"]


@dataclass(frozen=True, slots=True)
class Weight:
    """How much a field counts, how much its length takes away (BM25's b), and the length in terms that does not."""

    boost: float
    b: float
    usual: float


FIELDS: Final[Mapping[Field, Weight]] = {
    "name": Weight(3.0, 0.3, 3.0),
    "tags": Weight(1.5, 0.3, 2.0),
    "description": Weight(1.0, 0.6, 20.0),
    "parameters": Weight(0.5, 0.75, 20.0),
}
"""Usual lengths are fixed rather than averages over the catalogue: a score then depends on no tool that is not seen."""

K1: Final = 1.2
COMMON: Final = 0.2
"""A word in more than this part of the seen tools only adds to tools that a rarer word has found."""
COMMON_MIN: Final = 200
"""A word in no more than this many tools is never common: it costs nothing to follow."""
QUERY_CHARS: Final = 20_000
QUERY_TERMS: Final = 32
"""The rarest terms of a query that are followed."""
UNMATCHED_MAX: Final = 20
UNMATCHED_CHARS: Final = 40
TEXT_CHARS: Final = 8_000
"""Characters of one field of one tool that are indexed."""
SCHEMA_NODES: Final = 400
"""Parts of an input schema that are looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: names with scores, best first; how many more there are; the query's words that nothing has."""

    hits: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    more: int = 0
    unmatched: list[str] = field(default_factory=list[str])


class Index:
    """Terms to tools and back. A tool is its name; putting it again replaces it, and removing it leaves nothing."""

    def __init__(self) -> None:
        self.postings: dict[str, dict[str, float]] = {}
        self.tagged: dict[str, set[str]] = {}
        self._terms: dict[str, tuple[str, ...]] = {}
        self._tags: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._terms)

    def __contains__(self, name: str) -> bool:
        return name in self._terms

    @property
    def names(self) -> AbstractSet[str]:
        """All tools in it."""
        return self._terms.keys()

    def put(self, contract: Contract) -> None:
        """Index a tool, in place of what was there under its name."""
        self.remove(contract.name)
        weights = _weights(contract)
        for term, weight in weights.items():
            self.postings.setdefault(term, {})[contract.name] = weight / (K1 + weight)
        for tag in contract.text.tags:
            self.tagged.setdefault(tag, set()).add(contract.name)
        self._terms[contract.name] = tuple(weights)
        self._tags[contract.name] = contract.text.tags

    def remove(self, name: str) -> None:
        """Forget a tool; nothing happens if it is not there."""
        for term in self._terms.pop(name, ()):
            del self.postings[term][name]
            if not self.postings[term]:
                del self.postings[term]
        for tag in set(self._tags.pop(name, ())):
            self.tagged[tag].discard(name)
            if not self.tagged[tag]:
                del self.tagged[tag]


class View:
    """What one kind of caller sees of an index: the part that every answer is computed over."""

    def __init__(self, index: Index, may_see: Callable[[str], bool]) -> None:
        self._index = index
        self._names = {name for name in index.names if may_see(name)}

    def show(self, name: str) -> None:
        """The caller may see this tool from now on."""
        self._names.add(name)

    def hide(self, name: str) -> None:
        """The caller may not see this tool, or it is gone."""
        self._names.discard(name)

    def categories(self) -> dict[str, int]:
        """Tags, sorted, with how many seen tools have them."""
        counts = ((tag, len(names & self._names)) for tag, names in sorted(self._index.tagged.items()))
        return {tag: count for tag, count in counts if count}

    def search(self, query: str, category: str | None = None, limit: int = 5) -> Found:
        """Rank the seen tools, those with the tag `category` if one is given; without a query all of them, by name."""
        query = query[:QUERY_CHARS].strip()
        allowed = self._names if category is None else self._names & self._index.tagged.get(category, set())
        if not query:
            browsed = sorted(allowed) if category is not None else []
            return Found([(name, 0.0) for name in browsed[:limit]], max(len(browsed) - limit, 0))
        matched, unmatched = self._match(query)
        scores = self._score(matched, allowed)
        self._put_exact_first(query, scores, allowed)
        hits = _best(scores, limit)
        return Found(hits, len(scores) - len(hits), unmatched)

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
        postings = self._index.postings.get(term)
        if not postings:
            return 0
        if len(self._names) == len(self._index):
            return len(postings)
        return sum(map(self._names.__contains__, postings))

    def _score(self, matched: Iterable[tuple[int, str]], allowed: AbstractSet[str]) -> dict[str, float]:
        total = len(self._names)
        common = max(COMMON * total, COMMON_MIN)
        scores: dict[str, float] = {}
        known = scores.get
        for count, term in matched:
            postings = self._index.postings[term]
            weight = math.log(1 + (total - count + 0.5) / (count + 0.5)) * (K1 + 1)
            if count > common and scores:
                share_of = postings.get
                scores.update(
                    {name: score + weight * share for name, score in scores.items() if (share := share_of(name))}
                )
            elif len(allowed) == len(self._index):
                scores.update({name: known(name, 0.0) + weight * share for name, share in postings.items()})
            else:
                scores.update(
                    {name: known(name, 0.0) + weight * share for name, share in postings.items() if name in allowed}
                )
        return scores

    def _put_exact_first(self, query: str, scores: dict[str, float], allowed: AbstractSet[str]) -> None:
        name = query.casefold().replace("-", "_").replace(" ", "_")
        if name in allowed:
            scores[name] = max(scores.values(), default=0.0) + 1.0


def _best(scores: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
    """The best ones, equals by name; found without sorting all."""
    if limit < len(scores):
        worst = nlargest(limit, scores.values())[-1] if limit else math.inf
        scores = {name: score for name, score in scores.items() if score >= worst}
    ranked = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
    return [(name, round(score, 4)) for name, score in ranked[:limit]]


def search(
    index: Index, query: str, may_see: Callable[[str], bool], category: str | None = None, limit: int = 5
) -> Found:
    """One search over what `may_see` lets through. Who searches often keeps the `View`."""
    return View(index, may_see).search(query, category, limit)


def _weights(contract: Contract) -> dict[str, float]:
    """Each term's weighted frequency over all fields, lengths taken into account."""
    weights: defaultdict[str, float] = defaultdict(float)
    for name, text in _texts(contract).items():
        counts = Counter(terms(text[:TEXT_CHARS]))
        rule = FIELDS[name]
        length = 1 - rule.b + rule.b * counts.total() / rule.usual
        for term, count in counts.items():
            weights[term] += rule.boost * count / length
    return dict(weights)


def _texts(contract: Contract) -> dict[Field, str]:
    text = contract.text
    title = "" if text.title == contract.name else f"{text.title}\n"
    return {
        "name": contract.name,
        "tags": "\n".join(text.tags),
        "description": title + text.description,
        "parameters": "\n".join(_parameters(contract.schemas.input)),
    }


def _parameters(schema: JsonObject) -> Iterator[str]:
    """Names and descriptions of all properties, at any depth."""
    waiting: list[JsonValue] = [schema]
    for _ in range(SCHEMA_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        if not isinstance(node, dict):
            continue
        description, properties = node.get("description"), node.get("properties")
        if isinstance(description, str):
            yield description
        if isinstance(properties, dict):
            yield from properties
            waiting.extend(properties.values())
        waiting.extend(node[word] for word in ("items", "anyOf", "oneOf", "allOf", "$defs") if word in node)
