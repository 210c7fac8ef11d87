"""Writes the pages of docs/reference that are made from the code: states, error codes, promises, configuration.

Run from the root as `python -m scripts.generate_docs`; `--check` writes nothing and fails if a page is out of date.
Nothing here knows a rule of the product: it only shows what the tables say.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from counterfoil.ledger.states import ENDED, MOVES, UNRESOLVED, CallState
from counterfoil.registry.vocabulary import REFUSALS, ErrorCode

from . import promises as manifest

ROOT = Path(__file__).resolve().parents[1]
NOTICE = "<!-- Made by `make docs` from {source}; edits here are lost. -->\n"
CONFIG = "counterfoil.server.config"


def main() -> int:
    """Write or check every page; 1 if a checked one is out of date."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = arguments.parse_args().check
    stale = {path: text for path, text in pages().items() if not path.is_file() or path.read_text() != text}
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)}: {'out of date, run `make docs`' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if check and stale else 0


def pages() -> dict[Path, str]:
    """Every generated page and what it should say."""
    reference = ROOT / "docs" / "reference"
    found = {
        reference / "states.md": states(),
        reference / "error-codes.md": error_codes(),
        reference / "promises.md": promises(),
    }
    settings = configuration()
    if settings is not None:
        found[reference / "configuration.md"] = settings
    return found


def states() -> str:
    """The state machine of a call as a diagram and a table."""
    lines = [
        "# The states of a call",
        "",
        NOTICE.format(source="the table in `counterfoil/ledger/states.py`"),
        "A call moves only along these arrows; anything else is a fault of ours and says so loudly.",
        "A call without a row yet is shown as the black dot.",
        "",
        "```mermaid",
        "stateDiagram-v2",
    ]
    for (state, move), after in MOVES.items():
        lines.append(f"    {_node(state)} --> {after}: {move}")
    lines += ["```", "", "| from | what happens | to |", "|---|---|---|"]
    lines += [f"| `{state}` | `{move}` | `{after}` |" for (state, move), after in MOVES.items()]
    ended, unresolved = (", ".join(f"`{state}`" for state in sorted(group)) for group in (ENDED, UNRESOLVED))
    lines += ["", f"Ended: {ended}.", f"Unresolved, that is sent and not known: {unresolved}.", ""]
    return "\n".join(lines)


def _node(state: CallState) -> str:
    return "[*]" if state is CallState.NEW else str(state)


def error_codes() -> str:
    """Every code, and what it says of a call that was never sent."""
    lines = [
        "# Error codes",
        "",
        NOTICE.format(source="`counterfoil/registry/vocabulary.py`"),
        "These say that a call was **not** sent (`sent: no`), with the outcome and whether asking again can help.",
        "",
        "| code | outcome | retryable |",
        "|---|---|---|",
    ]
    lines += [f"| `{code}` | `{REFUSALS[code].outcome}` | {_yes(REFUSALS[code].retryable)} |" for code in REFUSALS]
    others = ", ".join(f"`{code}`" for code in ErrorCode if code not in REFUSALS or code is ErrorCode.AMBIGUOUS)
    lines += [
        "",
        "`ambiguous` in this table is a refusal because of another call, named in `details.call_id`.",
        "",
        "`invalid_arguments` has in `details.problems` one object for each thing to change, always with these four",
        "members: `path` (a JSON Pointer into the arguments; `/if_version` and `/_meta/...` stand beside them),",
        "`expected`, `got` and `nearest` (the name that was probably meant, else null). No secret value is shown. What",
        "a tool's own check or its request's template refuses is told in the same form, before policy and approval.",
        "",
        f"Codes of calls that were sent, or are being sent: {others}.",
        "",
    ]
    return "\n".join(lines)


def _yes(value: bool) -> str:  # noqa: FBT001 (a value to show, not a switch)
    return "yes" if value else "no"


def promises() -> str:
    """Each promise with the tests that keep it."""
    kept = manifest.marked()
    lines = [
        "# Promises",
        "",
        NOTICE.format(source="`tests/promises/manifest.toml` and the tests that name its ids"),
        "Each of these is kept by the tests beneath it.",
        "",
    ]
    for promise in manifest.load():
        lines += [f"## {promise.id}", "", promise.says, ""]
        lines += [f"- `{mark.test}`" for mark in kept if mark.promise == promise.id]
        lines.append("")
    return "\n".join(lines)


def configuration() -> str | None:
    """The page of every configuration key, where `counterfoil.server.config` offers its `reference()`."""
    if importlib.util.find_spec(CONFIG) is None:
        return None
    module: Any = importlib.import_module(CONFIG)
    if not hasattr(module, "reference"):
        return None
    lines = [
        "# Configuration",
        "",
        NOTICE.format(source="the tables of `counterfoil/server/config`"),
        "Every key of `counterfoil.toml`. `[]` stands for each entry of a list, `NAME` for a name of yours.",
        "Unknown keys and bad values stop the start, with the line and the nearest valid name.",
        "",
        "`SIGHUP` has a server read the file again: see [how to serve over HTTP](../how-to/serve-over-http.md).",
        f"A change of these needs a restart: {_stays()}.",
        "",
        "| key | takes | default | meaning |",
        "|---|---|---|---|",
    ]
    for key in module.reference():
        default = "required" if key.default is None else f"`{key.default}`" if key.default else ""
        lines.append(f"| `{key.path}` | {_cell(key.type)} | {_cell(default)} | {_cell(key.description)} |")
    return "\n".join([*lines, ""])


def _stays() -> str:
    """The keys that a running server never takes up."""
    stays: Any = importlib.import_module(f"{CONFIG.rpartition('.')[0]}.rereading").STAYS
    keys = [f"`{table}.{field}`" for table, fields in stays.items() for field in fields]
    return ", ".join([*keys, "`auth.mode`", "`principals.local.subject`", "`principals.local.tenant`"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
