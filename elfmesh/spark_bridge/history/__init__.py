"""ELF-QL over historical data on Spark: the text and the rows of a job, computed by Spark's executors.

A query becomes a Spark plan of two steps. Tasks over the history contribute: each does with its share of the
logs what an agent does with its logs, uses the agents' own parsers, and yields one partial per interval
(`share`). A shuffle brings the partials of an interval together; they are merged and finalised as at the root
of a job (`finish`). Therefore nulls, types, time zones, ties, exact sums and sketches have the same meaning
on agents and on Spark, and the memory of a task is bounded as in an agent.
"""
