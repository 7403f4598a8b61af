"""The commands of docs/history select what they state: a renamed test leaves no dead row."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from benchmarks import wide_area

TESTS = Path(__file__).parents[1]
PAGES = {
    "expectations": range(1, 15),
    "faults": range(31),
    "planned-replication": range(1, 30),
    "several-sites": range(1, 41),
}
"""The numbers of the points of each page."""
ROW = re.compile(r"^\| (\d+)(?:, (\d+))? ([^|]*) \| (.*) \|$", re.M)
COMMAND = re.compile(r"`([^`]+)`")


@cache
def rows(page: str) -> dict[int, list[str]]:
    """The commands of each point."""
    found = dict[int, list[str]]()
    for first, second, _, shown in ROW.findall((TESTS.parent / f"docs/history/{page}.md").read_text()):
        commands = [
            each for each in COMMAND.findall(shown) if each.split()[0] in ("pytest", "python", "make")
        ]
        found |= {int(point): commands for point in (first, second) if point}
    return found


def names(path: Path) -> set[str]:
    """The tests of a file, or of all files in a folder, with the texts from which their cases have names."""
    files = [path] if path.is_file() else [*path.rglob("test_*.py")]
    return set[str]().union(*(_names(ast.parse(file.read_text())) for file in files))


def _names(tree: ast.Module) -> set[str]:
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            inside = [each for decorator in node.decorator_list for each in ast.walk(decorator)]
            used = [
                assigned[each.id] for each in inside if isinstance(each, ast.Name) and each.id in assigned
            ]
            inside += [each for value in used for each in ast.walk(value)]
            found |= {each.value for each in inside if isinstance(each, ast.Constant) and each.value}
            found.add(node.name)
    return {each for each in found if isinstance(each, str)}


def fault(command: str, tests: Path = TESTS) -> str:
    """What is wrong with a command; "" if nothing is."""
    program, *words = shlex.split(command)
    if program == "python" and words[:3] == ["-m", "benchmarks", "wide_area"]:
        parts = {words[at + 1] for at, word in enumerate(words) if word == "--part"}
        return ", ".join(f"no part {each}" for each in sorted(parts - {*wide_area.PARTS}))
    if program != "pytest":
        return ""
    chosen = words[words.index("-k") + 1] if "-k" in words else ""
    paths = [tests / word for word in words if word not in ("-k", chosen)]
    if absent := [path.name for path in paths if not path.exists()]:
        return f"no {', '.join(absent)}"
    found = set[str]().union(*map(names, paths))
    unmatched = [word for word in chosen.split(" or ") if not any(word in name for name in found)]
    return f"no test {', '.join(unmatched)}" if unmatched else ""


@pytest.mark.parametrize("page", PAGES)
def test_each_point_has_a_command(page: str) -> None:
    assert sorted(rows(page)) == [*PAGES[page]]
    assert [point for point, commands in rows(page).items() if not commands] == []


@pytest.mark.parametrize(
    ("page", "point"), [(page, point) for page, points in PAGES.items() for point in points]
)
def test_the_commands_of_a_point_select_tests(page: str, point: int) -> None:
    assert [f"{command}: {wrong}" for command in rows(page)[point] if (wrong := fault(command))] == []


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("pytest docs/test_site.py -k 'links or words'", ""),
        ("pytest docs -k words", ""),
        ("pytest docs/test_site.py -k 'words or renamed'", "no test renamed"),
        ("pytest docs/test_site.py words", "no words"),
        ("pytest docs/test_gone.py", "no test_gone.py"),
        ("python -m benchmarks wide_area --part gone", "no part gone"),
        ("python -m benchmarks wide_area --part legs", ""),
    ],
)
def test_a_dead_command_is_found(command: str, wrong: str) -> None:
    assert fault(command) == wrong
