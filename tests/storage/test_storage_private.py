"""A data directory belongs to its agent alone: others can neither plant files in it nor read them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.control.protocol.events import Append
from elfmesh.errors import ConfigError, StorageError
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.storage import DiskStorage, check_private
from tests.storage.results.records import record, rows

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
STRANGER = 12345


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_a_directory_that_others_may_write_into_is_refused(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "data"
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(ConfigError, match="other users may write into it") as refused:
        check_private(root)
    assert "chmod go-w" in refused.value.hint
    root.chmod(0o755)
    check_private(root)


def test_a_planted_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    root, victim = tmp_path / "data", tmp_path / "victim"
    victim.write_text("precious")
    root.mkdir(mode=0o700)
    (root / "state.log").symlink_to(victim)
    with pytest.raises(ConfigError, match=r"state\.log in it belongs to another user, or a link"):
        check_private(root)
    (root / "state.log").unlink()
    storage = DiskStorage(root)
    (root / "state.log").symlink_to(victim)
    (root / "id.new").symlink_to(victim)
    with pytest.raises(StorageError):
        storage.open("state.log")
    with pytest.raises(StorageError):
        storage.write("id", b"forged")
    assert victim.read_text() == "precious"
    storage.close()


def test_a_directory_on_another_disk_may_be_linked(tmp_path: Path) -> None:
    root, disk = tmp_path / "data", tmp_path / "disk"
    root.mkdir(mode=0o700)
    disk.mkdir()
    (root / "results").symlink_to(disk)
    check_private(root)
    check_private(tmp_path / "missing")


@AS_ROOT
def test_files_of_a_stranger_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir(mode=0o700)
    (root / "state.log").write_bytes(b"")
    os.chown(root / "state.log", STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="belongs to another user"):
        check_private(root)
    os.chown(root, STRANGER, STRANGER)
    check_private(root)  # all of a service's user, looked after by root


@AS_ROOT
def test_root_follows_no_link_of_the_user_whose_directory_it_looks_after(tmp_path: Path) -> None:
    root, victim = tmp_path / "data", tmp_path / "victim"
    root.mkdir(mode=0o700)
    victim.mkdir()
    (root / "results").symlink_to(victim)
    os.chown(root, STRANGER, STRANGER)
    check_private(root)  # root's own link
    os.chown(root / "results", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(ConfigError, match="results in it belongs to another user, or a link"):
        check_private(root)


def test_all_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        root = tmp_path / "data"
        storage = DiskStorage(root)
        storage.write("id", b"x")
        storage.open("state.log").close()
        ResultsLogs(root / "results").append(Append(bytes(20), "inc", record(0), rows(0)))
        storage.close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600}, modes


def test_an_agent_does_not_start_in_a_directory_that_other_users_may_write(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    root.chmod(0o777)
    words = ["agent", "--data-dir", str(root), "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-m", "elfmesh.agent", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 78
    assert "other users may write into it" in done.stderr
