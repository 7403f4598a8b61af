"""Named limits and time-outs that several rooms share, each with its reason.

A limit that only one room needs stands in that room, as a constructor parameter with a named default.
"""

from __future__ import annotations

CONTROL_FRAME_BYTES_MAX = 1 << 20
"""A header or control message: nothing we say needs a megabyte of header."""

DATA_FRAME_BYTES_MAX = 16 << 20
"""A payload: one partial of about a million keys in compressed columnar form."""

CHUNK_BYTES_MAX = 64 << 10
"""Unit of sharing on a connection; larger chunks would make control messages wait."""

FANOUT_MAX = 32
"""Children of one parent in a tree: bounds merge work and the time of a multicast hop."""

KEY_BYTES_MAX = 64 << 10
"""One group-by key. Longer values come from broken or hostile input and are counted as parse errors."""

LINE_BYTES_MAX = 1 << 20
"""One log line. A longer one is one parse error and costs no memory beyond this."""

POST_BYTES_MAX = 30 << 10
"""One post to a topic, as JSON. A row that repeats its partition, producer and agent has to fit into a
group-by key."""
