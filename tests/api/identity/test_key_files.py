"""Keys appear complete, with the right mode, and never in the place of another one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from elfmesh.api.identity.key_files import key_digest, key_for, new_key, write_public
from elfmesh.errors import RuntimeFailure


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    new_key(path)
    before = path.read_bytes()
    assert mode(path) == 0o600
    with pytest.raises(RuntimeFailure, match="the file exists already"):
        new_key(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["key.pem"], "nothing is left beside it"


def test_a_key_without_a_certificate_is_used_again(tmp_path: Path) -> None:
    key = key_for(tmp_path)
    again = key_for(tmp_path)
    assert key_digest(key.public_key()) == key_digest(again.public_key())
    write_public(tmp_path / "cert.pem", b"a certificate")
    assert mode(tmp_path / "cert.pem") == 0o644
    with pytest.raises(RuntimeFailure, match="the file exists already"):
        key_for(tmp_path)


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"something else")
    with pytest.raises(RuntimeFailure, match="not a key that elf made"):
        key_for(tmp_path)
