from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import elfmesh
from elfmesh.cli import command_list
from elfmesh.cli import entry as cli
from elfmesh.errors import ElfError, QueryError, Unreachable
from tests.e2e.zygote import elf


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys; from elfmesh.cli import entry as cli; cli.run(['--help']); cli.run(['--version']);"
        "heavy = {'pyarrow', 'numpy', 'sqlglot', 'aiohttp', 'asyncio'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, (_, line) in command_list.COMMANDS.items():
        assert name in done.stdout
        assert line in done.stdout
    assert f"elf {elfmesh.__version__}" in done.stdout


NOT_FOR_A_RUN = (
    *("aiohttp", "asyncio", "cryptography", "duckdb", "hmac", "numpy.ma", "numpy.random", "pandas"),
    *(
        "pyarrow.compute",
        "rich",
        "scipy",
        "secrets",
        "sqlglot.executor",
        "sqlglot.planner",
        "ssl",
        "subprocess",
        "yaml",
    ),
    *("elfmesh.agent.net", "elfmesh.api", "elfmesh.control.jobs.signing", "elfmesh.control.master"),
    *("elfmesh.ingest.functions", "elfmesh.ingest.sources.tail", "elfmesh.overlay", "elfmesh.srt"),
)
"""Modules that a run over files does not need, because each of them delays its start."""


def test_a_run_over_files_loads_only_what_it_needs(tmp_path: Path) -> None:
    names = f"names = [name for name in {NOT_FOR_A_RUN!r} if sys.modules.get(name)]"
    done = after_a_run(tmp_path, f"{names}; sys.exit(', '.join(names) or end.code)")
    assert (done.returncode, done.stdout) == (0, "a  n\n-  -\n1  1\n"), done.stderr


DATACLASSES_OF_A_RUN = {"elfmesh.ql.lowering.lowering.Lowering", "elfmesh.ql.lowering.planning.Planner"}
"""They have an abstract method, which structs cannot have (docs/adr/0090-structs.md)."""


def test_the_classes_of_a_run_are_structs(tmp_path: Path) -> None:
    done = after_a_run(
        tmp_path,
        "modules = [each for name, each in sys.modules.items() if name.startswith('elfmesh')]\n"
        "    found = {each for one in modules for each in vars(one).values() if isinstance(each, type)}\n"
        "    names = {f'{each.__module__}.{each.__name__}' for each in found if is_dataclass(each)}\n"
        "    print(*sorted(names)); sys.exit(end.code)",
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[-1].split()) == DATACLASSES_OF_A_RUN


def after_a_run(directory: Path, then: str) -> subprocess.CompletedProcess[str]:
    """Run a plain query, and then statements in the same process; `end` has its exit code."""
    log = directory / "log"
    log.write_text('{"a": 1}\n')
    code = (
        "import sys; from dataclasses import is_dataclass; from elfmesh.cli import entry\n"
        "try: entry.main(['run', 'SELECT a, count(*) AS n FROM x GROUP BY a', sys.argv[1]])\n"
        f"except SystemExit as end:\n    {then}"
    )
    return subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True, check=False)


def test_a_command_that_reads_a_job_loads_no_pandas(tmp_path: Path) -> None:
    job = tmp_path / "job.elfql"
    job.write_text("CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS n FROM log GROUP BY k\n")
    code = (
        "import sys; from elfmesh.cli import entry\n"
        "try: entry.main(['validate', sys.argv[1]])\n"
        "except SystemExit as end: sys.exit(end.code or int('pandas' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, job], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(command_list.WITH_PANDAS) <= command_list.COMMANDS.keys()


@pytest.mark.parametrize(("lines", "code"), [("no\nneither\n", 65), ("no\n{}\n", 0), ("", 0)])
def test_a_log_of_which_nothing_can_be_used_is_bad_data_also_when_quiet(
    tmp_path: Path, lines: str, code: int
) -> None:
    (tmp_path / "log").write_text(lines)
    done = elf("run", "-q", "--format", "json", "SELECT count(*) AS n FROM x", str(tmp_path / "log"))
    assert (done.returncode, "no record could be used" in done.stderr) == (code, code == 65)


def test_every_listed_command_can_be_loaded_and_has_a_short_help() -> None:
    context = click.Context(cli.elf)
    for name in command_list.COMMANDS:
        command = cli.elf.get_command(context, name)
        assert command is not None, name
        assert command.get_short_help_str()
        each = command.commands.values() if isinstance(command, click.Group) else [command]
        for one in each:
            assert {"-v", "-q"} <= {option for param in one.params for option in param.opts}, name
    from elfmesh.cli.jobs.commands import add_commands

    client = click.Group()
    add_commands(client)
    assert set(client.commands) <= set(command_list.COMMANDS)


def test_a_wrong_query_shows_its_line_with_a_caret(tmp_path: Path) -> None:
    log = tmp_path / "x.ndjson"
    log.write_text('{"a":1}\n')
    done = elf("run", "SELECT a,\n  cuont(*) FROM x", str(log))
    assert done.returncode == 65
    assert done.stderr.startswith("elf: query:2:3: unknown function cuont\n    cuont(*) FROM x\n    ^\n")


@pytest.mark.parametrize("words", [("-q", "run"), ("run", "-q")])
def test_quiet_is_quiet_wherever_it_stands(tmp_path: Path, words: tuple[str, ...]) -> None:
    log = tmp_path / "x.ndjson"
    log.write_text('{"a":1}\nnot json\n')
    done = elf(*words, "SELECT a FROM x", str(log), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run 'SELECT 1 FROM x' /dev/null >&-", "elf: standard output is closed"),
        ("apply -f - <&-", "elf: standard input is closed"),
    ],
)
def test_a_closed_stream_is_reported(command: str, message: str) -> None:
    shell = f"exec {sys.executable} -m elfmesh.agent {command}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr.startswith(message)
    assert done.returncode in (1, 65)


