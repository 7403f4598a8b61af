"""Commands that evaluate queries in this process or on Spark."""
