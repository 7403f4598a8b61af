"""What all tests share: one Spark session, as starting one costs seconds, and no deadlines on examples."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from elfmesh import spark_bridge
from elfmesh.agent.cli import entry
from elfmesh.errors import ElfError
from tests.spark_tests import EVERYTHING, SESSION

# A busy machine is no bug of the code under test.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")


class FileByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file's tests run in one process, in their order, but where `apart` says that they share nothing.

    Those files that need Spark run all in one: each process with such a test starts a JVM of its own, and
    warms it up. Files with the most tests come first; what is apart fills the gaps at the end.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        marks = _marks(self.config.rootpath / path)
        if "spark" in marks and not EVERYTHING:
            return "spark"
        return nodeid if "apart" in marks else path


@cache
def _marks(path: Path) -> frozenset[str]:
    """What a file marks any of its tests with."""
    return frozenset(re.findall(r"pytest\.mark\.(\w+)", path.read_text()))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileByFile:
    """Keep what `FileByFile` keeps together, whatever was said to `--dist`."""
    return FileByFile(config, log)


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Commands and the simulator set up log and verbosity of their process; the next test has its own."""
    logger = logging.getLogger("elf")
    level, propagate, handlers = logger.level, logger.propagate, logger.handlers[:]
    entry.verbosity = 0
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
