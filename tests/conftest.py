"""What all tests share: one Spark session, as starting one costs seconds; no deadlines; a working SIGINT."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from elfmesh import spark_bridge
from elfmesh.cli import entry
from elfmesh.errors import ElfError
from tests.exhaustive import fewer_examples
from tests.scheduling import FileByFile, begin_apart, in_order
from tests.spark_tests import SESSION

# A busy machine is no bug of the code under test.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.register_profile("exhaustive", parent=settings.get_profile("patient"))
settings.load_profile("patient")

# A script that runs us with `&` has SIGINT ignored, and so would everything that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileByFile:
    """Keep what `FileByFile` keeps together, whatever was said to `--dist`."""
    return FileByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Share out the compiling of tests; collect no garbage until they are there."""
    gc.disable()
    begin_apart(config, Path(__file__).parent)


def pytest_collection_finish() -> None:
    """Take 20,000 tests out of what each later collection of garbage looks through."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let tests of Hypothesis try fewer examples, unless the profile `exhaustive` is asked for."""
    in_order(config, items)
    if config.getoption("hypothesis_profile") != "exhaustive":
        fewer_examples(item for item in items if item.get_closest_marker("hypothesis"))


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
