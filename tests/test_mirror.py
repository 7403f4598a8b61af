"""Tests mirror the modules: a reader of `elfmesh/ROOM/MODULE.py` finds its tests without a search.

They are in `tests/ROOM/test_MODULE.py`, in `tests/ROOM/test_MODULE_ASPECT.py`, or in files of
`tests/ROOM/MODULE/`. A module without such a file is in `UNTESTED` with the reason. A new module has tests.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "elfmesh"
LINES_MAX = 60
"""A module of more lines has a test file of its own."""

UNTESTED = {
    "declares shapes, protocols or names, and decides nothing": """
        control/closing/closing_term control/closing/ports control/protocol/events control/protocol/fences
        control/protocol/messages
    """,
    "tested as a part of its machine in tests/control, whose parts have few files of their own": """
        control/requests/job_verbs control/requests/verbs control/master/verification
    """,
}
"""Why a module has no test file of its own: the modules without their suffix."""


def files_of(module: Path, package: Path, tests: Path) -> list[Path]:
    """The test files of a module; `test_page_files.py` is of `page_files.py` where there is such a module."""
    if module.name == "__init__.py":
        module = module.parent.with_suffix(".py")
    name, room = module.stem, tests / module.parent
    longer = [path.stem for path in (package / module.parent).glob(f"{name}_*.py")]
    aspects = [
        path
        for path in room.glob(f"test_{name}_*.py")
        if not any(f"{path.stem}_".startswith(f"test_{other}_") for other in longer)
    ]
    inside = [] if (package / module).with_suffix("").is_dir() else (room / name).glob("test_*.py")
    return sorted([*room.glob(f"test_{name}.py"), *aspects, *inside])


def has_behaviour(text: str) -> bool:
    """Whether a module is long and decides something.

    Modules that declare shapes decide nothing: records with their fields, protocols, and tables of constants.
    They have no function with a statement, and no comprehension, choice or lambda.
    """
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    choices = (ast.Lambda, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    decides = any(
        isinstance(node, choices) or (isinstance(node, functions) and not is_signature(node))
        for node in ast.walk(ast.parse(text))
    )
    return decides and text.count("\n") > LINES_MAX


def is_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a signature with a docstring or an ellipsis, as those of protocols are."""
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in function.body)


def test_every_module_has_its_test_file_or_a_reason() -> None:
    modules = {path.relative_to(PACKAGE): path.read_text() for path in PACKAGE.rglob("*.py")}
    without = {
        module.with_suffix("").as_posix()
        for module, text in modules.items()
        if has_behaviour(text) and not files_of(module, PACKAGE, ROOT / "tests")
    }
    listed = [module for modules in UNTESTED.values() for module in modules.split()]
    assert sorted(without - set(listed)) == [], "write its tests"
    assert sorted(set(listed) - without) == [], "it has tests, or is gone: take it off the list"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("a/parser.py", ["a/test_parser.py", "a/test_parser_errors.py"]),
        ("a/parser_cells.py", ["a/test_parser_cells_wide.py"]),
        ("a/pars.py", []),
        ("a/tree.py", ["a/tree/test_depth.py"]),
        ("a/__init__.py", ["test_a.py"]),
        ("a/b/__init__.py", []),
        ("b.py", []),
    ],
)
def test_files_are_found_by_their_names(module: str, files: list[str], tmp_path: Path) -> None:
    package, tests = tmp_path / "package", tmp_path / "tests"
    names = ["parser", "parser_errors", "parser_cells_wide"]
    paths = ["test_a.py", "a/tree/test_depth.py", "a/b/test_c.py", *(f"a/test_{name}.py" for name in names)]
    for path in (package / "a/parser_cells.py", package / "a/b/c.py", *(tests / path for path in paths)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = files_of(Path(module), package, tests)
    assert [path.relative_to(tests).as_posix() for path in found] == files


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("def f(): return 1\n" * 61, True),
        ("def f(): return 1\n" * 60, False),
        ("import a\n" * 100, False),
        ("import a\n" * 60 + "class A:\n    x: int = 1\n", False),
        ("import a\n" * 60 + "class A:\n    x: int = 1\n    def f(self): return self.x\n", True),
        ("import a\n" * 60 + "class A(Protocol):\n    def f(self) -> int: ...\n", False),
        (
            "import a\n" * 60 + 'class A(Protocol):\n    async def f(self):\n        """It."""\n',
            False,
        ),
        ("import a\n" * 60 + "TABLE = {1: 2}\n", False),
        ("import a\n" * 60 + "TABLE = {x: 2 for x in a}\n", True),
        ("import a\n" * 60 + "KEY = lambda x: x\n", True),
    ],
)
def test_only_long_modules_that_decide_something_need_tests(text: str, has: bool) -> None:
    assert has_behaviour(text) is has
