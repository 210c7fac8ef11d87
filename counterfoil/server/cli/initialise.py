"""`init`: writes a commented configuration here, asks only a person, and says what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from rich.text import Text

from .clients import Transport, toml_string
from .examination import chosen_clients, lines_of, setups, target_of
from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .questions import EXAMPLE, NOBODY, Answers, Source, asked, assumed
from .screen import Screen

CONFIGURATION: Final = "counterfoil.toml"
_STARTER: Final = "counterfoil.server.cli.starter"


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `init`; without `client` a person is asked, and everybody else is shown all."""

    example: bool = False
    force: bool = False
    client: str | None = None


def init(invocation: Invocation, wish: Wish) -> int:
    """Write the files; nothing is written if one of them is there and `force` was not given."""
    if wish.client is not None:
        chosen_clients(wish.client)
    screen = Screen.of(invocation)
    target = invocation.config or Path(CONFIGURATION)
    answers = assumed(example=wish.example, client=wish.client)
    _refuse_to_overwrite(_paths(target, answers), force=wish.force)
    if screen.has_person() and not invocation.json:
        answers = asked(screen, target.parent, answers, client=wish.client)
        _refuse_to_overwrite(_paths(target, answers), force=wish.force)
    texts = (configuration_text(answers), _starter(f"{EXAMPLE}.py"))
    for path, text in zip(_paths(target, answers), texts, strict=False):
        _write(path, text)
    _tell(screen, target, answers)
    return Exit.DONE


def configuration_text(answers: Answers) -> str:
    """The commented file for these answers."""
    policy = _starter("policy_example.toml" if answers.source is Source.EXAMPLE else "policy.toml")
    return Template(_starter(CONFIGURATION)).substitute(
        name=toml_string(answers.name),
        subject=toml_string(answers.subject),
        modules=f"[{', '.join(toml_string(module) for module in answers.modules)}]",
        host=toml_string(answers.host),
        url=toml_string(f"{answers.base}/orders/{{order_id}}"),
        write=toml_string(answers.write),
        destructive=toml_string(answers.destructive),
        policy=policy.rstrip("\n") + "\n",
    )


def _paths(target: Path, answers: Answers) -> list[Path]:
    """What is written: the configuration, and beside it the example's tools."""
    return [target, *([target.parent / f"{EXAMPLE}.py"] if answers.source is Source.EXAMPLE else [])]


def _starter(name: str) -> str:
    return files(_STARTER).joinpath(name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    """In full beside the old file, and only then in its place: a full disk costs nobody what was there."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
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


def _tell(screen: Screen, target: Path, answers: Answers) -> None:
    server = target_of(target, answers.name)
    chosen = () if answers.client == NOBODY else chosen_clients(answers.client)
    found = setups(server, target, chosen, Transport.STDIO)
    written = [str(path) for path in _paths(target, answers)]
    answer = {"ok": True, "written": written, "stdio": server.stdio, "clients": [asdict(one) for one in found]}
    texts = [line for one in found for line in lines_of(one)]
    screen.answer(answer, Text(_written(written, clients=bool(texts))), [*texts, *_next_steps(answers.source)])


def _written(written: list[str], *, clients: bool) -> str:
    below = "\n\nFor a client, to be put in beside what is there (traps: counterfoil doctor --client NAME):\n"
    return f"Wrote {' and '.join(written)}.{below if clients else ''}"


def _next_steps(source: Source) -> list[str]:
    """What to type next; it comes last, where the eyes are after a screenful of clients."""
    call = (
        """counterfoil call shop_order '{"order_id": "ord_1"}'"""
        if source is Source.EXAMPLE
        else "counterfoil tools list"
    )
    by_hand = ["  (first take the comment signs from the HTTP tool in it)"] if source is Source.HTTP else []
    return ["Next:", *by_hand, "  counterfoil check", f"  {call}", "  counterfoil doctor"]
