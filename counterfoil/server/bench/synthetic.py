"""Tools and queries that nobody wrote, from a seed: names of several words, descriptions and parameters.

Words follow Zipf's law, flattened at its head as in the catalogues of real servers: the most frequent stands in every
third tool, the fortieth in every twelfth, most in a handful.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from ...canonical import JsonObject, JsonValue
from ...registry.contract import Contract, Gate, Schemas, Text
from ...registry.outcome import Outcome
from ...registry.vocabulary import Effect

SEED: Final = 17
FLAT: Final = 15
"""How many of the first words are about as frequent as the first."""
SCOPED: Final = 0.3
"""The part of the tools that needs a scope of its service."""
_VERBS: Final = [
    "get",
    "list",
    "create",
    "update",
    "delete",
    "search",
    "send",
    "read",
    "find",
    "fetch",
    "add",
    "remove",
    "check",
    "export",
    "import",
    "sync",
    "cancel",
    "approve",
    "assign",
    "archive",
    "restore",
    "merge",
    "publish",
    "schedule",
    "convert",
    "validate",
    "compare",
    "summarize",
    "refund",
    "upload",
    "download",
    "lock",
]
_NOUNS: Final = [
    "user",
    "file",
    "order",
    "report",
    "message",
    "project",
    "customer",
    "account",
    "event",
    "task",
    "invoice",
    "document",
    "record",
    "status",
    "team",
    "page",
    "image",
    "payment",
    "comment",
    "issue",
    "product",
    "ticket",
    "contact",
    "folder",
    "group",
    "calendar",
    "channel",
    "email",
    "note",
    "item",
    "table",
    "version",
    "branch",
    "member",
    "role",
    "session",
    "token",
    "webhook",
    "address",
    "delivery",
    "shipment",
    "subscription",
    "policy",
    "template",
    "workflow",
    "dashboard",
    "metric",
    "alert",
    "log",
    "backup",
    "database",
    "query",
    "schema",
    "column",
    "index",
    "cluster",
    "node",
    "container",
    "deployment",
    "pipeline",
    "repository",
    "commit",
    "release",
    "review",
    "label",
    "milestone",
    "sprint",
    "board",
    "card",
    "attachment",
    "signature",
    "contract",
    "quote",
    "lead",
    "opportunity",
    "campaign",
    "audience",
    "segment",
    "survey",
    "form",
    "response",
    "answer",
    "course",
    "lesson",
    "student",
    "grade",
    "patient",
    "appointment",
    "prescription",
    "claim",
    "route",
    "vehicle",
    "driver",
    "warehouse",
    "stock",
    "supplier",
    "shelf",
    "return",
    "exchange",
    "currency",
    "transfer",
    "balance",
    "statement",
    "budget",
    "expense",
    "receipt",
    "tax",
    "payroll",
    "leave",
    "shift",
    "candidate",
    "interview",
    "offer",
    "location",
    "weather",
    "forecast",
    "map",
    "place",
    "flight",
    "hotel",
    "booking",
    "ticketing",
    "seat",
    "menu",
    "recipe",
    "ingredient",
    "playlist",
    "track",
    "episode",
    "video",
    "caption",
    "thumbnail",
    "font",
    "layer",
    "palette",
    "sensor",
    "reading",
    "device",
    "firmware",
    "certificate",
    "domain",
    "record",
    "zone",
    "bucket",
]
_FILLERS: Final = [
    "the",
    "a",
    "of",
    "for",
    "in",
    "with",
    "and",
    "by",
    "or",
    "to",
    "from",
    "all",
    "given",
    "specified",
    "existing",
    "new",
    "optional",
    "return",
    "returns",
    "this",
    "as",
    "on",
    "using",
    "based",
    "details",
    "information",
    "data",
    "results",
    "including",
    "current",
    "available",
    "matching",
    "within",
    "their",
]
_TYPES: Final = ("string", "integer", "boolean", "number")
_SYLLABLES: Final = [
    "ka",
    "lo",
    "mi",
    "ren",
    "tu",
    "sa",
    "vo",
    "pel",
    "dri",
    "non",
    "fex",
    "gar",
    "hul",
    "bi",
    "tas",
    "qu",
    "or",
    "zen",
    "wy",
    "cam",
]


class Words:
    """Draws words by Zipf's law."""

    def __init__(self, words: list[str], chance: random.Random) -> None:
        self.words = words
        self._chance = chance
        self._weights = list(accumulate(1 / (rank + FLAT) for rank in range(len(words))))

    def one(self) -> str:
        """A word; the first are the most frequent."""
        return self.some(1)[0]

    def some(self, count: int) -> list[str]:
        """So many words, perhaps with repetitions."""
        return self._chance.choices(self.words, cum_weights=self._weights, k=count)


