"""The token of an agent's local API: who can read it, who finds it, and what becomes of old ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfmesh.api.identity.bearer import (
    TOKEN_FILE,
    leave_note,
    new_token,
    note_directories,
    noted_token,
    read_token,
    remove_note,
)
from elfmesh.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    for name in ("ELF_CERT", "ELF_KEY", "ELF_CA", "ELF_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def test_a_token_file_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        token, file = new_token(tmp_path)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_token(file) == token
    assert len(token) >= 40


def test_every_start_makes_another_token(tmp_path: Path) -> None:
    assert new_token(tmp_path)[0] != new_token(tmp_path)[0]
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    _, file = new_token(tmp_path)
    file.chmod(mode)
    with pytest.raises(ConfigError, match="other users can read"):
        read_token(file)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"a\r\nHost: evil", b"\xff" * 8, b"x" * 400])
def test_what_is_no_token_never_becomes_a_header(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError):
        read_token(file)


def test_nothing_is_left_of_an_agent_that_has_ended(tmp_path: Path) -> None:
    _, file = new_token(tmp_path)
    note = leave_note("127.0.0.1:7401", file)
    remove_note(note, file)
    assert noted_token("127.0.0.1:7401") is None
    assert list(tmp_path.glob(TOKEN_FILE)) == []


def test_a_note_of_the_agent_that_took_the_port_stays(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    _, old = new_token(tmp_path / "old")
    note = leave_note("127.0.0.1:7401", old)
    token, new = new_token(tmp_path / "new")
    leave_note("127.0.0.1:7401", new)
    remove_note(note, old)
    assert noted_token("127.0.0.1:7401") == token


def test_notes_of_killed_agents_are_swept(tmp_path: Path) -> None:
    _, file = new_token(tmp_path)
    leave_note("127.0.0.1:1", file)
    file.unlink()
    assert noted_token("127.0.0.1:1") is None
    _, other = new_token(tmp_path)
    (tmp_path / "kept").mkdir()
    file.rename(tmp_path / "kept" / "token")
    leave_note("127.0.0.1:2", tmp_path / "kept" / "token")
    assert [path.name for path in note_directories()[-1].iterdir()] == ["127.0.0.1:2"]
    assert not other.exists()


def test_a_directory_that_others_may_write_to_is_not_believed(tmp_path: Path) -> None:
    _, file = new_token(tmp_path)
    note = leave_note("127.0.0.1:7401", file)
    assert note is not None
    note.parent.chmod(0o777)
    assert noted_token("127.0.0.1:7401") is None
    assert leave_note("127.0.0.1:7401", file) is None


def test_a_note_that_is_a_link_is_not_believed(tmp_path: Path) -> None:
    _, file = new_token(tmp_path)
    note = leave_note("127.0.0.1:7401", file)
    assert note is not None
    note.rename(tmp_path / "moved")
    note.symlink_to(tmp_path / "moved")
    assert noted_token("127.0.0.1:7401") is None


def test_no_place_for_a_note_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    home.write_text("a file, no directory")
    _, file = new_token(tmp_path)
    assert leave_note("127.0.0.1:7401", file) is None
    remove_note(None, file)
