"""`elf sql`: the command line. The input is a prompt, a script on standard input, or `-c`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from elfmesh.cli.common import api_option, rows_output_option
from elfmesh.cli.local.log_options import log_options, option_of
from elfmesh.errors import DataError, RuntimeFailure, UsageError

STDIN = "stdin"


@click.command("sql", short_help="Query log files or the fleet in an interactive shell.")
@click.argument("files", nargs=-1, metavar="[LOG]...")
@click.option(
    "-c", "--command", "texts", multiple=True, metavar="TEXT",
    help="Run the statements of TEXT instead of those that are typed; repeatable.",
)  # fmt: skip
@click.option(
    "--history",
    metavar="DURATION",
    default="10 min",
    show_default=True,
    help="Without LOG: read the streams' records of this time until now.",
)
@rows_output_option
@log_options
@api_option
@click.pass_context
def sql_command(
    context: click.Context,
    /,
    files: tuple[str, ...],
    texts: tuple[str, ...],
    history: str,
    output: str,
    output_file: Path | None,
    api: str | None,
    **given: Any,
) -> None:
    """Run statements over LOG files as `elf run` does or, without files, over the fleet as `elf query` does.

    A statement ends with a semicolon. Lines that begin with a dot are commands; .help lists them. Ctrl-C
    ends the statement that runs, Ctrl-D the shell.

    If standard input is not a terminal, it is a script. An error does not end a script; the exit code is that
    of the first error.

    Example: elf sql access.log -c "SELECT status, count(*) AS n FROM log GROUP BY status; .schema"
    """
    from elfmesh.cli.sql.shell import SqlShell

    if sys.stdout is None:
        raise RuntimeFailure("standard output is closed", hint="Results go there.")
    tables: Any
    if files or given["streams"]:
        if context.get_parameter_source("api") == ParameterSource.COMMANDLINE:
            raise UsageError("LOG files and --api exclude each other", hint="The fleet reads its own logs.")
        from elfmesh.cli.sql.file_tables import FileTables

        tables = FileTables(files, given)
    else:
        from elfmesh.api.client.client import Client
        from elfmesh.cli.sql.fleet_tables import FleetTables
        from elfmesh.units import parse_duration_us

        with option_of("--history"):
            tables = FleetTables(Client(api), parse_duration_us(history))
    interactive = not texts and sys.stdin is not None and sys.stdin.isatty()
    shell = SqlShell(tables, output, output_file, interactive=interactive)
    if interactive:
        from elfmesh.cli.sql.terminal import run_terminal

        run_terminal(shell)
        return
    for text in texts:
        if not shell.ended:
            shell.script([text], "query")
    if not texts:
        shell.script(_lines(), STDIN)
    context.exit(shell.exit_code)


def _lines() -> Iterator[str]:
    if sys.stdin is None:
        raise RuntimeFailure("standard input is closed", hint="Give statements with -c.")
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"line {number} is not UTF-8: byte {error.start + 1}", where=STDIN) from None
