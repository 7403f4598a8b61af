"""One Spark session for the whole run: starting one costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.errors import ElfError


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session as users of the bridge get it, with ANSI off as in ELF-QL; skips without Java."""
    try:
        session = spark_bridge.local_session("elfmesh tests", spark__sql__ansi__enabled="false")
    except ElfError as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
