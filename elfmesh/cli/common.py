"""Options and output functions that several commands share.

The module owns the appearance of tables, CSV and errors on a terminal. Text from logs or from other users
passes through `printable`.
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
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from elfmesh.errors import DataError, QueryError
from elfmesh.local.row_formats import ROW_FORMATS, row_format, value_text
from elfmesh.local.text_input import read_text
from elfmesh.text import CSV_END, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from elfmesh.control.jobs.signing import Envelope

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("table", "json", "csv")
PARQUET = "parquet"
EXCERPT_MAX = 100
"""Characters of a wrong line that an error shows."""
ROWS_OUTPUT = (*FORMATS, *(name for name in ROW_FORMATS if name not in FORMATS), PARQUET)


def api_option(command: Command) -> Command:
    """Add --api and the options for certificates and tokens (see `identity/credentials.py`) to a command."""
    from elfmesh.api.identity.credentials import VARIABLES

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
        from elfmesh.api.identity import credentials

        credentials.choose(replace(credentials.chosen, **{parameter.name: value}))
        context.call_on_close(lambda: credentials.choose(credentials.Credentials()))


COMPLETION_S = 1.0
"""Time limit for completing names, because a user who presses Tab does not wait for an agent that hangs."""


def complete_jobs(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Return the names of jobs that start with `begun`, as `ns/name`, or as `ns.name` if it has a dot.

    The list is empty if no agent answers in time, because a shell cannot show errors during completion.
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
    return click.argument("job", shell_complete=complete_jobs)(command)


def output_option(command: Command) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )(command)


class _RowsOutput(click.Option):
    """-o of a command that prints rows: a format and, for parquet, `--output FILE` too.

    The command receives the format as `output` and the file as `output_file`. The last format counts.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        self.multiple = True  # for the parser only: variables and defaults are one format
        super().add_to_parser(parser, ctx)
        self.multiple = False

    def type_cast_value(self, ctx: click.Context, value: Any) -> str:
        given = value if isinstance(value, list) else [value]
        formats = [each for each in given if each in ROWS_OUTPUT]
        files = [each for each in given if each not in ROWS_OUTPUT]
        chosen: str = self.type.convert(formats[-1] if formats else files[-1], self, ctx)
        if files and (chosen != PARQUET or len(files) > 1):
            self.type.convert(files[-1], self, ctx)
        if chosen == PARQUET and not files:
            raise click.UsageError("parquet is written to a file: -o parquet --output FILE", ctx)
        ctx.params["output_file"] = Path(files[0]) if files else None
        return chosen


def rows_output_option(command: Command) -> Command:
    """Add -o for a command that prints rows, or writes them to the file `output_file` as Parquet."""
    return click.option(
        "-o",
        "--output",
        cls=_RowsOutput,
        type=click.Choice(ROWS_OUTPUT),
        default="table",
        show_default=True,
        help="Output format; parquet also needs --output FILE.",
    )(command)


def file_option(command: Command) -> Command:
    """Add the option -f FILE; - reads standard input."""
    return click.option(
        "-f", "--file", "path", metavar="FILE", required=True, help="ELF-QL file; - reads standard input."
    )(command)


def signature_option(command: Command) -> Command:
    return click.option(
        "--signature", metavar="FILE", help="File that `elf sign` wrote. [default: FILE.sig, if it exists]"
    )(command)


def creator_option(command: Command) -> Command:
    return click.option("--creator", metavar="NAME", help="Owner of the job. [default: local]")(command)


def read_signatures(path: str, given: str | None) -> dict[str, str]:
    """Read the encoded signatures of a file of jobs, by the SHA-256 of the text that each one signs.

    Raises:
        RuntimeFailure: the signature file that the user named cannot be read.
        DataError: the file is not a signature file.
    """
    beside = given or f"{path}.sig"
    if given is None and (path == "-" or not Path(beside).exists()):
        return {}
    return {envelope.reported.sha256: envelope.encode().decode() for envelope in read_envelopes(beside)}


def read_envelopes(path: str) -> list[Envelope]:
    """Read the envelopes of a signature file, one per line, each with a readable payload.

    Raises:
        RuntimeFailure: the file cannot be read.
        DataError: the file is not a signature file.
    """
    from elfmesh.control.jobs.signing import decode_envelope

    text, source = read_text(path)
    try:
        found = [decode_envelope(line.encode()) for line in text.splitlines() if line.strip()]
        return [each for each in found if each.reported]
    except DataError as error:
        raise DataError(error.message, where=source) from None