def test_an_unknown_command_is_wrong_usage() -> None:
    done = elf("aply")
    assert done.returncode == 2
    assert "aply" in done.stderr


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command("run")
    def command() -> None:
        raise error

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda self, context, name: with_verbosity(command))


def with_verbosity(command: click.Command) -> click.Command:
    cli._add_verbosity(command)
    return command


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            QueryError("no such column", line=2, column=7, hint="Did you mean x?"),
            65,
            "query:2:7: no such column",
        ),
        (Unreachable("no agent"), 69, "no agent"),
        (ElfError("failed"), 1, "failed"),
        (click.UsageError("bad flag"), 2, "bad flag"),
        (FileNotFoundError(2, "No such file or directory", "x.log"), 1, "x.log: No such file"),
        (ZeroDivisionError("division by zero"), 1, "bug in elfmesh"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_message_and_its_exit_code(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    assert cli.run(["run"]) == code
    errors = capsys.readouterr().err
    assert text in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["jbo"], "No such command 'jbo'. Did you mean job?"),
        (["statistics"], "No such command 'statistics'.\n"),
        (["ca", "issu"], "No such command 'issu'. Did you mean issue?"),
        (["run", "--smaple", "3"], "No such option '--smaple'. Did you mean --sample?"),
        (["run", "--simulate"], "No such option '--simulate'.\n"),
    ],
)
def test_a_misspelt_command_or_option_gets_the_suggestion_that_is_near(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert text in capsys.readouterr().err


def test_a_traceback_is_shown_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ElfError("failed"))
    assert cli.run(["run", "-vv"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"ts": 1, "k": "%s"}\n' % ("x" * 200) * 20_000)
    command = (
        f"{sys.executable} -m elfmesh.agent run 'SELECT k FROM log' {log} --format json -o json | head -c 10"
    )
    command += "; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 141)


def test_options_come_from_the_environment_too() -> None:
    done = elf("agent", ELF_AGENT_LISTEN="0.0.0.0:1")
    assert done.returncode == 78
    assert "certificates" in done.stderr


def test_the_variable_of_an_option_is_called_as_its_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.elfql").write_text("SELECT k FROM log LIMIT 1")
    (tmp_path / "log").write_text('{"k": 7}\n')
    monkeypatch.setenv("ELF_RUN_FILE", str(tmp_path / "job.elfql"))
    monkeypatch.setenv("ELF_RUN_OUTPUT", "csv")
    assert cli.run(["run", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out == "k\n7\n"
    monkeypatch.setenv("ELF_AGENT_STREAM", "noname")
    assert cli.run(["agent"]) == 2
    assert "'noname' is not NAME=PATH" in capsys.readouterr().err


def _options(command: click.Command, path: str) -> Iterator[tuple[str, click.Option]]:
    """Every option of a command and of those below it, with the path of its command."""
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _options(child, f"{path} {name}")
    yield from ((path, each) for each in command.params if isinstance(each, click.Option))


def test_every_flag_is_also_a_variable_with_or_without_the_command() -> None:
    meanings: dict[str, set[tuple[object, ...]]] = {}
    own = set()
    for name in command_list.COMMANDS:
        command = cli.elf.get_command(click.Context(cli.elf), name)
        assert command is not None
        for path, option in _options(command, name):
            flag = max(option.opts, key=len).removeprefix("--").replace("-", "_").upper()
            long, short = f"ELF_{path.replace(' ', '_').replace('-', '_').upper()}_{flag}", f"ELF_{flag}"
            if long in command_list.OWN_MEANING:
                assert option.envvar == [long]
                own.add(long)
                continue
            assert option.envvar == [long, short], (path, option.opts)
            if flag not in ("JOB", "INTERVAL"):  # one, where other commands take several
                number = isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType))
                kind = (bool(option.is_flag), option.multiple, number)
                meanings.setdefault(short, set()).add(kind)
    assert own == command_list.OWN_MEANING, "the list names flags that are gone"
    assert not {short: kinds for short, kinds in meanings.items() if len(kinds) > 1}, "one name, two meanings"


def test_a_variable_of_a_flag_holds_for_every_command_and_that_of_a_command_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text('{"k": 7}\n')
    command = ["run", "SELECT k FROM log", str(tmp_path / "log")]
    monkeypatch.setenv("ELF_OUTPUT", "csv")
    monkeypatch.setenv("ELF_VERSION", "1.2.3")
    assert cli.run(command) == 0
    assert capsys.readouterr().out == "k\n7\n"
    monkeypatch.setenv("ELF_RUN_OUTPUT", "json")
    assert cli.run(command) == 0
    assert '"rows":[{"k":7}]' in capsys.readouterr().out
    assert cli.run([*command, "-o", "csv"]) == 0
    assert capsys.readouterr().out == "k\n7\n"
    monkeypatch.setenv("ELF_RUN_OUTPUT", "xml")
    assert cli.run(command) == 2
    assert "'xml' is not one of" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    done = elf("completion", shell)
    assert done.returncode == 0
    assert "_ELF_COMPLETE" in done.stdout


def test_tab_completes_commands_and_options_without_importing_a_command() -> None:
    code = (
        "import sys\n"
        "from elfmesh.cli import entry\n"
        "try: entry.main([])\n"
        "except SystemExit as end:\n"
        "    sys.exit(end.code or ', '.join({'msgspec', 'numpy', 'asyncio'} & set(sys.modules)) or 0)"
    )
    found = {}
    for word in ("re", "", "--v"):
        variables = {"COMP_WORDS": f"elf {word}", "COMP_CWORD": "1", "_ELF_COMPLETE": "bash_complete"}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | variables,
        )
        assert done.returncode == 0, done.stderr
        found[word] = [each.removeprefix("plain,") for each in done.stdout.split()]
    assert found[""] == list(command_list.COMMANDS)
    assert found["re"] == [name for name in command_list.COMMANDS if name.startswith("re")]
    assert found["--v"] == ["--version", "--verbose"]


