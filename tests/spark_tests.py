"""Which tests of Spark run where: in every run a small version of each, the others by `make test-all`."""

from __future__ import annotations

import os
from typing import Any

import pytest

EVERYTHING = os.environ.get("ELF_SPARK_TESTS") == "all"
"""Whether `make test-all` or `make test-spark` asks, which have many minutes."""

long_spark = pytest.mark.exhaustive
all_of_spark = pytest.mark.exhaustive if EVERYTHING else pytest.mark.slow
"""On tests that run more where everything is asked for: `make test-all` repeats them with all they have."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM of a few minutes spends most of its processor on compiling what it never runs again."""

SESSION: dict[str, Any] = {
    "spark__sql__ansi__enabled": "false",  # as ELF-QL
    "spark__driver__extraJavaOptions": QUICK_JVM,
    # A query over some rows is run once: to plan it again between stages and to compile it costs more.
    "spark__sql__adaptive__enabled": "false",
    "spark__sql__codegen__wholeStage": "false",
}
"""Settings of the session that tests share."""
