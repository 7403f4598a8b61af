"""A release: the same sources give the same bytes, the lock fits, and one signature covers all files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.exhaustive import nightly
from tests.patience import PATIENCE_S

packaging = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "deploy" / "release"
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+?)(?: ; .*)? \\$", re.M)
NEEDS_SSH = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def release(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RELEASE / "release.py", *words],
        env=environment or None, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def locked(name: str) -> dict[str, list[str]]:
    """The versions of each package; a lock for all platforms may have several."""
    found: dict[str, list[str]] = {}
    for package, pinned in PINNED.findall((RELEASE / name).read_text()):
        found.setdefault(package, []).append(pinned)
    return found


@pytest.mark.parametrize("name", ["requirements.lock", "tools.lock"])
def test_each_line_of_a_lock_has_its_version_and_hashes(name: str) -> None:
    text = (RELEASE / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert all(PINNED.match(entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in text, "a lock names no host"


def test_the_lock_satisfies_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"^LOCK_EXTRAS := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    assert extras is not None
    declared = list(project["dependencies"])
    declared += [line for extra in extras[1].split(",") for line in project["optional-dependencies"][extra]]
    pinned = locked("requirements.lock")
    for line in declared:
        wanted = packaging.Requirement(line)
        found = pinned.get(wanted.name.lower().replace("_", "-"), [])
        assert found, f"{line}: make lock"
        assert all(wanted.specifier.contains(each) for each in found), f"{line}: {found}; make lock"


def packed(folder: Path, umask: int, when: int) -> bytes:
    """A source distribution of one small project, packed on a machine with other habits."""
    made = folder / "thing-1.tar.gz"
    source = folder / "thing-1"
    (source / "sub").mkdir(parents=True)
    for name in ("setup.py", "sub/a.py"):
        (source / name).write_text(f"# {name}\n")
        (source / name).chmod(0o666 & ~umask)
    with tarfile.open(made, "w:gz") as archive:
        for path in sorted([source, *source.rglob("*")], reverse=bool(umask)):
            member = archive.gettarinfo(path, path.relative_to(folder).as_posix())
            member.mtime, member.uid, member.uname = when, umask, f"user{umask}"
            archive.addfile(member, io.BytesIO(path.read_bytes()) if path.is_file() else None)
    done = release("sdist", made, SOURCE_DATE_EPOCH="1700000000")
    assert done.returncode == 0, done.stderr
    with tarfile.open(made) as archive:
        assert {member.mtime for member in archive} == {1_700_000_000}
        assert archive.extractfile("thing-1/sub/a.py").read() == b"# sub/a.py\n"  # type: ignore[union-attr]  # a file
    return made.read_bytes()


def test_a_source_distribution_does_not_depend_on_the_user_that_packs_it(tmp_path: Path) -> None:
    assert packed(tmp_path / "one", 0o022, 1) == packed(tmp_path / "two", 0, 1_600_000_000)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "elfmesh-release"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=PATIENCE_S
    )
    return path


@pytest.fixture
def dist(tmp_path: Path, key: Path) -> Path:
    """A release whose wheel and SBOM tool stand in for the real ones; `make release` runs those."""
    out, tools = tmp_path / "dist", tmp_path / "tools"
    out.mkdir()
    tools.mkdir()
    (out / "elfmesh-1.2.3-cp311-abi3-linux_x86_64.whl").write_bytes(b"a wheel")
    (out / "elfmesh-1.2.3.tar.gz").write_bytes(b"sources")
    (tools / "cyclonedx-py").write_text('#!/bin/sh\nfor last; do :; done\necho "{}" > "$last"\n')
    (tools / "cyclonedx-py").chmod(0o755)
    done = release("finish", "--key", key, "--out", out, "--tools", tools)
    assert done.returncode == 0, done.stderr
    return out  # beside the public key, which is elfmesh-release.pub


def verify(dist: Path) -> list[int]:
    """Exit codes of the commands that deploy/README.md shows."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "deploy/README.md").read_text(), re.M | re.S)
    signers, *commands = block.replace("elfmesh-release.pub", "../elfmesh-release.pub").splitlines()
    commands = [command.replace("-f allowed_signers", "-f ../allowed_signers") for command in commands]
    subprocess.run(signers.replace("> allowed", "> ../allowed"), shell=True, cwd=dist, check=True)
    return [
        subprocess.run(command, shell=True, cwd=dist, capture_output=True, check=False).returncode
        for command in commands
    ]


