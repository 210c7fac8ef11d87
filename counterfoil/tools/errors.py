"""What can go wrong between the runtime and a function: one small tree, no behaviour.

ToolDefinitionError   a function cannot become a tool; raised while it is decorated
HandlerError          a handler broke its side of the bargain while it ran
 +- HandlerExitError    it asked the whole process to end
 +- HandlerResultError  it returned something that its kind may not return
NeverStartedError     a blocking function was cancelled before a thread took it
ChangedArgumentsError a validator changed what was asked for, so the function was not called
"""


class ToolDefinitionError(TypeError):
    """A function that cannot be a tool. The message names the function, the parameter or field, and what to write."""


class HandlerError(RuntimeError):
    """A handler ran and did what no handler may do. Whether its effect happened is not known."""


class HandlerExitError(HandlerError):
    """The handler raised SystemExit, KeyboardInterrupt or the like: an error of its call, never the server's end."""


class HandlerResultError(HandlerError):
    """A probe returned something that is no `Probe`."""


class NeverStartedError(Exception):
    """The wait for a worker thread was cancelled before one took the work, so the work has not run and never will."""


class ChangedArgumentsError(Exception):
    """The tool's validators changed these arguments (JSON Pointers): it would do something else than was asked."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(f"a validator changed {', '.join(paths)}")
        self.paths = paths
