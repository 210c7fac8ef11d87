"""`runs graph` and `plan --graph`: a chain as a picture, on stdout or in a file; nothing of it is run or changed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from ...canonical import JsonValue
from ...visible import visible
from .answer import View, exit_of_plan, part, parts
from .doors import with_app
from .exits import CommandError, Exit, usage
from .invocation import Invocation
from .ports import App
from .screen import Screen

if TYPE_CHECKING:
    from ..graph import Graph

RUN: Final = "run_"


class Format(StrEnum):
    """What a picture is written in."""

    MERMAID = "mermaid"
    SVG = "svg"


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a picture is wanted, and into which file; None for stdout."""

    format: Format = Format.MERMAID
    output: Path | None = None

    def check(self) -> None:
        """Refuse a place that no file can be written to, before anything is read.

        Raises:
            CommandError: its folder is not there, or it is a folder itself.
        """
        if self.output is not None and (self.output.is_dir() or not self.output.absolute().parent.is_dir()):
            raise usage(f"--output {self.output}: expected a file in a folder that is there")

    def write(self, screen: Screen, graph: Graph) -> None:
        """The picture; with `--json` its nodes and edges on stdout, and the picture in the file if one is named."""
        from ..graph import mermaid, svg  # noqa: PLC0415 (only where something is drawn)

        text = svg(graph) if self.format is Format.SVG else mermaid(graph)
        if self.output is not None:
            _write(self.output, text)
            screen.answer(graph.wire(), Text(f"Written: {visible(str(self.output))}"))
        elif screen.json:
            screen.answer(graph.wire(), "")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise usage(f"--output {path}: {error.strerror or error}") from error


def draw_run(invocation: Invocation, run_id: str, drawing: Drawing) -> int:
    """Draw how a run stands."""
    drawing.check()
    if not run_id.startswith(RUN):
        raise usage(f"expected a run, such as run_..., got {visible(run_id[:80])}; a plan is drawn by: plan --graph")

    async def use(app: App) -> Graph:
        view, graph = await app.graph(run_id)
        if graph is None:
            error = part(view.wire(), "error")
            code, message = str(error.get("code", "internal")), str(error.get("message", "its plan cannot be read"))
            raise CommandError(Exit.NO, code, message, error.get("details"))
        return graph

    drawing.write(Screen.of(invocation), with_app(invocation, use))
    return Exit.DONE


def draw_plan(invocation: Invocation, view: View, document: JsonValue, drawing: Drawing) -> int:
    """Draw a plan that was checked and is right, from the answer of `plan`."""
    from ..graph import Facts, graph_of  # noqa: PLC0415 (as above)

    facts = {
        str(step["id"]): Facts(step.get("effect"), step.get("approval"), step.get("version"))
        for step in parts(view, "steps")
    }
    graph = graph_of(document, facts, name=str(view.get("plan_id")))
    drawing.write(Screen.of(invocation), graph)
    return exit_of_plan(view)
