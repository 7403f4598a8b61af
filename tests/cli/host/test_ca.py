"""`elf ca`: what people read where a certificate cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.cli.entry import run


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


def test_half_a_key_is_named_and_not_certified(ca: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    place = ca.directory / "issued" / "web1"
    place.mkdir(parents=True, mode=0o700)
    (place / "key.pem").write_text("-----BEGIN")
    assert run(["ca", "issue", str(ca.directory), "web1", "--role", "agent"]) == 1
    assert "Remove it." in capsys.readouterr().err
    assert ca.issued() == []


@pytest.mark.parametrize("role", ["boss", "submitter", "submitter:", "agent:x", ":", "", "agent "])
def test_roles_that_are_none_are_wrong_usage(ca: Authority, role: str) -> None:
    assert run(["ca", "issue", str(ca.directory), "x", "--role", role]) == 2
    assert not (ca.directory / "issued" / "x").exists()


def test_no_ca_there_is_a_configuration_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ca", "issue", str(tmp_path), "x", "--role", "agent"]) == 78
    assert "elf ca init" in capsys.readouterr().err
