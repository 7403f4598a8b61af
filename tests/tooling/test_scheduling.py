"""A run of tests ends whatever a test does to its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

CONFTEST = """
from tests.scheduling import FileByFile

def pytest_xdist_make_scheduler(config, log):
    return FileByFile(config, log)
"""
FINE = """
import pytest

@pytest.mark.parametrize("number", range({}))
def test_fine(number):
    pass
"""
DEADLY = """
import os

def test_before():
    pass

def test_deadly():
    os._exit(9)

def test_after():
    pass
"""


@pytest.mark.parametrize(
    "fine", [0, 40]
)  # so many tests more make its file the last to be begun, or the first
def test_a_run_ends_and_names_the_test_when_a_process_has_ended(fine: int, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(6):
        (tmp_path / f"test_fine_{number}.py").write_text(FINE.format(6 - number))
    (tmp_path / "test_deadly.py").write_text(DEADLY + FINE.format(fine) if fine else DEADLY)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*command, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": root},
        timeout=PATIENCE_S,
    )
    assert f"1 failed, {23 + fine} passed" in done.stdout, done.stdout + done.stderr
    assert "crashed while running 'test_deadly.py::test_deadly'" in done.stdout
    assert done.stdout.count("node down") == 1


APART = """
from pathlib import Path
from tests.scheduling import begin_apart, in_order

def pytest_configure(config):
    begin_apart(config, Path(__file__).parent)

def pytest_collection_modifyitems(config, items):
    in_order(config, items)
"""
IMPORTED = """
import os
from pathlib import Path

with (Path(__file__).parents[1] / os.environ["PYTEST_XDIST_WORKER"]).open("a") as file:
    file.write(__name__ + os.linesep)

def test_fine():
    pass
"""


def test_processes_begin_to_collect_at_different_folders_and_agree_on_the_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(APART)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(IMPORTED)
    words = ["-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    began = [(tmp_path / process).read_text().split()[0] for process in ("gw0", "gw1")]
    assert [name.rpartition(".")[2] for name in began] == ["test_one", "test_two"]
