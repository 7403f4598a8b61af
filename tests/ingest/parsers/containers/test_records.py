"""Lines of container runtimes, read as the page of formats says."""

from __future__ import annotations

from tests.ingest.parsers.reading import read


def test_parts_of_container_lines_are_joined_by_stream() -> None:
    text = (
        "2016-10-06T00:17:09Z stdout P a\n2016-10-06T00:17:10Z stderr F err\n"
        "2016-10-06T00:17:11Z stdout P b\n2016-10-06T00:17:12Z stdout F c\nbad\n"
        "2016-10-06T00:17:13Z stdout F\n"
    )
    assert read("cri", text, ["stream", "message"]) == [("stdout", "abc"), ("stderr", "err"), ("stdout", "")]
    (raw, *_) = read("cri", text, ["_raw"])
    assert raw[0].startswith("2016-10-06T00:17:09Z")
    assert raw[0].endswith("F c")
    docker = (
        r'{"log":"a ","stream":"stdout","time":"2016-10-06T00:17:09Z"}' + "\n"
        r'{"log":"b\n","stream":"stdout","time":"2016-10-06T00:17:10Z"}' + "\n"
        r'{"log":"c\\n","stream":"stdout","time":"2016-10-06T00:17:10Z"}' + "\n"
    )
    assert read("docker", docker, ["message"]) == [("a b",), ("c\\n",)]
