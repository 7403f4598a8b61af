"""Results of jobs as Spark DataFrames, and ELF-QL over historical data on Spark.

  from elfmesh import spark_bridge

  spark_bridge.results(spark, "shop/top", api="127.0.0.1:7401")
  spark_bridge.sql(spark, "SELECT ...", streams={"clicks": ("clicks/*.ndjson", "json")})

Where elfmesh is installed, `spark.read.format("elf")` and `spark.readStream.format("elf")` work without
registration, through the top-level package `pyspark_elf`. Importing this package needs neither pyspark nor
Java; a function that needs a missing one raises an ElfError with a message of one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elfmesh.spark_bridge.session import (
    local_session,
    publish,
    register,
    require_java,
    require_pyspark,
    results,
)

if TYPE_CHECKING:
    from elfmesh.spark_bridge.history.sql import sql as sql

__all__ = ["local_session", "publish", "register", "require_java", "require_pyspark", "results", "sql"]


def __getattr__(name: str) -> Any:
    """Import `sql` at its first use, because it imports the agents' parsers."""
    if name != "sql":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("elfmesh.spark_bridge.history.sql"), name)
