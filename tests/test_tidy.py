"""What matters in the code's shape, checked on every run."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "elfmesh"
MODULES = sorted(PACKAGE.rglob("*.py"))
AROUND = sorted(
    path for room in ("tests", "benchmarks", "pyspark_elf") for path in (ROOT / room).rglob("*.py")
)
C_FILES = sorted(path for path in PACKAGE.rglob("csrc/*") if path.suffix in {".c", ".h"})
CORES = sorted(
    path
    for path in MODULES
    if path.parts[len(PACKAGE.parts)] in {"overlay", "cbt", "ql", "srt", "control"}
    or path.parent == PACKAGE
    or path == PACKAGE / "agent" / "runtime" / "core.py"
)
FORBIDDEN_IN_CORES = {
    "asyncio",
    "socket",
    "ssl",
    "time",
    "random",
    "threading",
    "secrets",
    "uuid",
    "selectors",
    "aiohttp",
}
LINES_MAX = 400
CONTENT_MAX = 300
"""Statements and lines of docstrings of a module: what a reader reads, however the formatter breaks it."""

FOLDER_MODULES_MAX = 25
FUNCTION_LINES_MAX = 70


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", CORES, ids=lambda p: str(p.relative_to(ROOT)))
def test_cores_own_no_clock_no_socket_no_dice(path: Path) -> None:
    assert not imported(ast.parse(path.read_text())) & FORBIDDEN_IN_CORES


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_stay_readable(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LINES_MAX
    tree = ast.parse(text)
    assert content(tree) <= CONTENT_MAX, "divide it where it has two subjects"
    assert ast.get_docstring(tree), "a module says what it owns"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def content(tree: ast.Module) -> int:
    """The statements of a module, and the lines of its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        each.body[0]
        for each in ast.walk(tree)
        if isinstance(each, documented) and ast.get_docstring(each, clean=False) is not None
    ]
    lines = sum((each.end_lineno or each.lineno) - each.lineno for each in docstrings)
    return sum(isinstance(each, ast.stmt) for each in ast.walk(tree)) + lines


def test_statements_and_docstrings_are_counted() -> None:
    head = '"""One.\n\nThree.\n"""\nimport a\n'
    function = 'def f(\n    x,\n):\n    """One."""\n    return [\n        x,\n    ]\n'
    assert content(ast.parse(head)) == 4 + 1
    assert content(ast.parse(head + function)) == 4 + 1 + 3


def test_no_folder_is_a_heap() -> None:
    """A newcomer finds a module by the names of folders; a folder of many modules has no name that helps."""
    folders = Counter(
        path.parent
        for path in (*MODULES, *AROUND)
        if path.name != "__init__.py" and path.is_relative_to(ROOT) and "benchmarks" not in path.parts
    )
    heaps = {
        str(folder.relative_to(ROOT)): count
        for folder, count in folders.items()
        if count > FOLDER_MODULES_MAX
    }
    assert heaps == {}


def test_modules_of_tests_and_benchmarks_stay_readable() -> None:
    long = [str(path.relative_to(ROOT)) for path in AROUND if path.read_text().count("\n") > LINES_MAX]
    assert long == []


def test_a_mark_that_silences_a_tool_has_its_reason_beside_it() -> None:
    mark = re.compile(r"#\s*(noqa|type: ignore|pragma: no cover)")
    reasoned = re.compile(
        r"# noqa: [A-Z0-9, ]+ - \w|# type: ignore\[[a-z, -]+\]  # \w|# pragma: no cover - \w",
    )
    guilty = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (*MODULES, *AROUND, ROOT / "setup.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if mark.search(line) and not reasoned.search(line)
    ]
    assert guilty == []


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_c_files_stay_readable(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("/*"), "a file says what it owns"
    assert text.count("\n") <= LINES_MAX
    assert max(map(len, text.splitlines())) <= 120


CLOCKS = {
    f"{clock}{unit}"
    for clock in ("monotonic", "perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
}
CLOCK = re.compile("|".join(sorted(CLOCKS)))
TESTS = [path for path in AROUND if path.is_relative_to(ROOT / "tests")]


def reads_a_clock(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and getattr(each.func, "attr", getattr(each.func, "id", "")) in CLOCKS
        for each in ast.walk(node)
    )


def asserted_times(tree: ast.AST) -> list[int]:
    """Lines that assert an upper limit of a measured time, except the limit of a wait inside its loop."""
    lines = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = list(ast.walk(function))
        waits = {id(each) for loop in inside if isinstance(loop, ast.While) for each in ast.walk(loop)}
        spans = {
            target.id
            for each in inside
            if isinstance(each, ast.Assign) and reads_a_clock(each.value)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        lines += [
            each.lineno
            for each in inside
            if isinstance(each, ast.Assert) and id(each) not in waits and _limits_from_above(each.test, spans)
        ]
    return lines


def _limits_from_above(test: ast.expr, spans: set[str]) -> bool:
    def measured(node: ast.AST) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return reads_a_clock(node) or bool(names & spans)

    return any(
        (measured(left) and isinstance(operator, ast.Lt | ast.LtE))
        or (measured(right) and isinstance(operator, ast.Gt | ast.GtE))
        for each in ast.walk(test)
        if isinstance(each, ast.Compare)
        for left, operator, right in zip(
            [each.left, *each.comparators], each.ops, each.comparators, strict=False
        )
    )


def test_no_test_asserts_how_long_something_takes() -> None:
    """A loaded machine takes ten times as long: count steps, and let waits end on a condition."""
    guilty = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in TESTS
        if CLOCK.search(text := path.read_text())
        for line in asserted_times(ast.parse(text))
    ]
    assert guilty == []


def test_no_test_has_a_time_out_of_its_own() -> None:
    """The limit in pyproject.toml ends a hang; a shorter one decides an outcome by the machine's load."""
    guilty = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in TESTS
        if "timeout" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr == "timeout"
        and ast.unparse(node.value).endswith("mark")
    ]
    assert guilty == []


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("began = time.monotonic()\nwork()\nassert time.monotonic() - began < 5", [4]),
        ("began = time.monotonic()\nwork()\ntook = time.monotonic() - began\nassert took <= 5", [5]),
        ("began = perf_counter()\nassert 5 > perf_counter() - began, 'slow'", [3]),
        ("end = time.monotonic() + 300\nwhile not there():\n  assert time.monotonic() < end", []),
        ("began = time.monotonic()\nwork()\nassert time.monotonic() - began >= 0.2", []),
        ("assert steps() < 5", []),
    ],
)
def test_asserted_times_are_found(body: str, lines: list[int]) -> None:
    indented = "\n".join(f"  {line}" for line in body.split("\n"))
    assert asserted_times(ast.parse(f"def test():\n{indented}")) == lines


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_no_machine_paths_and_no_unfinished_marks() -> None:
    marks = re.compile(r"/root/|/work/|/home/\w+/|\bTODO\b|\bFIXME\b|raise NotImplementedError")
    guilty = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".elfql", ""} and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if marks.search(line)
    ]
    assert guilty == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)} -> {target}"
        for path in tracked()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []
