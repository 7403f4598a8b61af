"""Which tests of Spark run where: in every run a small version of each, the others by `make test-spark`."""

from __future__ import annotations

import os

import pytest

EVERYTHING = os.environ.get("ELF_SPARK_TESTS") == "all"
"""Whether `make test-spark` asks, which has many minutes."""

long_spark = pytest.mark.skipif(not EVERYTHING, reason="make test-spark")

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM of a few minutes spends most of its processor on compiling what it never runs again."""