@NEEDS_SSH
def test_the_documented_commands_verify_a_release(dist: Path) -> None:
    assert verify(dist) == [0, 0]
    listed = {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in dist.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    assert listed >= {"elfmesh-1.2.3.requirements.lock", "elfmesh-1.2.3.cdx.json"}


@NEEDS_SSH
def test_a_changed_file_or_list_or_another_key_does_not_verify(dist: Path, tmp_path: Path) -> None:
    wheel = next(dist.glob("*.whl"))
    wheel.write_bytes(b"another wheel")
    signature, sums = verify(dist)
    assert signature == 0
    assert sums != 0
    text = (dist / "SHA256SUMS").read_text()
    (dist / "SHA256SUMS").write_text(text.replace(text[:8], "0" * 8))
    assert verify(dist)[0] != 0
    (dist / "SHA256SUMS").write_text(text)
    assert verify(dist)[0] == 0
    other = tmp_path / "other"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True, timeout=PATIENCE_S
    )
    shutil.copy(other.with_suffix(".pub"), tmp_path / "elfmesh-release.pub")
    assert verify(dist)[0] != 0


def test_without_a_key_nothing_is_built(tmp_path: Path) -> None:
    for key, reported in (("", "make release KEY=path"), (str(tmp_path / "none"), "there is no such key")):
        done = release("check", "--key", key)
        assert done.returncode == 1
        assert reported in done.stderr


@NEEDS_SSH
def test_what_cannot_sign_is_refused_before_anything_is_built(tmp_path: Path, key: Path) -> None:
    assert release("check", "--key", key).returncode == 0
    key.write_bytes(key.read_bytes().replace(b"KEY", b"TEXT"))
    key.with_suffix(".pub").unlink()
    done = release("check", "--key", key)
    assert done.returncode == 1
    assert f"{key}: cannot sign with it" in done.stderr


def test_tools_that_are_missing_are_reported_before_anything_is_built(tmp_path: Path) -> None:
    script = ROOT / "deploy" / "packages" / "build.py"
    done = subprocess.run(
        [sys.executable, script, "--check"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "not found: dpkg-deb, rpmbuild" in done.stderr
    (tmp_path / "dpkg-deb").symlink_to("/bin/true")
    words: list[str | Path] = [sys.executable, script, "--check", "--formats", "deb"]
    assert subprocess.run(words, env={"PATH": str(tmp_path)}, check=False).returncode == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "dpkg-deb"]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """A copy of what git tracks, where `make` leaves this checkout alone."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to the project")

    def run(folder: str, *words: str) -> Path:
        copy = tmp_path / folder
        subprocess.run(["git", "clone", "-q", ROOT, copy], check=True, timeout=PATIENCE_S)
        (copy / ".venv").symlink_to(ROOT / ".venv")
        for name in ("pyproject.toml", "setup.py"):
            os.utime(copy / name, (0, 0))  # older than the environment: make leaves that alone
        subprocess.run(["make", *words], cwd=copy, check=True)
        return copy / "dist"

    return run


@pytest.mark.slow
@nightly  # packs all of Python twice, which takes minutes on a quiet machine
@NEEDS_SSH
def test_two_builds_of_a_release_are_the_same_files(make: Callable[..., Path], key: Path) -> None:
    """Needs the package index, dpkg-deb and a compiler; an rpm too where rpmbuild is; that one differs."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb")
    formats = "deb,rpm" if shutil.which("rpmbuild") else "deb"
    one, two = (make(name, "release", f"KEY={key}", f"FORMATS={formats}") for name in ("one", "two"))
    kinds = {path.suffix for path in one.iterdir()}
    assert kinds >= {".gz", ".whl", ".deb", ".lock", ".json", ".sig"}
    sbom = json.loads(next(one.glob("*.cdx.json")).read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    assert {each["name"] for each in sbom["components"]} >= {"pyarrow", "aiohttp", "msgspec"}
    same = {path.name for path in one.iterdir() if (two / path.name).read_bytes() == path.read_bytes()}
    assert {path.name for path in one.iterdir()} - {path.name for path in one.glob("*.rpm")} == same
    shutil.copy(key.with_suffix(".pub"), one.parent / "elfmesh-release.pub")
    assert verify(one) == [0, 0]
