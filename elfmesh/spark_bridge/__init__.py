"""Room spark_bridge: a job's results as Spark DataFrames.

    from elfmesh import spark_bridge
    spark_bridge.results(spark, "shop/top", api="127.0.0.1:7401")
    spark_bridge.sql(spark, "SELECT ...", streams={"clicks": ("clicks/*.ndjson", "json")})

`spark.read.format("elf")` and `spark.readStream.format("elf")` work without registration where elfmesh is
installed, through the top-level package `pyspark_elf`. Nothing here needs pyspark or Java until it is called;
then a missing one is one ElfError with one line.
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
    """Import `sql` when it is first used: it brings the agents' parsers along."""
    if name != "sql":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("elfmesh.spark_bridge.history.sql"), name)
