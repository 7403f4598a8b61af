"""The state of `elf sql`, and its commands. Statements are run by the tables, which are files or a fleet.

An error is printed as other commands print it, and the shell continues with the next input. Ctrl-C ends the
running statement; in a script it ends the script. The exit code is that of the first error of a script.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import click

from elfmesh.cli import entry
from elfmesh.cli.common import PARQUET, ROWS_OUTPUT, placed, print_rows, say
from elfmesh.cli.sql.statements import ShellInput, all_inputs, split
from elfmesh.errors import ElfError, QueryError, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.text import nearest

READS_MAX = 16
"""Maximum depth of files that read files, because a file may read itself."""

COMMANDS = {
    ".tables": ("", "List the streams and jobs."),
    ".schema": ("[NAME]", "List the columns of a stream or job, or of all."),
    ".mode": ("[FORMAT]", "Show or set the output format, as -o; .mode parquet FILE writes to a file."),
    ".read": ("FILE", "Run the statements and commands of a file."),
    ".timing": ("[on|off]", "Print how long each statement takes."),
    ".history": ("[DURATION]", "With --api: show or set how far back streams are read."),
    ".help": ("", "List these commands."),
    ".quit": ("", "Leave the shell, as Ctrl-D does."),
}
"""Arguments and meaning of each command."""


class ShellTables(Protocol):
    """Interface of what statements read."""

    def run(self, text: str, source: str, output: str, output_file: Path | None) -> None:
        """Run a statement and print its rows, or write them to a Parquet file."""
        ...

    def listing(self) -> list[dict[str, Any]]:
        """Return name, kind and description of each table."""
        ...

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Return name and type of each column of a table."""
        ...

    def history(self, duration: str) -> str:
        """Set how far back streams are read, unless `duration` is empty, and return it."""
        ...


class SqlShell:
    """One session.

    Attributes:
        exit_code: that of the first error, 0 without one.
        ended: `.quit` was read.
    """

    def __init__(
        self, tables: ShellTables, output: str, output_file: Path | None = None, *, interactive: bool = False
    ) -> None:
        self.tables = tables
        self.exit_code, self.ended = 0, False
        self._output, self._output_file = output, output_file
        self._interactive, self._timing, self._reads = interactive, False, 0

    def script(self, lines: Iterable[str], source: str) -> None:
        """Take all inputs of a script, each as soon as its last line is there."""
        text, done = "", 0
        for line in lines:
            text += line
            if ";" in line or line.lstrip().startswith("."):
                found, done = split(text, done)
                self._take_all(found, text, source)
            if self.ended:
                return
        self._take_all(all_inputs(text, done), text, source)

    def typed(self, text: str) -> None:
        """Take what a user has typed. Its places in errors are those of a query."""
        self._take_all(all_inputs(text), text, "query")

    def _take_all(self, found: Sequence[ShellInput], text: str, source: str) -> None:
        for each in found:
            if not self.ended:
                self._take(each, text, source)

    def _take(self, each: ShellInput, text: str, source: str) -> None:
        began, timed = time.monotonic(), self._timing and not each.is_command
        try:
            if each.is_command:
                self._command(each.text)
            else:
                self._run(each, text, source)
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            say("interrupted")
        except BrokenPipeError:
            raise
        except Exception as error:
            code = entry.report(error)
            self.exit_code = self.exit_code or code
        if timed:
            say(f"{time.monotonic() - began:.3f} s")

    def _run(self, each: ShellInput, text: str, source: str) -> None:
        try:
            self.tables.run(each.text, source, self._output, self._output_file)
        except QueryError as error:
            raise placed(error, text, each.at, source) from None

    # -- commands

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        argument = rest.strip().removesuffix(";").rstrip()
        name = name.removesuffix(";")
        if name not in COMMANDS:
            near = nearest(name, COMMANDS)
            hint = f"Did you mean {near}?" if near else "`.help` lists the commands."
            raise UsageError(f"there is no command {name}", hint=hint)
        if argument and not COMMANDS[name][0]:
            raise UsageError(f"{name} takes no argument")
        getattr(self, f"_do_{name[1:]}")(argument)

    def _do_tables(self, _: str) -> None:
        self._print(("name", "kind", "about"), self.tables.listing())

    def _do_schema(self, name: str) -> None:
        if name:
            rows = [{"column": column, "type": kind} for column, kind in self.tables.columns(name)]
            self._print(("column", "type"), rows)
            return
        rows = []
        for table in self.tables.listing():
            if table["kind"] == "lookup":
                continue
            try:
                columns = self.tables.columns(table["name"])
            except ElfError as error:
                say(f"{table['name']}: {error.message}")
                continue
            rows += [{"table": table["name"], "column": column, "type": kind} for column, kind in columns]
        self._print(("table", "column", "type"), rows)

    def _print(self, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
        print_rows("table" if self._output == PARQUET else self._output, columns, rows)

    def _do_mode(self, argument: str) -> None:
        output, _, file = argument.partition(" ")
        if not output:
            click.echo(" ".join([self._output, *map(str, [self._output_file] if self._output_file else [])]))
            return
        if output not in ROWS_OUTPUT:
            near = nearest(output, ROWS_OUTPUT)
            hint = f"Did you mean {near}?" if near else f"The formats are {', '.join(ROWS_OUTPUT)}."
            raise UsageError(f".mode: there is no format {output}", hint=hint)
        if bool(file) != (output == PARQUET):
            raise UsageError(
                ".mode: parquet takes a file, and no other format does", hint=".mode parquet FILE"
            )
        self._output, self._output_file = output, Path(file.strip()) if file else None

    def _do_read(self, path: str) -> None:
        if not path:
            raise UsageError(".read takes a file")
        if self._reads == READS_MAX:
            raise UsageError(f".read: {path}: more than {READS_MAX} files read each other")
        self._reads += 1
        try:
            self.script([read_text(path)[0]], path)
        finally:
            self._reads -= 1

    def _do_timing(self, argument: str) -> None:
        if argument not in ("", "on", "off"):
            raise UsageError(".timing takes on or off")
        self._timing = not self._timing if not argument else argument == "on"
        say(f"timing is {'on' if self._timing else 'off'}")

    def _do_history(self, argument: str) -> None:
        history = self.tables.history(argument.strip("'"))
        say(f"streams are read from {history} ago until now")

    def _do_help(self, _: str) -> None:
        for name, (arguments, meaning) in COMMANDS.items():
            click.echo(f"{f'{name} {arguments}':<20} {meaning}")
        click.echo("A statement ends with a semicolon and may have several lines.")

    def _do_quit(self, _: str) -> None:
        self.ended = True
