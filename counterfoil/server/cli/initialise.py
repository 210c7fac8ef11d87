"""`init`: writes a commented configuration here, asks only a person, and says what to do next."""

from __future__ import annotations

import getpass
import json
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from rich.console import Group
from rich.text import Text

from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .screen import Screen

CONFIGURATION: Final = "counterfoil.toml"
EXAMPLE: Final = "example_tools"
_STARTER: Final = "counterfoil.server.cli.starter"
_NOTHING: Final = "nothing was written"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the file says of its owner."""

    name: str
    subject: str
    modules: tuple[str, ...] = ()


def init(invocation: Invocation, *, example: bool, force: bool) -> int:
    """Write the files; nothing is written if one of them is there and `force` was not given."""
    screen = Screen.of(invocation)
    target = invocation.config or Path(CONFIGURATION)
    module_file = target.parent / f"{EXAMPLE}.py"
    _refuse_to_overwrite([target, *([module_file] if example else [])], force=force)
    answers = (
        _asked(screen, target.parent, example=example)
        if screen.has_person() and not invocation.json
        else _assumed(example=example)
    )
    written = {target: configuration_text(answers, example=example)}
    if example:
        written[module_file] = _starter(f"{EXAMPLE}.py")
    for path, text in written.items():
        _write(path, text)
    command = stdio_command(target)
    screen.answer(
        {"ok": True, "written": [str(path) for path in written], "stdio": command},
        _next_steps(list(written), example=example),
        json.dumps({"mcpServers": {"counterfoil": command}}, indent=2).splitlines(),
    )
    return Exit.DONE


def configuration_text(answers: Answers, *, example: bool) -> str:
    """The commented file for these answers."""
    policy = _starter("policy_example.toml" if example else "policy.toml")
    return Template(_starter(CONFIGURATION)).substitute(
        name=toml_string(answers.name),
        subject=toml_string(answers.subject),
        modules=f"[{', '.join(toml_string(module) for module in answers.modules)}]",
        policy=policy.rstrip("\n") + "\n",
    )


def toml_string(value: str) -> str:
    """A basic string of TOML: JSON's, with DEL escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def stdio_command(target: Path) -> dict[str, object]:
    """What an MCP client must start, in the form that most clients' settings take."""
    return {"command": sys.executable, "args": ["-m", "counterfoil", "serve", "--config", str(target.resolve())]}


def _starter(name: str) -> str:
    return files(_STARTER).joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise usage(f"cannot write {path} here: {error.strerror or error}") from error


def _refuse_to_overwrite(paths: list[Path], *, force: bool) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise CommandError(
            Exit.NO,
            "exists",
            f"{' and '.join(there)} exists already and was left alone; --force writes over it",
            {"paths": there},
        )


def _assumed(*, example: bool) -> Answers:
    return Answers("counterfoil", getpass.getuser(), (EXAMPLE,) if example else ())


def _asked(screen: Screen, folder: Path, *, example: bool) -> Answers:
    assumed = _assumed(example=example)
    name = screen.ask(f"A name for this server [{assumed.name}]: ", otherwise=_NOTHING) or assumed.name
    subject = screen.ask(f"Who are you to it [{assumed.subject}]: ", otherwise=_NOTHING) or assumed.subject
    if example:
        return Answers(name, subject, assumed.modules)
    module = screen.ask("A Python module with your tools, if there is one here [none]: ", otherwise=_NOTHING)
    if module and not _is_there(folder, module):
        screen.say(f"There is no module {module} here yet: add it to [python] modules once it is.")
        module = ""
    return Answers(name, subject, (module,) if module else ())


def _is_there(folder: Path, module: str) -> bool:
    base = folder.joinpath(*module.split("."))
    return base.with_suffix(".py").is_file() or base.is_dir()


def _next_steps(written: list[Path], *, example: bool) -> Group:
    call = """counterfoil call shop_order '{"order_id": "ord_1"}'""" if example else "counterfoil tools list"
    return Group(
        Text(f"Wrote {' and '.join(map(str, written))}. Next:"),
        Text("  counterfoil check", style="bold"),
        Text(f"  {call}", style="bold"),
        Text("\nFor an MCP client (stdio):"),
    )
