"""The cell magic `%%elf` of notebooks: a cell is a query over files, variables or a fleet.

`%load_ext elfmesh` registers it. The module imports nothing of IPython: the shell gives what it needs, and
shows the result by its `_repr_html_`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any, NoReturn, Protocol

from elfmesh.errors import ElfError, UsageError

USAGE = "%%elf [--format F] [--into NAME] [LOG...], or %%elf --api HOST:PORT [--into NAME]"


class Shell(Protocol):
    """What the magic needs of IPython's shell."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: Any, magic_kind: str = ..., magic_name: str | None = ...) -> None:
        """Make a function a magic."""
        ...


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, where="%%elf", hint=f"Write {USAGE}.")


def _options() -> _Options:
    options = _Options(prog="%%elf", add_help=False, allow_abbrev=False)
    options.add_argument("logs", nargs="*")
    options.add_argument("--format", default="auto")
    options.add_argument("--api", default="")
    options.add_argument("--into", default="")
    return options


def load_ipython_extension(shell: Shell) -> None:
    """Register `%%elf` in a shell; `%load_ext elfmesh` calls this."""

    def elf(line: str, cell: str) -> Any:
        """Evaluate a cell of ELF-QL."""
        try:
            return evaluate(shell.user_ns, line, cell)
        except ElfError as error:
            print(f"elf: {error}", file=sys.stderr)
            return None

    shell.register_magic_function(elf, "cell", "elf")


def evaluate(variables: dict[str, Any], line: str, cell: str) -> Any:
    """Return the result of a cell, or None if it is stored in a variable.

    Args:
        variables: those of the notebook. A word of the line that names one is its value, such as a data
            frame; other words are files.
        line: the words behind `%%elf`.
        cell: the query.

    Raises:
        ElfError: as `elfmesh.run` and `Client.query`; UsageError if the line is wrong.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be read: {error}", where="%%elf") from None
    given = _options().parse_args(words)
    if given.into and not given.into.isidentifier():
        raise UsageError(f"{given.into!r} is not a name of a variable", where="%%elf --into")
    found = _answer(variables, given, cell)
    if not given.into:
        return found
    variables[given.into] = found
    return None


def _answer(variables: dict[str, Any], given: argparse.Namespace, cell: str) -> Any:
    from elfmesh.api.client.client import connect
    from elfmesh.local.python_run import run

    if given.api:
        if given.logs or given.format != "auto":
            raise UsageError("--api excludes logs and --format", where="%%elf", hint=f"Write {USAGE}.")
        return connect(given.api).query(cell)
    if not given.logs:
        raise UsageError("there is no log to read", where="%%elf", hint=f"Write {USAGE}.")
    inputs = [variables.get(word, word) for word in given.logs]
    return run(cell, inputs[0] if len(inputs) == 1 else inputs, given.format)
