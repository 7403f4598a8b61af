"""Room: spark_bridge."""
