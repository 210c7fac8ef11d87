"""The reference of the search: BM25 as it stands in the textbook, over words as they are written. Pure.

No stemming, no stop words, names are one word each, and every posting of every word of the query is followed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from ...registry.contract import Contract

K1: Final = 1.2
B: Final = 0.75
_WORD = re.compile(r"\w+")


class PlainBM25:
    """One index, made at once."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        self._postings: dict[str, dict[str, int]] = {}
        self._lengths: dict[str, int] = {}
        for contract in contracts:
            counts = Counter(_words(_text(contract)))
            self._lengths[contract.name] = counts.total()
            for word, count in counts.items():
                self._postings.setdefault(word, {})[contract.name] = count
        self._usual = sum(self._lengths.values()) / max(1, len(self._lengths))

    def search(self, query: str, limit: int) -> list[str]:
        """The best names, best first."""
        scores: dict[str, float] = {}
        total = len(self._lengths)
        for word in dict.fromkeys(_words(query)):
            postings = self._postings.get(word, {})
            weight = math.log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5))
            for name, count in postings.items():
                length = 1 - B + B * self._lengths[name] / self._usual
                scores[name] = scores.get(name, 0.0) + weight * count * (K1 + 1) / (count + K1 * length)
        return nlargest(limit, scores, key=lambda name: (scores[name], name))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _text(contract: Contract) -> str:
    properties = contract.schemas.input.get("properties")
    parameters = [
        f"{name} {schema.get('description', '') if isinstance(schema, dict) else ''}"
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
    ]
    text = contract.text
    return "\n".join([contract.name, text.title, text.description, *text.tags, *parameters])
