"""The units: accepted by systemd, closed as far as stated, and the two of them the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from elfmesh.cli.host.validation import validate
from tests.patience import PATIENCE_S

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
EXPOSURE_MAX = 1.6
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def installed(folder: Path, unit: str, change: tuple[str, str] = ("", "")) -> Path:
    """The unit with commands that are here."""
    text = (UNITS / unit).read_text().replace("/usr/bin/elf", shutil.which("true") or "/bin/true")
    target = folder / unit.replace("@", "@one")
    target.write_text(text.replace(*change) if change[0] else text)
    return target


@needs_systemd
@pytest.mark.parametrize("unit", ["elf-agent.service", "elf-agent@.service"])
def test_systemd_finds_nothing_wrong(tmp_path: Path, unit: str) -> None:
    done = analyze("verify", "--man=no", "--recursive-errors=no", str(installed(tmp_path, unit)))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_systemd_would_find_a_key_it_does_not_know(tmp_path: Path) -> None:
    wrong = installed(tmp_path, "elf-agent.service", ("WatchdogSec=", "WatchDogSec="))
    assert "WatchDogSec" in analyze("verify", "--man=no", "--recursive-errors=no", str(wrong)).stderr


@needs_systemd
@pytest.mark.parametrize("unit", ["elf-agent.service", "elf-agent@.service"])
def test_exposure_is_as_stated(tmp_path: Path, unit: str) -> None:
    done = analyze("security", "--offline=yes", "--no-pager", str(installed(tmp_path, unit)))
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= EXPOSURE_MAX
    readme = (UNITS.parent / "README.md").read_text()
    assert f"exposure {EXPOSURE_MAX}" in readme


def test_the_unit_for_several_differs_in_names_only() -> None:
    one = (UNITS / "elf-agent.service").read_text().splitlines()
    several = (UNITS / "elf-agent@.service").read_text().splitlines()
    assert len(one) == len(several)
    differing = [pair for pair in zip(one, several, strict=True) if pair[0] != pair[1]]
    assert all("%i" in new for _, new in differing)
    assert {old.partition("=")[0] for old, _ in differing} == {
        "Description", "ConditionPathExists", "EnvironmentFile", "ExecStartPre", "ExecStart",
        "StateDirectory", "RuntimeDirectory",
    }  # fmt: skip


def test_the_example_configuration_is_valid(tmp_path: Path) -> None:
    example = tmp_path / "agent.toml"
    example.write_text((UNITS / "agent.toml.example").read_text())
    (checked,) = validate([str(example)])
    assert not checked.problems
