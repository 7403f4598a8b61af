"""Spark in this process, as quiet as it can be, on so many cores."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def session(cores: int) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