def with_caret(error: QueryError, text: str) -> QueryError:
    """Return the error with its source line, and a caret under its column.

    Of a long line, it has the part around the column that fits on a terminal.
    """
    lines = text.splitlines()
    if not 0 < error.line <= len(lines):
        return error
    line, at = lines[error.line - 1], max(error.column, 1) - 1
    before, behind = printable(line[:at]), printable(line[at:])
    if len(before) + len(behind) > EXCERPT_MAX:
        room = max(EXCERPT_MAX // 2, EXCERPT_MAX - len(before))
        behind = behind if len(behind) <= room else behind[:room] + "..."
        room = max(EXCERPT_MAX // 2, EXCERPT_MAX - len(behind))
        before = before if len(before) <= room else "..." + before[-room:]
    message = f"{error.message}\n  {before}{behind}\n  {' ' * len(before)}^"
    return QueryError(message, line=error.line, column=error.column, hint=error.hint, source=error.source)


def within(error: QueryError, text: str, part: str, source: str) -> QueryError:
    """Convert an error in a statement to an error in the file that contains the statement.

    Args:
        error: the error; its line and column count from the beginning of the statement.
        text: text of the file.
        part: text of the statement.
        source: name of the file in messages.
    """
    return placed(error, text, max(text.find(part), 0), source)


def placed(error: QueryError, text: str, at: int, source: str) -> QueryError:
    """As `within`, for the statement at an offset of the text."""
    before = text[:at]
    line, column = error.line, error.column
    if line == 1:
        column += len(before) - (before.rfind("\n") + 1)
    line += before.count("\n") if line else 0
    moved = QueryError(error.message, line=line, column=column, hint=error.hint, source=source)
    return with_caret(moved, text)


def text_of(value: Any) -> str:
    """Format a value as a table cell: escaped for terminals, with lists and objects in a short form."""
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
"""Minimum width of the first column of a table, if its values are that long."""

PIPE_COLUMNS = 10_000
"""Width of a table on a pipe, large enough that no line is folded."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, cut: bool = False) -> None:
    """Print an aligned table. Without a terminal, the table is as wide as its content.

    On a terminal, columns are folded to its width; with `cut`, each line ends with "…" where it is too wide.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numbers = bool(rows) and all(
            isinstance(row[place], int | float | Decimal) and not isinstance(row[place], bool)
            for row in rows
            if row[place] is not None
        )
        side: Literal["left", "right"] = "right" if numbers else "left"
        table.add_column(Text(printable(column)), justify=side, overflow="fold", min_width=len(column))
    for row in rows:
        table.add_row(*(Text(text_of(value)) for value in row))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    if columns:  # headings and values of the first column are not folded if the terminal is wide enough
        widest = max((len(text_of(row[0])) for row in rows), default=0)
        table.columns[0].min_width = max(min(widest, NAME_COLUMNS), len(columns[0]))
    if sum((each.min_width or 0) + 2 for each in table.columns) > console.width:
        for each in table.columns:
            each.min_width = None
    # rich would end the process with code 1 at a closed pipe
    with console.capture() as shown:
        if cut:
            _print_cut(console, table)
        else:
            console.print(table)
    click.echo(shown.get(), nl=False)


def _print_cut(console: Console, table: Table) -> None:
    from rich.segment import Segment, Segments

    wide = console.options.update(width=PIPE_COLUMNS)
    if console.measure(table, options=wide).maximum <= console.width:
        console.print(table)
        return
    for column in table.columns:
        column.no_wrap = True
    segments = console.render(table, wide)
    for line in Segment.split_and_crop_lines(segments, console.width - 1, include_new_lines=False):
        console.print(Segments([*line, Segment("…"), Segment.line()]), end="")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def print_csv(values: Sequence[Any]) -> None:
    """Print one line of CSV. `click.echo` would remove the escape sequences that values contain."""
    sys.stdout.write(csv_line(values) + "\n")
    sys.stdout.flush()


def csv_line(values: Sequence[Any]) -> str:
    """Format one line of CSV: null is empty; lists and objects are JSON."""
    out = io.StringIO()
    csv.writer(out, lineterminator=CSV_END).writerow(map(value_text, values))
    return out.getvalue().removesuffix(CSV_END)


def print_rows(
    output: str,
    columns: Sequence[str],
    rows: Sequence[dict[str, Any]],
    *,
    header: bool = True,
    cut: bool = False,
) -> None:
    """Print objects in the chosen format. Tables and CSV contain only `columns`."""
    if output == "json":
        for row in rows:
            print_json(row)
        return
    cells = [[row.get(column) for column in columns] for row in rows]
    if output == "table":
        print_table([column.upper() for column in columns], cells, cut=cut)
        return
    if output != "csv":
        out = io.StringIO()
        row_format(output, out).write(columns, cells)
        click.echo(out.getvalue(), nl=False)
        return
    if header:
        print_csv(columns)
    for line in cells:
        print_csv(line)


def end_with_reader() -> None:
    """Interrupt this process when the reader of its standard output closes the pipe.

    A command that waits long between two lines needs this: it would notice a closed pipe only at its next
    write, and `elf results --follow | head` may not write again.
    """
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError):  # standard output is closed, or replaced by an object
        return
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        return
    waiting, main, ending = select.poll(), threading.main_thread(), signal.SIGINT
    waiting.register(output, 0)
    # a shell script starts background commands with SIGINT ignored
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        ending = signal.SIGUSR1
        signal.signal(ending, signal.default_int_handler)

    def watch() -> None:
        waiting.poll()
        if main.is_alive() and main.ident is not None:
            signal.pthread_kill(main.ident, ending)

    threading.Thread(target=watch, name="reader", daemon=True).start()


def say(text: str) -> None:
    """Print a message on standard error, so that it is never mixed with data."""
    click.echo(printable(text), err=True)
