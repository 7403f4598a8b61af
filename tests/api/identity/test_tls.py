"""TLS 1.3 with a certificate on both sides, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.api.identity.ca import Authority, create
from elfmesh.api.identity.principal import Role
from elfmesh.api.identity.trust import Trust
from elfmesh.errors import ConfigError
from tests.api.identity.certs import issued


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return create(tmp_path / "ca", "shop")


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o604])
def test_a_key_that_others_may_read_is_refused(ca: Authority, mode: int) -> None:
    files = issued(ca, "a", Role.AGENT)
    Path(files.key).chmod(mode)
    with pytest.raises(ConfigError, match="other users can read"):
        Trust(files, "shop")
    (ca.directory / "ca.key").chmod(mode)
    with pytest.raises(ConfigError, match="other users can read"):
        Authority(ca.directory)
