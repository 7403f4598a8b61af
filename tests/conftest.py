"""What all tests share: one Spark session, as starting one costs seconds, and no deadlines on examples."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from elfmesh import spark_bridge
from elfmesh.errors import ElfError
from tests.spark_tests import QUICK_JVM

# A busy machine is no bug of the code under test.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Commands and the simulator set up the agent's log for their process; the next test shall hear it."""
    logger = logging.getLogger("elf")
    level, propagate, handlers = logger.level, logger.propagate, logger.handlers[:]
    yield
    logger.setLevel(level)
    logger.propagate, logger.handlers[:] = propagate, handlers


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session as users of the bridge get it, with ANSI off as in ELF-QL; skips without Java."""
    try:
        session = spark_bridge.local_session(
            "elfmesh tests", spark__sql__ansi__enabled="false", spark__driver__extraJavaOptions=QUICK_JVM
        )
    except ElfError as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
