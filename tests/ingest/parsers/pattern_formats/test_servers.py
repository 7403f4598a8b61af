"""Formats that a server declares, read as the page of formats says."""

from __future__ import annotations

from tests.ingest.parsers.reading import read


def test_a_servers_own_declaration_is_a_format() -> None:
    line = 'x.de 1.2.3.4 [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 0.5 "0.1, 0.25" more'
    words = (
        'nginx:$host $remote_addr [$time_local] "$request" $status $request_time "$upstream_response_time"'
    )
    columns = ["vhost", "host", "path", "status", "request_time", "upstream_response_time"]
    assert read(words, line, columns) == [("x.de", "1.2.3.4", "/a?b=1", 200, 0.5, 0.35)]
    words = 'apache:%v:%p %h %t "%r" %>s %b "%{User-Agent}i" %D'
    line = 'x.de:80 ::1 [10/Oct/2000:13:55:36 -0700] "-" 408 - "a \\" b" 17'
    columns = ["vhost", "port", "path", "method", "bytes", "agent", "time_us"]
    assert read(words, line, columns) == [("x.de", 80, "-", "", None, 'a \\" b', 17)]
