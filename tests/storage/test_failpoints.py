"""Places at which tests kill or fail an agent: each is in the code, and does what it says once."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.errors import ConfigError, StorageError
from elfmesh.storage import failpoints
from elfmesh.storage.storage import DiskStorage

PACKAGE = Path(failpoints.__file__).parents[1]


def test_every_place_is_reached_somewhere_and_every_reached_place_is_known() -> None:
    found = {
        name
        for path in PACKAGE.rglob("*.py")
        if path.name != "failpoints.py"
        for name in re.findall(r'\breach\("([a-z.]+)"', path.read_text())
    }
    assert found == set(failpoints.PLACES)


def test_an_armed_place_acts_at_its_nth_time_and_only_then() -> None:
    hits: list[str] = []
    with failpoints.armed("persist.vote", lambda: hits.append("vote"), n=2):
        for kind in ("vote", "epoch", "vote", "vote"):
            failpoints.reach("persist", kind)
            hits.append(kind)
    failpoints.reach("persist", "vote")
    assert hits == ["vote", "epoch", "vote", "vote", "vote"]


@pytest.mark.parametrize("text", ["nowhere", "seal:0", "seal:x", "seal:1:jump", "sealing", "frame"])
def test_a_place_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ELF_FAILPOINT"):
        failpoints.arm_from({failpoints.VARIABLE: text})
    failpoints.reach("seal")


@pytest.mark.parametrize(("action", "code"), [("kill", -signal.SIGKILL), ("full", 3)])
def test_the_environment_kills_a_process_at_the_place_it_names(
    tmp_path: Path, action: str, code: int
) -> None:
    program = f"""
import os, sys
from pathlib import Path
from elfmesh.storage import failpoints
from elfmesh.storage.storage import DiskStorage
from elfmesh.errors import StorageError
failpoints.arm_from(os.environ)
file = DiskStorage(Path({str(tmp_path)!r})).open("a")
file.append(b"one")
try:
    file.append(b"two")
except StorageError:
    sys.exit(3)
"""
    environment = {"PATH": "", failpoints.VARIABLE: f"storage.append:2:{action}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    assert (tmp_path / "a").read_bytes() == b"one"


def test_a_full_disk_is_a_storage_error_that_names_the_file(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    file = storage.open("a")
    with (
        failpoints.armed("storage.append", failpoints.ACTIONS["full"]),
        pytest.raises(StorageError, match="the disk is full"),
    ):
        file.append(b"two")
    file.append(b"three")
    assert file.read() == b"three"
    storage.close()
