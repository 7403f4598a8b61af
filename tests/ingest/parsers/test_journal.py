"""The journal's export, read as the page of formats says."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

from elfmesh.ingest.parsers import StreamFormat


def test_the_journals_export_may_hold_any_bytes() -> None:
    binary = b"MESSAGE\n" + struct.pack("<Q", 6) + b"a\n\nb=c" + b"\n"
    text = b"__CURSOR=1\n__REALTIME_TIMESTAMP=1534860261221373\n" + binary + b"PRIORITY=6\n\n__CURSOR=2\nM\n"
    parsed = StreamFormat("journald_export").parser("f").parse(text, ["MESSAGE", "PRIORITY", "ts"])
    stamp = datetime(2018, 8, 21, 14, 4, 21, 221373, tzinfo=UTC)
    assert [tuple(row.values()) for row in parsed.batch.to_pylist()] == [("a\n\nb=c", "6", stamp)]
    assert (parsed.lines, parsed.errors) == (2, 1)
