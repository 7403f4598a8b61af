"""What several commands of the command line share: options, tables, errors with a caret.

Owns how things look on a terminal. Text that came from logs or other people goes through `printable`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from elfmesh.api.identity import credentials
from elfmesh.api.identity.credentials import VARIABLES
from elfmesh.control.jobs.signing import Envelope, decode_envelope
from elfmesh.errors import DataError, QueryError
from elfmesh.local.text_input import read_text
from elfmesh.text import CSV_END, printable

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("table", "json", "csv")


def api_option(command: Command) -> Command:
    """--api HOST:PORT, or ELF_API; and what is shown to the agent there, see `identity/credentials.py`."""
    for name, text in (
        (
            "token_file",
            ("File that contains the agent's token. [default: the token of your own local agent]"),
        ),
        ("ca", "Certificate of the authority that must have issued the agent's certificate."),
        ("key", "Private key of the client certificate."),
        ("cert", "Your client certificate."),
    ):
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            envvar=VARIABLES[name],
            metavar="FILE",
            expose_value=False,
            callback=_chosen,
            help=text,
        )(command)
    return click.option(
        "--api",
        envvar="ELF_API",
        metavar="HOST:PORT",
        help="API address of an agent. [default: 127.0.0.1:7401]",
    )(command)


def _chosen(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value and parameter.name:
        credentials.choose(replace(credentials.chosen, **{parameter.name: value}))
        context.call_on_close(lambda: credentials.choose(credentials.Credentials()))


COMPLETION_S = 1.0
"""How long a shell waits for names: a user who presses Tab does not wait for an agent that hangs."""


def complete_jobs(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Names of the overlay's jobs that begin so, as `ns/name` or, where a dot was typed, `ns.name`.

    Nothing where no agent answers soon: a shell has no place for errors.
    """
    from elfmesh.api.client.client import Client
    from elfmesh.errors import ElfError

    try:
        jobs = Client(context.params.get("api"), timeout_s=COMPLETION_S).get("jobs")
    except ElfError:
        return []
    names = [str(row["job"]) for row in jobs]
    dotted = [name.replace("/", ".") for name in names]
    return [name for name in (dotted if "." in begun else names) if name.startswith(begun)]


def job_argument(command: Command) -> Command:
    """JOB, completed by the shell."""
    return click.argument("job", shell_complete=complete_jobs)(command)


def output_option(command: Command) -> Command:
    """-o table|json|csv."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )(command)


def file_option(command: Command) -> Command:
    """-f FILE, - for stdin."""
    return click.option(
        "-f", "--file", "path", metavar="FILE", required=True, help="ELF-QL file; - reads standard input."
    )(command)


def signature_option(command: Command) -> Command:
    """--signature FILE."""
    return click.option(
        "--signature", metavar="FILE", help="File that `elf sign` wrote. [default: FILE.sig, if it exists]"
    )(command)


def creator_option(command: Command) -> Command:
    """--creator NAME."""
    return click.option("--creator", metavar="NAME", help="Owner of the job. [default: local]")(command)


def read_signatures(path: str, given: str | None) -> dict[str, str]:
    """The envelopes beside a file of jobs, as they travel, by the SHA-256 of the texts they are about.

    Raises:
        RuntimeFailure: the file that was named cannot be read.
        DataError: it is no file of signatures.
    """
    beside = given or f"{path}.sig"
    if given is None and (path == "-" or not Path(beside).exists()):
        return {}
    return {envelope.reported.sha256: envelope.encode().decode() for envelope in read_envelopes(beside)}


def read_envelopes(path: str) -> list[Envelope]:
    """The envelopes of a signature file, one a line; all have a payload that can be read.

    Raises:
        RuntimeFailure: it cannot be read.
        DataError: it is no file of signatures.
    """
    text, source = read_text(path)
    try:
        found = [decode_envelope(line.encode()) for line in text.splitlines() if line.strip()]
        return [each for each in found if each.reported]
    except DataError as error:
        raise DataError(error.message, where=source) from None


def with_caret(error: QueryError, text: str) -> QueryError:
    """The error with the line it is about, and a caret under the place."""
    lines = text.splitlines()
    if not 0 < error.line <= len(lines):
        return error
    line = lines[error.line - 1]
    column = max(error.column, 1)
    shown = printable(line[: column - 1])
    pointer = " " * len(shown) + "^"
    message = f"{error.message}\n  {shown}{printable(line[column - 1 :])}\n  {pointer}"
    return QueryError(message, line=error.line, column=error.column, hint=error.hint, source=error.source)


def within(error: QueryError, text: str, part: str, source: str) -> QueryError:
    """An error about a statement as one about the file that it stands in, with the line and a caret.

    Args:
        error: its line and column count from the begin of the statement.
        text: of the file.
        part: of the statement.
        source: what the file is called.
    """
    before = text[: max(text.find(part), 0)]
    line, column = error.line, error.column
    if line == 1:
        column += len(before) - (before.rfind("\n") + 1)
    line += before.count("\n") if line else 0
    placed = QueryError(error.message, line=line, column=column, hint=error.hint, source=source)
    return with_caret(placed, text)


def text_of(value: Any) -> str:
    """A value as a cell: safe to print, lists and objects in short."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(text_of(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(key))}={text_of(item) or '-'}" for key, item in value.items())
    return printable(str(value))


