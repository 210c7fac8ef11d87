"""The inverted index over tools: which terms a tool has and how much each weighs, kept up to date one tool at a time.

It knows every tool. What of it somebody may see, and how tools are ranked, is the search's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from .contract import Schemas, Text
from .stemming import terms
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
TEXT_CHARS: Final = 8_000
"""Characters of one field of one tool that are indexed."""
SCHEMA_NODES: Final = 400
"""Parts of an input schema that are looked at."""


SHARES: Final = tuple(step / 1024 for step in range(1025))
"""The values that a share can have. The same few objects everywhere: reading a list of tools stays in the cache."""


class Findable(Protocol):
    """What can be found: a tool by its contract, or a stored plan."""

    @property
    def name(self) -> str: ...  # noqa: D102 (as a contract has it, like the rest)
    @property
    def text(self) -> Text: ...  # noqa: D102
    @property
    def schemas(self) -> Schemas: ...  # noqa: D102


class Index:
    """Terms to tools and back. Putting a tool again replaces it, and removing it leaves nothing.

    A tool is a number here, given once and to no other tool. `postings` have each tool of a term with its share of a
    full score, `named` the tools that have a term in their names, `tagged` those of a tag. `changes` counts how often
    anything in here has changed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.postings: dict[str, dict[int, float]] = {}
        self.named: dict[str, set[int]] = {}
        self.tagged: dict[str, set[int]] = {}
        self._terms: dict[int, tuple[str, ...]] = {}
        self._tags: dict[int, tuple[str, ...]] = {}
        self._given = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, name: str) -> bool:
        return name in self.ids

    def put(self, contract: Findable) -> None:
        """Index a tool, in place of what was there under its name."""
        name, postings = contract.name, self.postings
        self.remove(name)
        self.changes += 1
        number = self.ids[name] = self._given
        self._given += 1
        self.names[number] = name
        weights = _weights(contract)
        for term, weight in weights.items():
            share = SHARES[round(weight / (K1 + weight) * 1024) or 1]
            if (tools := postings.get(term)) is None:
                postings[term] = {number: share}
            else:
                tools[number] = share
        for term in terms(name):
            self.named.setdefault(term, set()).add(number)
        for tag in contract.text.tags:
            self.tagged.setdefault(tag, set()).add(number)
        self._terms[number] = tuple(weights)
        self._tags[number] = contract.text.tags

    def remove(self, name: str) -> None:
        """Forget a tool; nothing happens if it is not there."""
        number = self.ids.pop(name, None)
        if number is None:
            return
        self.changes += 1
        del self.names[number]
        for term in self._terms.pop(number):
            del self.postings[term][number]
            if not self.postings[term]:
                del self.postings[term]
        _leave(self.named, terms(name), number)
        _leave(self.tagged, self._tags.pop(number), number)


def _leave(groups: dict[str, set[int]], keys: Iterable[str], number: int) -> None:
    for key in set(keys):
        groups[key].discard(number)
        if not groups[key]:
            del groups[key]


def _weights(contract: Findable) -> dict[str, float]:
    """Each term's weighted frequency over all fields, lengths taken into account."""
    weights: defaultdict[str, float] = defaultdict(float)
    for name, text in _texts(contract).items():
        found = terms(text[:TEXT_CHARS])
        if not found:
            continue
        rule = FIELDS[name]
        one = rule.boost / (1 - rule.b + rule.b * len(found) / rule.usual)
        for term, count in Counter(found).items():
            weights[term] += one * count
    return weights


def _texts(contract: Findable) -> dict[Field, str]:
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
