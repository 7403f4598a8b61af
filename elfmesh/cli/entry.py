"""The `elf` command: finds the subcommand, imports only what it needs, and converts errors to exit codes.

The module owns the output of errors: one message on standard error, the exit code of the error tree
(elfmesh.errors), and a traceback only with -vv. It imports a command of `command_list` when the command is
called, so that `elf --help` does not load pyarrow.

Every command accepts -q and -v. An environment variable sets each option: ELF_<FLAG> for all commands that
have the option, and ELF_<COMMAND>_<FLAG>, which takes precedence, for one command.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.cli.command_list import COMMANDS, OWN_MEANING, SECTIONS, WITH_PANDAS
from elfmesh.errors import ControlFlow, ElfError
from elfmesh.lazy import hide, loading
from elfmesh.text import nearest, printable
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""The package multiplies no matrices, and the thread pool that numpy creates for this delays each start by 50
ms."""

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Arrow's own memory pool keeps freed memory, which makes the process 20 MB larger."""

EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
verbosity = 0
"""-1: errors only, 0: normal, 1: more messages, 2: with tracebacks. Set while the command line is parsed."""


VARIABLES = "ELF"
"""Prefix of the environment variables that set options. The flag, or the command and the flag, follow."""


class _ReaderGone(ControlFlow):
    """Raised when the reader of standard output has closed the pipe."""


class LazyGroup(click.Group):
    """Command group that imports a subcommand only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command | None
        with loading():
            module = importlib.import_module(module_name)
            if attribute:
                command = getattr(module, attribute)
            else:
                client = click.Group()
                module.add_commands(client)
                command = client.commands.get(cmd_name)
        if command is not None:
            _add_verbosity(command)
            _name_variables(command, f"{VARIABLES}_{cmd_name}")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with a word, without importing the commands."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand. Converts BrokenPipeError, because click would exit with code 1 for it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<12}", COMMANDS[name][1]) for name in names.split()])


def _add_verbosity(command: click.Command) -> None:
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _add_verbosity(child)
        return
    taken = {option for param in command.params for option in param.opts}
    verbose = click.Option(
        ["-v", "--verbose"],
        count=True,
        expose_value=False,
        is_eager=True,
        callback=_set_verbose,
        help="Print more messages; -vv also prints tracebacks.",
    )
    quiet = click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_quiet,
        help="Print only errors.",
    )
    command.params += [option for option in (verbose, quiet) if not taken & set(option.opts)]


def _name_variables(command: click.Command, prefix: str) -> None:
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            _name_variables(child, f"{prefix}_{name}")
        return
    for param in command.params:
        if isinstance(param, click.Option):
            flag = max(param.opts, key=len).lstrip("-")
            own, shared = (f"{each}_{flag}".replace("-", "_").upper() for each in (prefix, VARIABLES))
            param.envvar = [own] if own in OWN_MEANING else [own, shared]


def _set_verbose(ctx: click.Context, param: click.Parameter, value: int) -> None:
    global verbosity
    if value:
        verbosity = max(verbosity, value)


def _set_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    global verbosity
    if value:
        verbosity = -1


@click.group(
    cls=LazyGroup,
    context_settings={
        "auto_envvar_prefix": VARIABLES,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog=(
        "Each option can be set by an environment variable: --output by ELF_OUTPUT, or by "
        "ELF_RUN_OUTPUT for `elf run` only."
    ),
)
@click.version_option(VERSION, prog_name="elf", message="%(prog)s %(version)s", allow_from_autoenv=False)
@click.option(
    "-v", "--verbose", count=True, expose_value=False, callback=_set_verbose, help="Print more messages."
)
@click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_set_quiet, help="Print only errors."
)
def elf() -> None:
    """SQL over the logs of a fleet, computed where the logs are written."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "install"]))
def completion_command(shell: str) -> None:
    """Print a completion script, or install that of your shell.

    Use it as eval "$(elf completion bash)". With install, the script of the shell in SHELL is written where
    the shell looks for it.
    """
    from click.shell_completion import get_completion_class

    from elfmesh.cli.completion_files import hint_of, install, script_path, shell_of

    name = shell_of(os.environ) if shell == "install" else shell
    kind = get_completion_class(name)
    assert kind is not None
    script = kind(elf, {}, "elf", "_ELF_COMPLETE").source()
    if shell != "install":
        click.echo(script)
        return
    from elfmesh.cli.common import say

    path = script_path(name, os.environ, Path.home())
    install(path, script)
    say(f"wrote {path}; {hint_of(name, path)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `elf` script. Always raises SystemExit."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] not in WITH_PANDAS:
        hide("pandas")
    code = run(arguments)
    gc.freeze()  # the interpreter would search all modules for garbage several times before it ends
    raise SystemExit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    global verbosity
    verbosity = 0
    try:
        outcome = elf.main(
            args=list(arguments) if arguments is not None else None, prog_name="elf", standalone_mode=False
        )
        sys.stdout.flush()
    except (_ReaderGone, BrokenPipeError):
        # The reader closed the pipe, as `head` does. Without this, Python would fail again when it
        # flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        return report(error)
    return outcome if isinstance(outcome, int) else 0


def report(error: Exception) -> int:
    """Print an error on standard error, and return its exit code. Raises it if it is a bug, with -vv."""
    if isinstance(error, ElfError):
        return _report(error, str(error), error.exit_code)
    if isinstance(error, click.UsageError):
        _suggesting(error).show()
        return 2
    if isinstance(error, click.ClickException):
        return _report(error, error.format_message(), error.exit_code)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return _report(error, f"{place}{error.strerror or error}", 1)
    if verbosity >= 2:
        raise error
    kind = type(error).__name__
    return _report(error, f"{kind}: {error}\n  This is a bug in elfmesh; -vv shows the traceback.", 1)


def _suggesting(error: click.UsageError) -> click.UsageError:
    if isinstance(error, click.NoSuchOption):
        known = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
        near = nearest(error.option_name, known)
    elif isinstance(error, click.exceptions.NoSuchCommand):
        group = error.ctx.command if error.ctx else None
        listed = group.list_commands(error.ctx) if error.ctx and isinstance(group, click.Group) else []
        near = nearest(error.command_name, listed)
    else:
        return error
    return click.UsageError(error.message + (f" Did you mean {near}?" if near else ""), error.ctx)


def _report(error: Exception, text: str, code: int) -> int:
    if verbosity >= 2:
        import traceback

        traceback.print_exception(error)
    from elfmesh.storage.starving import no_descriptor

    if lack := no_descriptor(error):
        text += (
            f"\n  {lack[0].upper()}{lack[1:]}. Raise the limit: `ulimit -n`, or LimitNOFILE= of the service."
        )
    # The text may contain a path, a log line or a message of another agent; a terminal would
    # interpret its escapes.
    click.echo("elf: " + "\n".join(printable(line) for line in text.split("\n")), err=True)
    return code
