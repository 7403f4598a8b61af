"""The `elf` command: finds the subcommand, imports only what it needs, and converts errors to exit codes.

The module owns the list of commands and the output of errors: one message on standard error, the exit code of
the error tree (elfmesh.errors), and a traceback only with -vv. It imports a command when the command is
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

import click

from elfmesh.errors import ControlFlow, ElfError
from elfmesh.lazy import hide, loading
from elfmesh.text import nearest, printable
from elfmesh.version import VERSION

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""The package multiplies no matrices, and the thread pool that numpy creates for this delays each start by 50
ms."""

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
"""Arrow's own memory pool keeps freed memory, which makes the process 20 MB larger."""

WITH_PANDAS = ("demo", "diff", "program", "publish", "spark")
"""Commands that may use pandas: they start Spark, which requires it, run a user's program, or read a table.
In the other commands, Arrow would load it, which takes longer than the rest of `elf apply`."""

EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
_CLIENT = "elfmesh.cli.jobs.commands"
COMMANDS: dict[str, tuple[str, str]] = {
    "run": (
        "elfmesh.cli.local.run:run_command",
        "Run a query over log files in one process, without a network.",
    ),
    "sql": (
        "elfmesh.cli.sql.command:sql_command",
        "Query log files or the fleet in an interactive shell.",
    ),
    "report": ("elfmesh.cli.local.report:report_command", "Summarise log files without a query."),
    "demo": ("elfmesh.cli.demo.demo:demo_command", "Run local agents over the generated traffic of a shop."),
    "agent": (
        "elfmesh.cli.host.agent:agent_command",
        "Run the agent of this host.",
    ),
    "apply": (_CLIENT, "Submit a job, or update it if it is running."),
    "update": (_CLIENT, "Replace the query of a running job."),
    "publish": (_CLIENT, "Publish a file as a lookup table of running jobs."),
    "rollout": (_CLIENT, "Show, undo or promote the last change of a job."),
    "status": (_CLIENT, "Show whether all agents and jobs are well, and what is wrong."),
    "wait": (_CLIENT, "Wait until agents are alive or a job has a complete result."),
    "ok-to-stop": (_CLIENT, "Check whether agents can be stopped without a job stopping."),
    "forget": ("elfmesh.cli.jobs.forget:forget_command", "Remove dead agents from the list of agents."),
    "what-if": (_CLIENT, "Print what results would be worth without a rack or host."),
    "get": (_CLIENT, "List jobs, agents, streams or trees."),
    "describe": (_CLIENT, "Show the details of one job, agent or stream, or of log files."),
    "results": (_CLIENT, "Print the results of a job, one record per interval."),
    "query": (_CLIENT, "Run a query over results of jobs, or over streams."),
    "cancel": (_CLIENT, "End a query over streams."),
    "top": (_CLIENT, "Show the load of agents and jobs, live."),
    "tap": (_CLIENT, "Show new lines of a stream, or those that a job reads."),
    "why": (_CLIENT, "Show which agent and which interval delay a job."),
    "verify": (_CLIENT, "Recompute a closed interval from the raw logs and compare."),
    "dead-letters": (
        "elfmesh.cli.host.dead_letters:dead_letters_command",
        "Print records that were sealed too late for their interval.",
    ),
    "compact": ("elfmesh.cli.host.compact:compact_command", "Merge the small files of a Parquet sink."),
    "backup": (
        "elfmesh.cli.host.backup:backup_command",
        "Back up the data directory of an agent.",
    ),
    "check": ("elfmesh.cli.host.check:check_command", "Check a data directory for damage, offline."),
    "repair": ("elfmesh.cli.host.check:repair_command", "Repair a damaged data directory, offline."),
    "restore": (
        "elfmesh.cli.host.backup:restore_command",
        "Create the data directory of a new agent from a backup.",
    ),
    "audit": ("elfmesh.cli.host.audit:audit_group", "Show or verify the audit log of an agent."),
    "init": ("elfmesh.cli.host.init:init_command", "Write an agent.toml for the logs of this host."),
    "doctor": (
        "elfmesh.cli.host.doctor:doctor_command",
        "Check a host and its agent, and say what to do.",
    ),
    "archive": (
        "elfmesh.cli.host.archive:archive_command",
        "Write all new lines of this host's streams to their archives.",
    ),
    "pause": (_CLIENT, "Pause a job."),
    "resume": (_CLIENT, "Resume a paused job."),
    "revoke": (_CLIENT, "Revoke signed versions of a job permanently."),
    "empty": (_CLIENT, "Start a new batch on all agents at one interval boundary."),
    "savepoint": (
        "elfmesh.cli.jobs.savepoint:savepoint_group",
        "Save a job and its results to a file, or restore them.",
    ),
    "delete": (_CLIENT, "Delete a job and its results."),
    "page": ("elfmesh.cli.host.page:page_command", "Open the web page of an agent."),
    "health": (_CLIENT, "Report the health of an agent."),
    "job": ("elfmesh.cli.jobs.job:job_group", "Recover a job that has lost a majority of its voters."),
    "leave": (_CLIENT, "Remove an agent from the overlay permanently."),
    "program": ("elfmesh.cli.jobs.program:program_group", "Run your own program beside an agent."),
    "explain": (
        "elfmesh.cli.local.explain:explain_command",
        "Show the plan of a query before it runs.",
    ),
    "blazes": (
        "elfmesh.cli.local.blazes:blazes_command",
        "Show which outputs can differ, why, and what repairs them.",
    ),
    "lint": (
        "elfmesh.cli.local.lint:lint_command",
        "Find what makes outputs differ, in texts and programs.",
    ),
    "plan": (
        "elfmesh.cli.local.plan:plan_command",
        "Choose tasks to replicate, or show the layout of a job.",
    ),
    "bench": ("elfmesh.cli.host.bench:bench_group", "Measure what an agent costs on this machine."),
    "validate": (
        "elfmesh.cli.host.validate:validate_command",
        "Check job files and configuration files without running them.",
    ),
    "test": ("elfmesh.cli.local.test:test_command", "Run the --@test cases of job files."),
    "spark": ("elfmesh.cli.local.spark:spark_group", "Run ELF-QL over historical logs on Spark."),
    "diff": (
        "elfmesh.cli.local.diff:diff_command",
        "Compare the results of a job with Spark over the same logs.",
    ),
    "key": ("elfmesh.cli.host.sign:key_group", "Manage keys that sign jobs."),
    "sign": ("elfmesh.cli.host.sign:sign_command", "Sign jobs, or the revocation of a job."),
    "ca": ("elfmesh.cli.host.ca:ca_group", "Manage certificates for agents and users."),
    "schema": ("elfmesh.cli.host.validate:schema_command", "Print the JSON schema of agent.toml."),
    "completion": (
        "elfmesh.cli.entry:completion_command",
        "Print a completion script for bash, zsh or fish.",
    ),
}
"""Name of each command: its location ("module:attribute", or a module with `add_commands(group)`) and its
line in --help."""

