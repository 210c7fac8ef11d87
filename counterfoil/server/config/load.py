"""Find a configuration file, read it, and report everything that is wrong with it at once."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from .auth_tables import AuthTable
from .budget_tables import BudgetsTable
from .errors import ConfigError, KeyPath, Problem, spell
from .kinds import SQLITE
from .later import message_for, take_out
from .lines import Places
from .places import default_ledger_path
from .plan_tables import PlanTable
from .reference import table_at
from .table import key_of
from .tables import (
    ApprovalsTable,
    Document,
    LedgerTable,
    LimitsTable,
    PolicyDefaultsTable,
    PolicyTable,
    PoolTable,
    PrincipalsTable,
    PythonTable,
    RunsTable,
    ServerTable,
)
from .tool_tables import HttpTable, ToolTable

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

FILE_NAME: Final = "counterfoil.toml"
_SECRET_KEYS: Final = frozenset({"keys", "payload_keys", "token", "headers", "url", "query", "form", "json"})
_QUOTED = re.compile(r"'([^']*)'")
_IN_TOML: Final = {
    "tuple_type": "expected an array, [...]",
    "list_type": "expected an array, [...]",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
}
"""What the library says in the words of Python."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_PARSER_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration that was checked, and the absolute path of its file."""

    path: Path
    server: ServerTable
    ledger: LedgerTable
    auth: AuthTable
    principals: PrincipalsTable
    policy: tuple[PolicyTable, ...]
    policy_defaults: PolicyDefaultsTable
    approvals: ApprovalsTable
    runs: RunsTable
    budgets: BudgetsTable
    pools: dict[str, PoolTable]
    limits: LimitsTable
    python: PythonTable
    http: HttpTable
    tools: dict[str, ToolTable]
    plans: dict[str, PlanTable]
    places: Places = field(repr=False, compare=False)

    def problem(self, path: KeyPath, message: str, nearest: str | None = None) -> Problem:
        """Something that is wrong at a key of this file, with its table and line."""
        return _problem(path, self.places, message, nearest)

    @property
    def ledger_path(self) -> Path:
        """The SQLite file: as the configuration names it, relative to itself, else the one in the data folder."""
        if self.ledger.url is None:
            return default_ledger_path(self.path)
        return self.path.parent / self.ledger.url.removeprefix(SQLITE)

    @property
    def python_path(self) -> tuple[Path, ...]:
        """The folders that tool modules are looked up in, absolute."""
        return tuple((self.path.parent / folder).resolve() for folder in self.python.path)


def find(start: Path) -> Path | None:
    """The `counterfoil.toml` of this folder, or of the nearest one above it."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / FILE_NAME).is_file():
            return candidate / FILE_NAME
    return None


def load(path: Path) -> Configuration:
    """Read and check a configuration.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong; every problem is named.
    """
    path = path.absolute()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(path, [Problem("", "", None, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [Problem("", "", line, "expected UTF-8 text")]) from None
    return parse(text, path)


def parse(text: str, path: Path) -> Configuration:
    """Check the text of a configuration that stands at `path`.

    Raises:
        ConfigError: as `load`.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, [_syntax_problem(str(error), text)]) from None
    except RecursionError:
        raise ConfigError(path, [Problem("", "", None, "values are nested too deeply to be read")]) from None
    places = Places.of(text.replace("\r\n", "\n"))
    known, later = take_out(raw)
    problems = [_problem(place, places, message_for(place)) for place in later]
    try:
        document = Document.model_validate(known)
    except ValidationError as error:
        problems += [_translated(details, places) for details in error.errors(include_url=False)]
    else:
        problems += _duplicate_ids(document, places)
        problems += _unheard_callbacks(document.server, places)
        if not problems:
            return Configuration(
                path, **{name: getattr(document, name) for name in Document.model_fields}, places=places
            )
    raise ConfigError(path, sorted(problems, key=lambda problem: problem.line or 0))


def _syntax_problem(message: str, text: str) -> Problem:
    found = _PARSER_PLACE.search(message)
    line = int(found.group(1)) if found and found.group(1) else text.count("\n") + 1
    return Problem("", "", line, f"not TOML: {_PARSER_PLACE.sub('', message)}")


def _problem(path: KeyPath, places: Places, message: str, nearest: str | None = None) -> Problem:
    return Problem(places.table(path), spell(path), places.line(path), message, nearest)


def _translated(details: ErrorDetails, places: Places) -> Problem:
    path = tuple(part for part in details["loc"] if part != "[key]")
    match details["type"]:
        case "extra_forbidden":
            return _problem(path, places, "unknown key", _nearest(path))
        case "missing":
            return _problem(path, places, "required, and absent")
        case _:
            message = _IN_TOML.get(details["type"]) or details["msg"].removeprefix("Value error, ")
            return _problem(path, places, message + _got(path, details["input"]), _nearest_word(details))


def _got(path: KeyPath, value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return ""
    if _SECRET_KEYS.intersection(path):
        return "; the value is not shown"
    return f"; got {str(value).lower() if isinstance(value, bool) else repr(value)[:60]}"


def _nearest(path: KeyPath) -> str | None:
    table = table_at(path[:-1])
    names = [key_of(name, field) for name, field in table.model_fields.items()] if table else []
    found = difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0.5)
    return found[0] if found else None


def _nearest_word(details: ErrorDetails) -> str | None:
    """Of a closed list of words, the one that was probably meant."""
    if details["type"] not in {"literal_error", "enum"}:
        return None
    words = _QUOTED.findall(details.get("ctx", {}).get("expected", ""))
    found = difflib.get_close_matches(str(details["input"]), words, n=1, cutoff=0.5)
    return found[0] if found else None


def _duplicate_ids(document: Document, places: Places) -> list[Problem]:
    seen: set[str] = set()
    problems: list[Problem] = []
    for index, rule in enumerate(document.policy):
        if rule.id in seen:
            problems.append(_problem(("policy", index, "id"), places, f"another rule has the id {rule.id!r}"))
        seen.add(rule.id)
    return problems


def _unheard_callbacks(server: ServerTable, places: Places) -> list[Problem]:
    """A public address whose Host would be turned away: every callback would come in vain, and nobody would say so."""
    scheme, _, rest = server.public_url.lower().partition("://")
    host = rest.partition("/")[0]
    sent = host.removesuffix(":443" if scheme == "https" else ":80")
    allowed = [name.lower() for name in server.allowed_hosts]
    served = {*allowed, *(f"{name}:{server.port}" for name in allowed)}
    if not host or re.sub(r":\d*$", "", host) in _LOOPBACK or sent in served:
        return []
    said = f"{sent} is not in server.allowed_hosts, so every callback would be answered with 421; name it there too"
    return [_problem(("server", "public_url"), places, said)]
