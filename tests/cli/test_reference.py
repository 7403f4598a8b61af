"""The help of all commands as data."""

from __future__ import annotations

import re

from elfmesh.cli.command_list import COMMANDS
from elfmesh.cli.reference import EVERYWHERE, commands


def test_every_command_is_described() -> None:
    found = {command.path[1]: command for command in commands()}
    assert list(found) == list(COMMANDS)
    everything = [each for command in found.values() for each in command.all()]
    assert ("elf", "ca", "issue") in {each.path for each in everything}
    for each in everything:
        assert each.summary, each.path
        assert each.paragraphs, each.path
        assert each.usage.startswith(" ".join(each.path)), each.path
        assert not any("\n" in paragraph or "\b" in paragraph for paragraph in each.paragraphs)
        flags = [flag for option in each.options for flag in re.findall(r"--([\w-]+)", option.flags)]
        assert not EVERYWHERE & set(flags), each.path
        assert all(option.meaning and option.variables for option in each.options), each.path


def test_new_commands_have_an_example() -> None:
    found = {command.path[1]: command for command in commands()}
    for name in ("run", "query", "results", "get", "status", "doctor", "report", "init"):
        assert any("Example: " in paragraph for paragraph in found[name].paragraphs), name
