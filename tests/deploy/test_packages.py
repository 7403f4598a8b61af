"""The packages: what their scripts do, the files they name; in `make test-deploy` both under systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
