"""The directive `elf-commands`: every command of `elf`, its usage and its options, as click has them."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from elfmesh.cli.reference import CommandHelp, OptionHelp, commands


class Commands(SphinxDirective):
    """Writes a section for each command. Its own text is for readers of the file, and is left out."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """All commands, in the order of `elf --help`."""
        return [self._section(each) for command in commands() for each in command.all()]

    def _section(self, command: CommandHelp) -> nodes.section:
        path = " ".join(command.path)
        section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
        section += nodes.title("", "", nodes.literal("", path))
        section += nodes.literal_block("", command.usage, language="text")
        for paragraph in command.paragraphs:
            section += nodes.paragraph(text=paragraph)
        if command.options:
            section += _table(command.options)
        self.state.document.note_explicit_target(section)
        return section


def _table(options: tuple[OptionHelp, ...]) -> nodes.table:
    table = nodes.table(classes=["elf-options"])
    group = nodes.tgroup(cols=3)
    group += [nodes.colspec(colwidth=width) for width in (30, 50, 20)]
    titles = (_cell(nodes.Text(text)) for text in ("option", "meaning", "variable"))
    head = nodes.thead("", nodes.row("", *titles))
    body = nodes.tbody()
    for option in options:
        names = [nodes.literal(text=variable) for variable in option.variables]
        spaced = [node for name in names for node in (name, nodes.Text(" "))]
        body += nodes.row(
            "", _cell(nodes.literal(text=option.flags)), _cell(nodes.Text(option.meaning)), _cell(*spaced)
        )
    group += [head, body]
    table += group
    return table


def _cell(*content: nodes.Node) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", *content))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("elf-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
