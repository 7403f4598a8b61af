"""The directive `elf-commands`: every command of `elf`, its usage and its options, as click has them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from elfmesh.cli.entry import elf

EVERYWHERE = {"verbose", "quiet", "help"}
"""Options of every command: the top of the page has them once."""


class Commands(SphinxDirective):
    """Writes a section for each command. Its own text is for readers of the file, and is left out."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """All commands, in the order of `elf --help`."""
        context = click.Context(elf, info_name="elf")
        return [
            section for name in elf.list_commands(context) for section in self._section(elf, context, name)
        ]

    def _section(self, group: click.Group, above: click.Context, name: str) -> Iterator[nodes.Node]:
        command = group.get_command(above, name)
        assert command is not None, f"{name} is listed and not there"
        context = click.Context(command, info_name=name, parent=above)
        path = context.command_path
        section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
        section += nodes.title("", "", nodes.literal("", path))
        usage = command.get_usage(context).removeprefix("Usage: ")
        section += nodes.literal_block("", usage, language="text")
        for paragraph in cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
            section += nodes.paragraph(text=paragraph.replace("\n", " "))
        options = [param for param in command.params if param.name not in EVERYWHERE]
        if rows := [row for param in options for row in _row(param, context)]:
            section += _table(rows)
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                section += list(self._section(command, context, child))
        self.state.document.note_explicit_target(section)
        yield section


def _row(param: click.Parameter, context: click.Context) -> Iterator[tuple[str, str, str]]:
    record = param.get_help_record(context)
    if record is None or not record[1]:  # an argument: the usage line names it
        return
    names = param.envvar or ()
    yield record[0], record[1], " ".join([names] if isinstance(names, str) else names)


def _table(rows: list[tuple[str, str, str]]) -> nodes.table:
    table = nodes.table(classes=["elf-options"])
    group = nodes.tgroup(cols=3)
    group += [nodes.colspec(colwidth=width) for width in (30, 50, 20)]
    titles = (_cell(nodes.Text(text)) for text in ("option", "meaning", "variable"))
    head = nodes.thead("", nodes.row("", *titles))
    body = nodes.tbody()
    for option, meaning, variables in rows:
        names = [nodes.literal(text=variable) for variable in variables.split()]
        spaced = [node for name in names for node in (name, nodes.Text(" "))]
        body += nodes.row("", _cell(nodes.literal(text=option)), _cell(nodes.Text(meaning)), _cell(*spaced))
    group += [head, body]
    table += group
    return table


def _cell(*content: nodes.Node) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", *content))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("elf-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
