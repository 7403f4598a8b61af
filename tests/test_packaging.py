"""What users install: a wheel for every Python from 3.11 on, and a build that works without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
MODULES = {"elfmesh/cbt/kernel/_native.abi3.so", "elfmesh/ingest/parsers/_scan.abi3.so"}
PROBE = """
from elfmesh.cbt import kernel
import numpy as np
table = kernel.active.table(1)
ids = table.upsert(kernel.Keys(np.array([0, 1, 2, 3], np.int32), np.frombuffer(b"aba", np.uint8)))
print(kernel.active.__name__, ids.tolist(), kernel.fallback_reason, sep="|")
"""

pytestmark = [pytest.mark.slow]


def build(source: Path, into: Path, **environment: str) -> Path:
    """The wheel built from a source distribution, by the setuptools at hand."""
    arguments = ["-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [sys.executable, *arguments, "--no-build-isolation", "--wheel-dir", str(into), str(source)],
        check=True,
        env={**os.environ, **environment},
        timeout=PATIENCE_S,
    )
    (wheel,) = into.glob("*.whl")
    return wheel


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def probe(wheel: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Import the package out of the wheel, and nothing from this checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return subprocess.run(
        [sys.executable, "-P", "-c", PROBE],
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, made from a copy, so that nothing built before gets in."""
    folder = tmp_path_factory.mktemp("source")
    without = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for package in ("elfmesh", "pyspark_elf"):
        shutil.copytree(ROOT / package, folder / package, ignore=without)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md"):
        shutil.copy(ROOT / name, folder)
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", "made"],
        cwd=folder,
        check=True,
        timeout=PATIENCE_S,
        capture_output=True,
    )
    (archive,) = (folder / "made").glob("*.tar.gz")
    return archive


def test_the_source_distribution_has_what_the_build_needs(source: Path) -> None:
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("elfmesh/cbt/kernel/csrc", "elfmesh/ingest/parsers/csrc"):
        needed = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("*.[ch]")}
        assert needed
        assert needed <= inside


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="needs a C compiler")
def test_one_wheel_serves_every_python_and_needs_no_compiler(source: Path, tmp_path: Path) -> None:
    wheel = build(source, tmp_path / "wheels", ELFMESH_REQUIRE_NATIVE="1")
    assert "-cp311-abi3-" in wheel.name
    inside = names(wheel)
    assert inside >= MODULES
    assert inside >= {"elfmesh/py.typed", "elfmesh/cbt/kernel/_native.pyi"}
    page = "elfmesh/api/web/page/static"
    assert inside >= {f"{page}/index.html", f"{page}/vendor/codemirror.js", f"{page}/vendor/LICENSES.txt"}
    assert not [name for name in inside if name.endswith((".c", ".h"))]
    outcome = probe(wheel, tmp_path / "installed", ELF_KERNEL="native")
    assert outcome.stdout.strip() == "elfmesh.cbt.kernel.native|[0, 1, 0]|", outcome.stderr


def test_without_a_compiler_numpy_takes_the_place_of_the_native_kernel_and_reports_why(
    source: Path, tmp_path: Path
) -> None:
    wheel = build(source, tmp_path / "wheels", CC="false", ELFMESH_REQUIRE_NATIVE="")
    assert not [name for name in names(wheel) if name.endswith(".so")]
    outcome = probe(wheel, tmp_path / "installed", ELF_KERNEL="")
    assert outcome.stdout.startswith("elfmesh.cbt.kernel.numpy_twin|[0, 1, 0]|the native kernel"), (
        outcome.stderr
    )
    forced = probe(wheel, tmp_path / "forced", ELF_KERNEL="native")
    assert forced.returncode != 0
    assert "Install a wheel for this platform" in forced.stderr


def test_native_code_can_be_left_out_on_purpose(source: Path, tmp_path: Path) -> None:
    wheel = build(source, tmp_path / "wheels", ELFMESH_NO_NATIVE="1")
    assert wheel.name.endswith("-py3-none-any.whl")
