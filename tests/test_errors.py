"""The tree of errors: its drawing, its exit codes, and that no class of the package stands outside."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import pytest

from elfmesh import errors

BRANCH = re.compile(r" {4}(?P<before>(?:[| ]  )*)(?P<end>[|`])- (?P<name>\w+) +(?P<code>\d+|-) ")

ROOT = Path(__file__).parents[1]
NEVER_SHOWN = {"ProtocolError", "ControlFlow"}
OUTSIDE = {
    "elfmesh.ingest.functions.child.Broken": "the script of a confined process imports nothing of the package"
}
Bases = dict[str, list[str]]


def drawn() -> list[tuple[str, str, str, bool]]:
    """Each branch of the drawing: name, parent, exit code, and whether it stands last under its parent."""
    path = ["ElfError"]
    branches = []
    for line in (errors.__doc__ or "").splitlines():
        if found := BRANCH.match(line):
            depth = len(found["before"]) // 3 + 1
            path[depth:] = [found["name"]]
            branches.append((found["name"], path[depth - 1], found["code"], found["end"] == "`"))
    return branches


def test_the_drawing_is_the_tree_of_the_classes() -> None:
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.ElfError)
    }
    branches = drawn()
    assert {name for name, *_ in branches} == classes.keys() - {"ElfError"}
    for name, parent, code, _ in branches:
        assert classes[name].__bases__ == (classes[parent],), name
        assert code == ("-" if name in NEVER_SHOWN else str(classes[name].exit_code)), name
    for parent in {parent for _, parent, *_ in branches}:
        lasts = [last for _, its, _, last in branches if its == parent]
        assert lasts == [False] * (len(lasts) - 1) + [True], parent


@pytest.mark.parametrize(
    ("kind", "remote"),
    [
        (errors.UsageError, False),
        (errors.QueryError, False),
        (errors.DataError, False),
        (errors.ConfigError, False),
        (errors.StorageError, False),
        (errors.Unreachable, True),
        (errors.ProtocolError, True),
    ],
)
def test_a_local_mistake_is_never_a_remote_one(kind: type[errors.ElfError], remote: bool) -> None:
    assert issubclass(kind, errors.RemoteError) is remote
    assert issubclass(kind, errors.LocalError) is not remote


def bases_of(module: str, text: str) -> Bases:
    """The classes of a module by their full names, each with the full names of its bases."""
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            names[node.name] = f"{module}.{node.name}"

    def full(base: ast.expr) -> str:
        head, _, rest = ast.unparse(base).partition(".")
        return ".".join(filter(None, (names.get(head, head), rest)))

    return {
        names[node.name]: [full(base) for base in node.bases]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def outsiders(classes: Bases) -> list[str]:
    """Exception classes that are not made from ElfError."""

    def roots(name: str, met: frozenset[str] = frozenset()) -> set[str]:
        bases = [base for base in classes.get(name, ()) if base not in met]
        return {root for base in bases for root in roots(base, met | {name})} or {name}

    def is_exception(root: str) -> bool:
        kind = getattr(builtins, root, None)
        if isinstance(kind, type):
            return issubclass(kind, BaseException)
        # A class of a library, by its name.
        return root not in classes and root.endswith(("Error", "Exception", "Warning", "Exit"))

    def inside(name: str) -> bool:
        return name == "elfmesh.errors.ElfError" or any(map(inside, classes.get(name, ())))

    return sorted(name for name in classes if any(map(is_exception, roots(name))) and not inside(name))


def test_no_exception_class_of_the_package_stands_outside_the_tree() -> None:
    classes: Bases = {}
    for room in ("elfmesh", "pyspark_elf"):
        for path in (ROOT / room).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            classes |= bases_of(module, path.read_text())
    assert outsiders(classes) == sorted(OUTSIDE)


TREE = {"elfmesh.errors.ElfError": ["Exception"], "elfmesh.errors.DataError": ["elfmesh.errors.ElfError"]}


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("class A(Exception): ...", ["m.A"]),
        ("class A(ValueError): ...", ["m.A"]),
        ("class A(Exception): ...\nclass B(A): ...", ["m.A", "m.B"]),
        ("import click\nclass A(click.ClickException): ...", ["m.A"]),
        ("from asyncio import IncompleteReadError as Short\nclass A(Short): ...", ["m.A"]),
        ("from elfmesh.errors import DataError\nclass A(DataError): ...", []),
        ("from elfmesh.errors import DataError as Wrong\nclass A(OSError, Wrong): ...", []),
        ("from elfmesh import errors\nclass A(errors.DataError): ...\nclass B(A): ...", []),
        ("class Error: ...\nclass A(Error): ...", []),
        ("class A(dict): ...", []),
    ],
)
def test_classes_outside_the_tree_are_found(text: str, outside: list[str]) -> None:
    assert outsiders(TREE | bases_of("m", text)) == outside
