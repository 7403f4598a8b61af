"""A run prints the same bytes with every number of threads, wherever its blocks and files end."""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elfmesh.errors import ElfError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local import log_input
from elfmesh.local.embedded import LogRun
from elfmesh.local.run_output import JsonWriter
from elfmesh.ql import parse

QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS s, avg(w) AS a FROM log GROUP BY k",
    "SELECT k, v FROM log WHERE v > 1 LIMIT 30",
    "SELECT upper(k) AS u, first(v) AS f, last(v) AS l FROM log WHERE k <> 'b' GROUP BY upper(k)",
    "SELECT k, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '2' SECOND), k",
    "SELECT k, max(v) AS m FROM log GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '9' SECOND), k LIMIT 2",
    "SELECT approx_count_distinct(v) AS d, approx_percentile(w, 0.5) AS p FROM log",
    "SELECT k, count(DISTINCT v) AS d FROM log GROUP BY k ORDER BY d DESC LIMIT 2",
)
"""LIMIT decides ties, sessions and windows extend over blocks, and sketches depend on the insertions."""

value = st.one_of(st.none(), st.integers(0, 5), st.integers(-(2**60), 2**60))
record = st.fixed_dictionaries(
    {"k": st.sampled_from(["a", "b", "é", None]), "v": value, "w": st.floats(-10, 10, width=16)},
    optional={"ts": st.integers(1_431_857_100, 1_431_857_130)},
)
line = st.one_of(
    *(record.map(json.dumps) for _ in range(8)),
    st.sampled_from(["", "  ", "no json", '{"v": "text"}', "[1]"]),
).map(str.encode)
end = st.sampled_from([b"\n", b"\n", b"\r\n"])
log = st.lists(st.tuples(line, end).map(b"".join), min_size=1, max_size=60).map(b"".join)


def packed(data: bytes, how: str, cut: int) -> bytes:
    """A file, or two members of an archive that are cut anywhere."""
    members = (data[:cut], data[cut:])
    if how == "gz":
        return b"".join(map(gzip.compress, members))
    return b"".join(map(zstandard.compress, members)) if how == "zst" else data.removesuffix(b"\n")


def printed(text: str, paths: list[str], threads: int, block_bytes: int) -> Any:
    """The output as JSON and the statistics, or the error."""
    with (
        patch.object(log_input, "BLOCK_BYTES", block_bytes),
        patch.object(os, "urandom", lambda n: b"\1" * n),
    ):
        run = LogRun(parse(text), paths, format=StreamFormat("json", host="h"), threads=threads)
        out = io.StringIO()
        shown = JsonWriter(out)
        try:
            for each in run.answers():
                shown.interval(each)
        except ElfError as error:
            return str(error)
        shown.end(None)
    return out.getvalue(), run.stats.records, run.stats.samples, run.stats.field_errors


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(QUERIES),
    st.lists(
        st.tuples(log, st.sampled_from(["plain", "gz", "zst"]), st.integers(0, 2_000)), min_size=1, max_size=3
    ),
    st.integers(2, 8),
    st.sampled_from([70, 200, 700, 5_000]),
)
def test_the_output_is_that_of_one_thread(
    text: str, files: list[tuple[bytes, str, int]], threads: int, block_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for number, (data, how, cut) in enumerate(files):
            path = Path(directory) / f"log{number}"
            path.write_bytes(packed(data, how, cut))
            paths.append(str(path))
        assert printed(text, paths, threads, block_bytes) == printed(text, paths, 1, block_bytes)
