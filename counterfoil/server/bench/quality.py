"""How good the search is: recall over labelled queries, beside a plain BM25 over the same tools.

Recall at k is how many relevant tools are among the first k, over the most that could be. Nothing here is shipped
with data; a folder with `live_catalog.jsonl` and `live_queries.jsonl` is named on the command line.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from ...canonical import JsonValue
from ...registry.contract import Contract, Gate, Schemas, Text
from ...registry.index import Index
from ...registry.search import View
from ...registry.vocabulary import Effect
from .figures import Figure
from .plain import PlainBM25

CATALOG: Final = "live_catalog.jsonl"
QUERIES: Final = "live_queries.jsonl"
DEPTHS: Final = (1, 5, 10)


def recall(found: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """The part of the relevant ones that is among the first `depth`, of what could be there."""
    return len(set(found[:depth]) & set(relevant)) / min(len(set(relevant)), depth)


def measure_quality(folder: Path) -> list[Figure]:
    """Recall by track and depth, ours beside the reference."""
    names: dict[str, str] = {}
    contracts = [_contract(row, names) for row in _rows(folder / CATALOG)]
    index = Index()
    for contract in contracts:
        index.put(contract)
    view, plain = View(index, lambda _: True), PlainBM25(contracts)
    ours: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    reference: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for row in _rows(folder / QUERIES):
        relevant = {names[tool] for tool in row["relevant"] if tool in names}
        if not relevant:
            continue
        found = [name for name, _ in view.search(row["query"], limit=max(DEPTHS)).hits]
        beside = plain.search(row["query"], max(DEPTHS))
        for depth in DEPTHS:
            ours[row["track"], depth].append(recall(found, relevant, depth))
            reference[row["track"], depth].append(recall(beside, relevant, depth))
    return [
        Figure.of(
            f"search.recall.{track}.{depth}", f"{track}: recall@{depth}", "", [mean(ours[track, depth])],
            [mean(reference[track, depth])], against="plain BM25: no stemming, names not split",
        )
        for track, depth in sorted(ours)
    ]  # fmt: skip


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _contract(row: dict[str, Any], names: dict[str, str]) -> Contract:
    """A tool of the set under the name that an upstream's tool has here; `names` learns which id it was."""
    name = re.sub(r"[^a-z0-9_]", "_", f"{row['server']}_{row['name']}".lower())[:64]
    name = name if name not in names.values() else f"{name[:55]}_{len(names):08d}"
    names[row["id"]] = name
    properties: dict[str, JsonValue] = {
        one["name"]: {"type": "string", "description": one.get("description") or ""} for one in row["params"]
    }
    schemas = Schemas({"type": "object", "properties": properties})
    return Contract(name, Text(row["name"], row["description"] or ""), schemas, Gate(Effect.READ))
