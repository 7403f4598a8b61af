"""What matters in the code's shape, checked on every run."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "elfmesh"
MODULES = sorted(PACKAGE.rglob("*.py"))
AROUND = sorted(
    path for room in ("tests", "benchmarks", "pyspark_elf") for path in (ROOT / room).rglob("*.py")
)
C_FILES = sorted(path for path in PACKAGE.rglob("csrc/*") if path.suffix in {".c", ".h"})
SHELL = {
    PACKAGE / "control" / name
    for name in ("api.py", "client.py", "authority/web.py", "cli", "identity", "web")
}
"""Of control, what speaks HTTP, TLS or with people; the rest are machines and what they are made of."""

CORES = sorted(
    path
    for path in MODULES
    if path.parts[len(PACKAGE.parts)] in {"overlay", "cbt", "srt"}
    or path.parent == PACKAGE
    or (path.is_relative_to(PACKAGE / "control") and not SHELL & {path, *path.parents})
    or path == PACKAGE / "agent" / "core.py"
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
    assert ast.get_docstring(tree), "a module says what it owns"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", AROUND, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_of_tests_and_benchmarks_stay_readable(path: Path) -> None:
    assert path.read_text().count("\n") <= LINES_MAX


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
