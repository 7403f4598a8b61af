"""The manual pages of all commands, from their help: `make wheel` puts them into the wheel.

python deploy/release/man_pages.py DIRECTORY
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from elfmesh.cli.command_list import SECTIONS
from elfmesh.cli.reference import CommandHelp, commands
from elfmesh.version import VERSION

SUMMARY = "SQL over the logs of a fleet, computed where the logs are written"
ENVIRONMENT = (
    "A variable sets each option: ELF_OUTPUT sets --output of all commands, and ELF_RUN_OUTPUT sets it for "
    "elf run and takes precedence."
)
EVERYWHERE = (
    ("-v, --verbose", "Print more messages; -vv also prints tracebacks."),
    ("-q, --quiet", "Print only errors."),
    ("-h, --help", "Print the help of the command."),
)


def main(directory: Path) -> None:
    """Write one file per command. Files of an earlier run are removed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    every = [*commands()]
    (directory / "elf.1").write_text(top(every))
    for command in (each for each in every for each in each.all()):
        (directory / f"{'-'.join(command.path)}.1").write_text(page(command))


def top(every: list[CommandHelp]) -> str:
    """The page of `elf`: its commands by section."""
    summaries = {command.path[1]: command.summary for command in every}
    parts = [head("elf", SUMMARY), section("SYNOPSIS"), f"{roff('elf [OPTIONS] COMMAND [ARGUMENTS]')}\n"]
    parts += [
        section("DESCRIPTION"),
        "Each command has a page of its own:\n",
        ".BR elf\\-run (1)\n",
        "and so on.\n",
    ]
    for title, names in SECTIONS.items():
        parts.append(section(title.upper()))
        parts += [entry(f"elf {name}", summaries[name]) for name in names.split()]
    parts += [section("OPTIONS"), *(entry(flags, meaning) for flags, meaning in EVERYWHERE)]
    parts += [section("ENVIRONMENT"), f"{roff(ENVIRONMENT)}\n"]
    return "".join(parts)


def page(command: CommandHelp) -> str:
    """The page of one command."""
    name = "-".join(command.path)
    parts = [head(name, command.summary), section("SYNOPSIS"), f"{roff(command.usage)}\n"]
    parts += [section("DESCRIPTION"), *(f".PP\n{roff(text)}\n" for text in command.paragraphs)]
    parts.append(section("OPTIONS"))
    for option in command.options:
        set_by = f" Variables: {', '.join(option.variables)}." if option.variables else ""
        parts.append(entry(option.flags, f"{option.meaning}{set_by}"))
    parts += [entry(flags, meaning) for flags, meaning in EVERYWHERE]
    if command.children:
        parts.append(section("COMMANDS"))
        parts += [entry(" ".join(child.path), child.summary) for child in command.children]
    parts += [section("SEE ALSO"), *see_also(command)]
    return "".join(parts)


def see_also(command: CommandHelp) -> Iterator[str]:
    """References to the page above and to those below."""
    names = ["-".join(command.path[:-1]), *("-".join(child.path) for child in command.children)]
    yield from (f".BR {roff(name)} (1){',' if name != names[-1] else ''}\n" for name in names)


def head(name: str, summary: str) -> str:
    return (
        f'.TH "{roff(name.upper())}" "1" "" "elfmesh {roff(VERSION)}" "elfmesh"\n'
        f"{section('NAME')}{roff(name)} \\- {roff(summary.rstrip('.'))}\n"
    )


def section(title: str) -> str:
    return f".SH {roff(title)}\n"


def entry(term: str, text: str) -> str:
    return f".TP\n\\fB{roff(term)}\\fR\n{roff(text)}\n"


def roff(text: str) -> str:
    """A text on one line, in which nothing is an instruction."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line


if __name__ == "__main__":
    main(Path(sys.argv[1]))
