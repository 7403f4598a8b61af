"""W3C logs, read as the page of formats says."""

from __future__ import annotations

from datetime import UTC, datetime

from elfmesh.ingest.parsers import StreamFormat


def test_w3c_directives_are_no_records_and_declare_what_follows() -> None:
    text = (
        "#Version: 1.0\n#Date: 2002-05-03 00:00:00\n#Fields: date time c-ip cs(User-Agent)\n"
        '2002-05-02 17:42:15 1.2.3.4 "a ""b"""\nshort\n#Fields: time x-n\n17:00:01 -\n'
    )
    parsed = StreamFormat("w3c").parser("f").parse(text.encode(), ["ts", "c_ip", "cs_user_agent", "x_n"])
    assert [tuple(row.values()) for row in parsed.batch.to_pylist()] == [
        (datetime(2002, 5, 2, 17, 42, 15, tzinfo=UTC), "1.2.3.4", 'a "b"', None),
        (datetime(2002, 5, 3, 17, 0, 1, tzinfo=UTC), None, None, None),
    ]
    assert (parsed.lines, parsed.errors) == (3, 1)
