"""One example of syslog, read as the page of formats says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.ingest.parsers.reading import read


def test_syslog_splits_the_priority_and_reaches_into_structured_data() -> None:
    line = r'<165>1 2003-10-11T22:14:15.003Z m.example evntslog - ID47 [e@1 a="x\"y" b="2"][f.g@2 c="3"] hi'
    columns = ["facility", "severity", "priority", "procid", "structured_data.e@1.a", "message", "ts"]
    stamp = datetime(2003, 10, 11, 22, 14, 15, 3000, tzinfo=UTC)
    assert read("syslog", line, columns) == [("local4", "notice", 165, None, 'x"y', "hi", stamp)]
    assert read("syslog", line, ["structured_data.f.g@2.c"]) == [("3",)]
    assert read("syslog", line, ["structured_data"]) == [('{"e@1":{"a":"x\\"y","b":"2"},"f.g@2":{"c":"3"}}',)]


@pytest.mark.parametrize(
    ("rest", "host", "app", "message"),
    [
        ("fe80::1 app[7]: up", "fe80::1", "app", "up"),
        ("fe80::1 no tag here", "fe80::1", None, "no tag here"),
        ("su: a: b", None, "su", "a: b"),
        ("web-1 su:tight", "web-1", "su", "tight"),
        ("web-1 last message repeated 2 times", "web-1", None, "last message repeated 2 times"),
        ("kernel: usb 1-1: new", None, "kernel", "usb 1-1: new"),
        ("cron[3]:", None, "cron", None),
    ],
)
def test_hosts_and_tags_are_distinguished(rest: str, host: str | None, app: str | None, message: str) -> None:
    found = read("syslog", f"Oct 11 22:14:15 {rest}", ["host", "app", "message"])
    assert found == [(host, app, message)]
