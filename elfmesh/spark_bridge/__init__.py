"""Room spark_bridge: a job's results as Spark DataFrames.

    from elfmesh import spark_bridge
    spark_bridge.results(spark, "shop/top", api="127.0.0.1:7401")

`spark.read.format("elf")` and `spark.readStream.format("elf")` work without registration where elfmesh is
installed, through the top-level package `pyspark_elf`. Nothing here needs pyspark or Java until it is called;
then a missing one is one ElfError with one line.
"""

from __future__ import annotations

from elfmesh.spark_bridge.session import local_session, register, require_java, require_pyspark, results

__all__ = ["local_session", "register", "require_java", "require_pyspark", "results"]
