"""The packages: what their scripts do, the files they name; in `make test-deploy` both under systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "deploy" / "packages"
CONTAINER = os.environ.get("ELF_TEST_DEPLOY", "")
"""A directory with the packages, where `make test-deploy` asks for the slow test."""


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_a_shell_accepts_the_script(name: str) -> None:
    done = subprocess.run(
        ["sh", "-n", PACKAGES / "debian" / name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_data_goes_on_purge_only() -> None:
    for name in ("postinst", "prerm", "postrm"):
        text = (PACKAGES / "debian" / name).read_text()
        before, purge, _ = text.partition('"$1" = purge')
        assert "rm -rf" not in before
        assert bool(purge) == (name == "postrm")


def test_both_packages_have_the_same_files() -> None:
    staged = set(re.findall(r'"(usr/lib/\S+|etc/\S+)"\)', (PACKAGES / "build.py").read_text()))
    assert len(staged) == 5
    spec = (PACKAGES / "rpm" / "elfmesh.spec").read_text()
    listed = set(re.findall(r"^(?:%config\(noreplace\) )?/((?:usr/lib|etc)/\S+)$", spec, re.M))
    assert listed == staged


def packed(root: Path, umask: int, timezone: str) -> bytes:
    """The deb of a small wheel, built from a copy of the sources at a path of its own."""
    for folder in ("deploy", "docs/operations"):
        shutil.copytree(ROOT / folder, root / folder)
    for path in sorted(root.rglob("*"), reverse=bool(umask)):
        path.touch()
    (root / "deploy/release/requirements.lock").write_text("")
    files = {
        "elfmesh/__init__.py": "",
        "elfmesh/cli/entry.py": 'def main() -> int:\n    return int(__name__ in {"a", "b", "c"})\n',
    }
    about = "elfmesh-1.2.3.dist-info"
    files[f"{about}/METADATA"] = "Metadata-Version: 2.1\nName: elfmesh\nVersion: 1.2.3\n"
    files["elfmesh-1.2.3.data/data/share/man/man1/elf.1"] = '.TH "ELF" "1"\n'
    files[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    wheel = root / "elfmesh-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    done = subprocess.run(
        [
            sys.executable,
            root / "deploy/packages/build.py",
            "--wheel",
            wheel,
            "--out",
            root,
            "--formats",
            "deb",
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "TZ": timezone, "PYTHONHASHSEED": str(umask)},
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )
    assert done.returncode == 0, done.stderr
    (made,) = root.glob("*.deb")
    return made.read_bytes()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here")
def test_a_deb_does_not_depend_on_the_place_and_the_user_of_its_build(tmp_path: Path) -> None:
    there = tmp_path / "a path" / "that is longer"
    assert packed(tmp_path / "here", 0o022, "UTC") == packed(there, 0o077, "Asia/Kathmandu")


@pytest.mark.slow
@pytest.mark.skipif(not CONTAINER, reason="minutes, root and the network: make test-deploy")
def test_the_packages_under_a_real_systemd(tmp_path: Path) -> None:
    for name in ("debootstrap", "systemd-nspawn"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not here")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (deb,), (rpm,) = Path(CONTAINER).glob("*.deb"), Path(CONTAINER).glob("*.rpm")
    root = tmp_path / "root"
    wanted = "systemd,systemd-sysv,python3,rpm"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={wanted}", "bookworm", root], check=True, timeout=600
    )
    shutil.copy(deb, root / "elfmesh.deb")
    shutil.copy(rpm, root / "elfmesh.rpm")
    subprocess.run(["chroot", root, "dpkg", "-i", "/elfmesh.deb"], check=True, timeout=PATIENCE_S)
    shutil.copy(Path(__file__).parent / "in_container.sh", root / "check.sh")
    (root / "check.sh").chmod(0o755)
    unit = root / "etc/systemd/system/check.service"
    unit.write_text("[Unit]\nAfter=multi-user.target\n[Service]\nType=idle\nExecStart=/check.sh\n")
    (root / "etc/systemd/system/multi-user.target.wants").mkdir(exist_ok=True)
    (root / "etc/systemd/system/multi-user.target.wants/check.service").symlink_to("../check.service")
    subprocess.run(
        ["systemd-nspawn", "-q", "-D", root, "--private-network", "--register=no", "--keep-unit", "--boot"],
        check=False, timeout=400, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    report = (root / "report").read_text().splitlines()
    assert [line for line in report if line.startswith("not ok")] == []
    assert report[-1] == "end"
    assert len(report) > 40
