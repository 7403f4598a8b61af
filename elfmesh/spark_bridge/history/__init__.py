"""ELF-QL over history on Spark: the same text, the same rows, computed by Spark's executors.

A query becomes a Spark plan of two steps. Tasks over the history contribute: each does what an agent does
with the logs it carries, with the agents' own parsers, and gives one partial per interval (`share`). A
shuffle brings the partials of an interval together; they are merged and finalised as at a job's root
(`finish`). So nulls, types, zones, ties, exact sums and sketches have one meaning on both sides, and what a
task holds is bounded as in an agent.
"""