NAME_COLUMNS = 40
"""The first column of a table has at least so much of what it needs."""

PIPE_COLUMNS = 10_000
"""No line is folded where a program reads it."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """An aligned table; as wide as it needs to be without a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numbers = bool(rows) and all(
            isinstance(row[place], int | float) and not isinstance(row[place], bool)
            for row in rows
            if row[place] is not None
        )
        side: Literal["left", "right"] = "right" if numbers else "left"
        table.add_column(Text(printable(column)), justify=side, overflow="fold", min_width=len(column))
    for row in rows:
        table.add_row(*(Text(text_of(value)) for value in row))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    if columns:  # what a row is called is not folded, nor a heading, where there is room for them
        widest = max((len(text_of(row[0])) for row in rows), default=0)
        table.columns[0].min_width = max(min(widest, NAME_COLUMNS), len(columns[0]))
    if sum((each.min_width or 0) + 2 for each in table.columns) > console.width:
        for each in table.columns:
            each.min_width = None
    console.print(table)


def print_json(value: Any) -> None:
    """One object, one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def csv_line(values: Sequence[Any]) -> str:
    """One line of csv: null is empty, lists and objects are JSON."""
    out = io.StringIO()
    plain = [
        "" if value is None else json.dumps(value) if isinstance(value, list | dict | bool) else value
        for value in values
    ]
    csv.writer(out, lineterminator=CSV_END).writerow(plain)
    return out.getvalue().removesuffix(CSV_END)


def print_rows(
    output: str, columns: Sequence[str], rows: Sequence[dict[str, Any]], *, header: bool = True
) -> None:
    """Objects in the wanted format; tables and csv show `columns` only."""
    if output == "json":
        for row in rows:
            print_json(row)
        return
    cells = [[row.get(column) for column in columns] for row in rows]
    if output == "table":
        print_table([column.upper() for column in columns], cells)
        return
    if header:
        click.echo(csv_line(columns))
    for line in cells:
        click.echo(csv_line(line))


def end_with_reader() -> None:
    """End as Ctrl-C does once no process reads a pipe that this process writes to.

    For what waits long between two lines: a write would tell, but `elf results --follow | head` has none.
    """
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError):  # closed, or an object in its place
        return
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        return
    waiting, main, ending = select.poll(), threading.main_thread(), signal.SIGINT
    waiting.register(output, 0)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's script starts what ends with `&`
        ending = signal.SIGUSR1
        signal.signal(ending, signal.default_int_handler)

    def watch() -> None:
        waiting.poll()
        if main.is_alive() and main.ident is not None:
            signal.pthread_kill(main.ident, ending)

    threading.Thread(target=watch, name="reader", daemon=True).start()


def say(text: str) -> None:
    """A message for people: on stderr, never between data."""
    click.echo(printable(text), err=True)