SECTIONS = {
    "On one machine": "run sql report demo explain blazes lint plan test validate spark diff",
    "Jobs": "apply update publish rollout pause resume revoke empty delete savepoint job program",
    "Results": "results query cancel why verify tap dead-letters",
    "The fleet": "status wait ok-to-stop what-if forget get describe top health page leave",
    "A host": "agent doctor check repair backup restore compact archive audit bench",
    "Keys and certificates": "ca key sign",
    "Set-up": "init schema completion",
}
"""Sections of --help. Each command is in one."""

verbosity = 0
"""-1: errors only, 0: normal, 1: more messages, 2: with tracebacks. Set while the command line is parsed."""


VARIABLES = "ELF"
"""Prefix of the environment variables that set options. The flag, or the command and the flag, follow."""

OWN_MEANING = frozenset(
    {
        "ELF_AGENT_API",  # the agent's own API address; ELF_API is the address of the agent to query
        "ELF_BLAZES_OUTPUT",  # text or a picture; ELF_OUTPUT is table, json or csv
        "ELF_LINT_OUTPUT",
        "ELF_PLAN_OUTPUT",
        "ELF_BACKUP_OUTPUT",  # a file; ELF_OUTPUT is an output format
        "ELF_INIT_OUTPUT",
        "ELF_SAVEPOINT_CREATE_OUTPUT",
        "ELF_SIGN_OUTPUT",
        "ELF_SIGN_KEY",  # a key that signs jobs; ELF_KEY is the key of a client certificate
        "ELF_CA_SERVE_LISTEN",  # the address of the authority; ELF_LISTEN is the address of an agent
        "ELF_RESULTS_FROM",  # the number of an interval; ELF_FROM is a time
        "ELF_SAVEPOINT_RESULTS_FROM",
        "ELF_BLAZES_SAMPLE",  # a log; ELF_SAMPLE is a number of records
        "ELF_EXPLAIN_SAMPLE",
        "ELF_LINT_SAMPLE",
        "ELF_PUBLISH_NAME",  # the name of a table; ELF_NAME is the name of an agent
        "ELF_TOP_AGENTS",  # a choice of what to show; ELF_AGENTS is the number of agents of the demo
    }
)
"""Options that share a name with an option of another meaning. A shared variable would set both."""


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
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a completion script. Use it as eval "$(elf completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(elf, {}, "elf", "_ELF_COMPLETE").source())


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
