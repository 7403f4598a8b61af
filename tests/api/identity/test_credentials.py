"""What a client shows an agent: a certificate, or the token of an agent on this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.api.identity.bearer import (
    leave_note,
    new_token,
)
from elfmesh.api.identity.credentials import Credentials, default_credentials
from elfmesh.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    for name in ("ELF_CERT", "ELF_KEY", "ELF_CA", "ELF_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def test_a_client_of_the_same_user_finds_the_token_by_the_address(tmp_path: Path) -> None:
    token, file = new_token(tmp_path)
    note = leave_note("127.0.0.1:7401", file)
    assert note is not None
    assert note.stat().st_mode & 0o777 == 0o600
    assert note.parent.stat().st_mode & 0o777 == 0o700
    expected = {"Authorization": f"Bearer {token}"}
    assert default_credentials().headers("127.0.0.1:7401") == expected
    assert default_credentials().headers("localhost:7401") == expected
    assert default_credentials().headers("127.0.0.1:7402") == {}
    assert default_credentials().headers("10.0.0.5:7401") == {}


def test_half_a_certificate_is_refused_instead_of_calling_without() -> None:
    with pytest.raises(ConfigError, match="--key is missing"):
        Credentials(cert="a.pem", ca="ca.pem").context()
    assert Credentials().context() is None
