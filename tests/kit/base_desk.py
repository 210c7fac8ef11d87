"""A desk that notes what base tools ask of it, and a shelf that must not be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.registry.principal import Principal
from counterfoil.registry.question import Question, Said
from counterfoil.registry.request import CallRequest, RunRequest
from counterfoil.registry.vocabulary import JsonObject


@dataclass
class Shown:
    body: JsonObject
    is_error: bool = False
    delivers: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    question: Question | None = None

    def wire(self) -> JsonObject:
        return self.body


@dataclass
class RecordingDesk:
    """A desk that notes what it was asked and shows what it was given."""

    shows: Shown = field(default_factory=lambda: Shown({"state": "settled", "error": None}, delivers=("call_1",)))
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    async def call(self, request: CallRequest) -> Shown:
        self.asked.append(("call", request))
        return self.shows

    async def plan(self, principal: Principal, document: Any) -> Shown:
        self.asked.append(("plan", (principal, document)))
        return self.shows

    async def run(self, request: RunRequest) -> Shown:
        self.asked.append(("run", request))
        return self.shows

    async def status(self, principal: Principal, **stated: Any) -> Shown:
        self.asked.append(("status", (principal, stated)))
        return self.shows

    async def cancel(self, principal: Principal, **stated: Any) -> Shown:
        self.asked.append(("cancel", (principal, stated)))
        return self.shows

    async def confirm(self, principal: Principal, **stated: Any) -> Shown:
        self.asked.append(("confirm", (principal, stated)))
        return self.shows

    async def question(self, principal: Principal, approval_ids: Sequence[str]) -> Question | None:
        raise AssertionError("nobody can be asked")

    async def answer(self, principal: Principal, said: Said, note: str | None = None) -> Shown:
        raise AssertionError("nobody was asked")

    async def follow(self, principal: Principal, call_id: str, wait_s: float, *, for_decision: bool = False) -> Shown:
        raise AssertionError("nobody was asked")

    async def reconcile(self, principal: Principal, **stated: Any) -> Shown:
        self.asked.append(("reconcile", (principal, stated)))
        return self.shows


class EmptyShelf:
    """A catalogue without tools."""

    def search(self, principal: Principal, **stated: Any) -> Any:
        raise AssertionError("nothing was asked of it")

    def categories(self, principal: Principal) -> dict[str, int]:
        return {}

    def standing(self, principal: Principal, contract: Any) -> str:
        raise AssertionError("nothing was asked of it")