def test_help_and_tab_show_the_api_and_the_import_loads_nothing() -> None:
    code = (
        "import sys, elfmesh; names = dir(elfmesh)\n"
        "heavy = {'pyarrow', 'numpy', 'sqlglot', 'pandas', 'asyncio', 'http'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert set(elfmesh.__all__) <= set(names)\n"
        "import pydoc; text = pydoc.plain(pydoc.render_doc(elfmesh))\n"
        "for name in set(elfmesh.__all__) - {'coordination'}: assert name in text, name\n"
        "assert 'a client of the agent at' in text\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_public_functions_are_found_lazily() -> None:
    code = "import sys, elfmesh; assert 'pyarrow' not in sys.modules; elfmesh.run; elfmesh.connect"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="nothing"):
        _ = elfmesh.nothing


@pytest.mark.parametrize("words", [("--format", "xml"), ("--format", "regex:("), ("--memory", "1 XB")])
def test_a_wrong_option_of_run_is_wrong_usage(tmp_path: Path, words: tuple[str, str]) -> None:
    log = tmp_path / "log"
    log.write_text('{"a":1}\n')
    done = elf("run", *words, "SELECT count(*) FROM log", str(log))
    assert done.returncode == 2
    assert done.stderr.startswith(f"elf: {words[0]}: ")


@pytest.mark.parametrize("name", ["ELF_KERNEL", "ELF_SCANNER"])
def test_a_wrong_choice_in_the_environment_is_bad_configuration(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    log.write_text('{"a":1}\n')
    command = [sys.executable, "-m", "elfmesh.agent", "run", "SELECT count(*) FROM log", str(log)]
    variables = {**os.environ, name: "fast"}  # read by an import
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 78
    assert name in done.stderr


def test_each_command_stands_in_one_section_of_the_help() -> None:
    listed = [name for names in command_list.SECTIONS.values() for name in names.split()]
    assert sorted(listed) == sorted(command_list.COMMANDS)