@dataclass(frozen=True, slots=True)
class Nothing:
    """The hands of a tool that is only ever looked for."""

    hard_deadline: bool = False
    blocking: bool = False

    async def ready(self) -> None:
        """Nothing has to be made ready."""

    def problems(self, arguments: JsonObject, if_version: str | None) -> tuple[()]:  # noqa: ARG002 (an adapter's shape)
        """It takes whatever fits."""
        return ()

    async def invoke(self, arguments: JsonObject, call: Any, extra: dict[str, Any]) -> Outcome[Any]:  # noqa: ANN401, ARG002 (an adapter's shape)
        """Give an empty output."""
        return Outcome.success({})


def tools(count: int, seed: int = SEED) -> list[Contract]:
    """So many tools of some services; the first of a longer list are those of a shorter one with the same seed."""
    chance = random.Random(seed)  # noqa: S311 (the same tools each time is what is wanted)
    world = _World(chance)
    found: dict[str, Contract] = {}
    while len(found) < count:
        contract = world.tool()
        found.setdefault(contract.name, contract)
    return list(found.values())


def queries(count: int, contracts: list[Contract], seed: int = SEED) -> dict[str, list[str]]:
    """So many queries of each kind: sentences, a few words, one frequent word, one rare word."""
    chance = random.Random(seed + 1)  # noqa: S311 (the same queries each time)
    world = _World(chance)
    chosen = [chance.choice(contracts) for _ in range(count)]
    return {
        "sentence": [_sentence(one, world, chance) for one in chosen],
        "words": [" ".join(one.name.split("_")[1:]) + " " + world.nouns.one() for one in chosen],
        "common": [chance.choice([*_VERBS[:8], *_NOUNS[:12]]) for _ in chosen],
        "rare": [one.name.split("_")[0] for one in chosen],
    }


def _sentence(contract: Contract, world: _World, chance: random.Random) -> str:
    wanted = contract.text.description.split()
    said = chance.sample(wanted, min(len(wanted), 12)) + world.nouns.some(8) + world.fillers.some(10)
    chance.shuffle(said)
    return f"I need to {contract.name.split('_')[1]} something: {' '.join(said)}, and then tell me what came of it"


class _World:
    """The vocabulary; services have names that nothing else has."""

    def __init__(self, chance: random.Random) -> None:
        names = random.Random(SEED)  # noqa: S311
        services = {"".join(names.choices(_SYLLABLES, k=names.randint(2, 4))) for _ in range(500)}
        tail = {"".join(names.choices(_SYLLABLES, k=4)) for _ in range(6_000)}
        self._chance = chance
        self.services = Words(sorted(services), chance)
        self.verbs = Words(list(_VERBS), chance)
        self.nouns = Words([*dict.fromkeys(_NOUNS), *sorted(tail)], chance)
        self.fillers = Words(list(_FILLERS), chance)

    def tool(self) -> Contract:
        """One more tool."""
        service, verb = self.services.one(), self.verbs.one()
        subject = self.nouns.some(self._chance.randint(1, 3))
        name = "_".join([service, verb, *subject])[:64]
        effect = Effect.READ if verb in {"get", "list", "search", "read", "find", "fetch", "check"} else Effect.WRITE
        scopes = (f"{service}:use",) if self._chance.random() < SCOPED else ()
        description = (
            f"{verb.capitalize()} {' '.join(subject)} in {service}. {self._prose(self._chance.randint(4, 24))}"
        )
        text = Text(name, description, (service, subject[0]))
        return Contract(name, text, Schemas(self._schema()), Gate(effect, scopes=scopes))

    def _schema(self) -> JsonObject:
        properties: dict[str, JsonValue] = {}
        for _ in range(self._chance.randint(1, 5)):
            name = "_".join(self.nouns.some(self._chance.randint(1, 2)))
            kind = self._chance.choice(_TYPES)
            properties[name[:64]] = {"type": kind, "description": self._prose(self._chance.randint(2, 8))}
        required: list[JsonValue] = [next(iter(properties))]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _prose(self, length: int) -> str:
        said = (self.nouns.some(length - length // 3)) + self.fillers.some(length // 3) + self.verbs.some(1)
        self._chance.shuffle(said)
        return " ".join(said).capitalize() + "."
