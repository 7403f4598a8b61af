"""What all tests share: one Spark session, as starting one costs seconds, and no deadlines on examples."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from elfmesh import spark_bridge
from elfmesh.errors import ElfError
from tests.spark_tests import EVERYTHING, SESSION

# A busy machine is no bug of the code under test.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `--dist loadgroup`: a file is one group; in every run those that need Spark are one together.

    Each process with such a test starts a JVM of its own, and warms it up.
    """
    with_spark = set() if EVERYTHING else {item.path for item in items if item.get_closest_marker("spark")}
    for item in items:
        group = "spark" if item.path in with_spark else str(item.path.relative_to(item.config.rootpath))
        item.add_marker(pytest.mark.xdist_group(group))


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
        session = spark_bridge.local_session("elfmesh tests", **SESSION)
    except ElfError as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
