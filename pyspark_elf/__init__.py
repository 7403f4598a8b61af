"""Where Spark finds the data source "elf": `DefaultSource` of every top-level package `pyspark_*`."""

from elfmesh.spark_bridge.source import ElfDataSource as DefaultSource

__all__ = ["DefaultSource"]
