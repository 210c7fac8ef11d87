"""A configuration read again, while another one is in force: checked whole, and what would change, as a value.

Nothing here changes anything. Modules of Python are not imported again: what they registered counts as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..registry.catalogue import Catalogue, Entry
from ..registry.named_plans import NamedPlan
from ..registry.policy import Policy
from ..tools.http.hosts import Hosts
from ..tools.http.outbound import Outbound
from ..tools.http.probe import HttpProbeAdapter
from ..tools.http.tool import HttpAdapter
from .app import policy_of
from .config import ConfigError, Configuration, Problem, load
from .config.errors import KeyPath
from .config.table import Table
from .config.tables import LedgerTable, PythonTable
from .http_tools import register_http_tools, unfitting, usable_hosts
from .stored_plans import read_plans

STAYS: Final = {
    "server": ("name", "transport", "host", "port", "allowed_hosts", "visibility", "wait_s", "grace_s", "show_locked"),
    "ledger": tuple(LedgerTable.model_fields),
    "approvals": ("keys",),
    "limits": ("argument_bytes", "argument_depth", "output_model_bytes", "blocking_threads"),
    "python": tuple(PythonTable.model_fields),
}
"""What is in force until the end of the process."""
_NEEDS: Final = "a change of this needs a restart; what it was at the start stays in force"


@dataclass(frozen=True, slots=True)
class Reread:
    """What is to be in force; `restart` are the keys that differ in vain. A changed tool is both gone and come."""

    config: Configuration
    policy: Policy
    hosts: Hosts
    gone: frozenset[str]
    come: tuple[Entry, ...]
    plans: tuple[NamedPlan, ...]
    restart: tuple[Problem, ...]


def reread(old: Configuration, entries: Sequence[Entry], outbound: Outbound) -> Reread:
    """Read the file of `old` again; `entries` are the tools that there are now, in their order.

    Raises:
        ConfigError: it cannot be read, or anything in it is wrong.
    """
    stated = load(old.path)
    config, differing = _kept(old, stated)
    names, problems = usable_hosts(config)
    hosts, catalogue = Hosts(names), Catalogue()
    for entry in entries:
        if not _is_described(entry):
            catalogue.register(entry.contract, entry.adapter)
    problems += register_http_tools(config, catalogue, outbound, hosts)
    problems += unfitting(config, catalogue)
    problems += [config.problem(("python", "modules"), text) for text in catalogue.check(config.tools)]
    try:
        policy = policy_of(config)
    except ConfigError as error:
        raise ConfigError(config.path, _sorted([*problems, *error.problems])) from None
    plans, wrong = read_plans(config, catalogue) if not problems else ([], [])
    if problems or wrong:
        raise ConfigError(config.path, _sorted([*problems, *wrong]))
    gone, come = _difference(entries, catalogue.entries())
    return Reread(
        config, policy, hosts, gone, come, tuple(plans), tuple(stated.problem(key, _NEEDS) for key in differing)
    )


def _sorted(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line or 0)


def _is_described(entry: Entry) -> bool:
    return isinstance(entry.adapter, HttpAdapter | HttpProbeAdapter)


def _difference(before: Sequence[Entry], after: Sequence[Entry]) -> tuple[frozenset[str], tuple[Entry, ...]]:
    """The described tools that go, by name, and those that come. A contract that stays the same stays one object."""
    old = {entry.contract.name: entry for entry in before if _is_described(entry)}
    new = {entry.contract.name: entry for entry in after if _is_described(entry)}
    changed = [name for name, entry in new.items() if name not in old or not _are_same(old[name], entry)]
    gone = frozenset(name for name in old if name not in new).union(name for name in changed if name in old)
    return gone, tuple(_with_old_contract(old.get(name), new[name]) for name in changed)


def _are_same(one: Entry, other: Entry) -> bool:
    if not isinstance(one.adapter, HttpAdapter | HttpProbeAdapter):
        return False
    if not isinstance(other.adapter, HttpAdapter | HttpProbeAdapter):
        return False
    hands, others = one.adapter, other.adapter
    return one.contract == other.contract and (hands.spec, hands.family) == (others.spec, others.family)


def _with_old_contract(old: Entry | None, new: Entry) -> Entry:
    return new if old is None or old.contract != new.contract else Entry(old.contract, new.adapter)


def _kept(old: Configuration, stated: Configuration) -> tuple[Configuration, list[KeyPath]]:
    """The new configuration with everything as it was that cannot change, and the keys of what differs there."""
    keys: list[KeyPath] = []
    tables: dict[str, Any] = {}
    for name, fields in STAYS.items():
        tables[name], differing = _as_it_was(getattr(old, name), getattr(stated, name), fields)
        keys += [(name, field) for field in differing]
    local, differing = _as_it_was(old.principals.local, stated.principals.local, ("subject", "tenant"))
    keys += [("principals", "local", field) for field in differing]
    tables["principals"] = stated.principals.model_copy(update={"local": local})
    if old.auth.mode != stated.auth.mode:
        keys.append(("auth", "mode"))
        tables["auth"] = old.auth
    return replace(stated, **tables), keys


def _as_it_was(was: Table, now: Table, fields: Sequence[str]) -> tuple[Table, list[str]]:
    differing = [field for field in fields if getattr(was, field) != getattr(now, field)]
    return now.model_copy(update={field: getattr(was, field) for field in differing}), differing
