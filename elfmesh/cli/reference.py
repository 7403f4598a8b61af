"""The help of every command as data, for the command reference of the site and for the manual pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc

import click

from elfmesh.cli.command_list import COMMANDS
from elfmesh.cli.entry import elf

EVERYWHERE = {"verbose", "quiet", "help"}
"""Options of every command."""


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """One option: its flags with the metavariable, its meaning, and the variables that set it."""

    flags: str
    meaning: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """One command.

    Attributes:
        path: its words, such as ("elf", "ca", "issue").
        summary: one line.
        usage: the usage line, without "Usage:".
        paragraphs: its description.
        options: its options, except those of every command.
        children: the commands of a group.
    """

    path: tuple[str, ...]
    summary: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[OptionHelp, ...]
    children: tuple[CommandHelp, ...]

    def all(self) -> Iterator[CommandHelp]:
        """Yield the command and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def commands() -> Iterator[CommandHelp]:
    """Yield the commands in the order of `elf --help`. All of them are imported."""
    context = click.Context(elf, info_name="elf")
    for name in elf.list_commands(context):
        yield _help_of(elf, context, name)


def _help_of(group: click.Group, above: click.Context, name: str) -> CommandHelp:
    command = group.get_command(above, name)
    assert command is not None, f"{name} is listed and not there"
    context = click.Context(command, info_name=name, parent=above)
    path = tuple(context.command_path.split())
    children = command.list_commands(context) if isinstance(command, click.Group) else ()
    text = cleandoc(command.help or "").replace("\b\n", "")
    return CommandHelp(
        path,
        COMMANDS[name][1] if len(path) == 2 else command.get_short_help_str(200),
        command.get_usage(context).removeprefix("Usage: "),
        tuple(paragraph.replace("\n", " ") for paragraph in text.split("\n\n") if paragraph),
        tuple(_options_of(command, context)),
        tuple(_help_of(command, context, child) for child in children if isinstance(command, click.Group)),
    )


def _options_of(command: click.Command, context: click.Context) -> Iterator[OptionHelp]:
    for param in command.params:
        record = None if param.name in EVERYWHERE else param.get_help_record(context)
        if record is not None and record[1]:  # the usage line names the arguments
            names = param.envvar or ()
            yield OptionHelp(record[0], record[1], (names,) if isinstance(names, str) else tuple(names))
