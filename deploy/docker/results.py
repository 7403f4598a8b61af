"""What the job of job.elfql has found, as a Spark DataFrame: the `spark` service runs it."""

from pyspark.sql import SparkSession

from elfmesh import spark_bridge

spark = SparkSession.builder.master("local[2]").appName("elf results").getOrCreate()
spark_bridge.results(spark, "web/top").orderBy("interval_index", "hits").show(100, truncate=False)
spark.stop()
