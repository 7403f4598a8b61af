"""What web servers write: blocks of log lines in every format."""

from __future__ import annotations

import random

import pyarrow as pa

from elfmesh.ingest.parsers import StreamFormat, discover_columns, found_columns
from tests.fuzz.engine import Harness
from tests.fuzz.mutate import BYTES, mutated
from tests.ingest.parsers.fuzz_scan import ACCESS, JSON, SPLICES

LOGFMT = [
    b'ts=2015-05-17T10:00:00Z level=info msg="it \\"works\\"" k=v empty= flag n=12',
    "time=1431856800 héllo=wörld a=b=c".encode(),
    b"level=warn " + b"x=" * 30,
]
CSV = [
    b'2015-05-17T10:00:00Z,alice,"a ""b"", c",12',
    b"2015-05-17T10:00:01Z,bob,,-1.5",
    b'x,"open,1,2',
    b",,,",
]
REGEX = [b"10:00:00 ERROR disk /dev/sda1 full", b"10:00:01 INFO ok", "10:00:02 WARN é".encode()]
SYSLOG = [
    b'<165>1 2003-10-11T22:14:15.003Z m evntslog - ID47 [e@1 a="x\\"y" b="2"][f.g@2 c="3"] hi',
    b"<34>Oct 11 22:14:15 mymachine su[12]: fail: x",
    b"Feb 29 23:59:59 combo sshd(pam_unix)[19939]: authentication failure",
    b"<13>hello",
]
SERVERS = [
    b'2021/04/01 13:02:31 [error] 31#31: *1 open() "/x" failed (2: No), client: 172.17.0.1, server: s, '
    b'request: "POST /x HTTP/1.1", upstream: "http://u/", host: "h"',
    b"[Wed Oct 11 14:32:52.1 2023] [core:error] [pid 3:tid 4] (13)No: [client 1.2.3.4:5] m, referer: http://x/",
]
TIMED = [line + b" 0.120 0.1, 0.02 : -" for line in ACCESS]
CONTAINERS = [
    b"2016-10-06T00:17:09.669794202Z stdout P a part",
    b"2016-10-06T00:17:09.669794203Z stderr F err",
    b"2016-10-06T00:17:09.669794204Z stdout F the rest",
]
DOCKER = [
    rb'{"log":"a ","stream":"stdout","time":"2016-10-06T00:17:09Z"}',
    rb'{"log":"b\\n","stream":"stdout","time":"2016-10-06T00:17:10Z"}',
]
PAIRS = [
    rb"<13>Sep 29 08:26:10 h CEF:0|a|b|1|7|n \| m|9|msg=two\n words\=1 src=10.0.0.1 k=",
    b"LEEF:2.0|a|b|1|7|^|x=1^y=2 3",
    b'user=bob;n="1;2";flag;n=3',
]
W3C = [
    b"#Fields: date time user n",
    b'2002-05-02 17:42:15 bob "1 ""2"""',
    b"#Date: 2002-05-03",
    b"#Fields: time n",
]
EXPORT = [
    b"__CURSOR=1",
    b"__REALTIME_TIMESTAMP=1534860261221373",
    b"user=bob",
    b"n\n\x03\0\0\0\0\0\0\0a\nb",
    b"",
]
FORMATS: dict[str, tuple[str, list[bytes]]] = {
    "syslog": ("syslog", SYSLOG),
    "nginx-error": ("nginx_error", SERVERS),
    "apache-error": ("apache_error", SERVERS),
    "timed": ("nginx_timed", TIMED),
    "grok": ("grok:%{COMBINEDAPACHELOG}", ACCESS),
    "cri": ("cri", CONTAINERS),
    "docker": ("docker", DOCKER),
    "cef": ("cef", PAIRS),
    "leef": ("leef", PAIRS),
    "kv": ("kv:k=v;k=v", PAIRS),
    "w3c": ("w3c", W3C),
    "journal": ("journald_export", EXPORT),
    "json": ("json", JSON),
    "combined": ("combined", ACCESS),
    "common": ("common", ACCESS),
    "logfmt": ("logfmt", LOGFMT),
    "csv": ("csv:ts,user,text,n", CSV),
    "csv-header": ("csv", [b"ts,user,text,n", *CSV]),
    "regex": (r"regex:(?P<time>\S+) (?P<level>[A-Z]+) (?P<text>.*)", REGEX),
    "auto": ("auto", [JSON[0], ACCESS[0], LOGFMT[0], CSV[0], SYSLOG[1], SERVERS[0], *CONTAINERS, *W3C]),
}
WANTED = (
    "ts",
    "a",
    "b.c",
    "level",
    "msg",
    "user",
    "n",
    "text",
    "client",
    "status",
    "bytes",
    "_raw",
    "_source",
)


COUNTS = (1, 1, 4, 4, 32, 160, 1000)
"""Lines of a call. A call costs a few milliseconds whatever is in it, a line of many some microseconds."""

HEADED, COUNTS_HEADED = ("auto", "w3c"), (1, 4, 32, 80)
"""Formats of which each header begins another table, and costs as much as a call: fewer lines at once."""


def lines(name: str) -> Harness:
    """Blocks of lines of one format; a line is an input."""
    spec, corpus = FORMATS[name]
    ends = (b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r", b"\x00\n", b"")
    splices = (
        *BYTES,
        *SPLICES,
        b"=",
        b'""',
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"9" * 25,
        b"1e999",
        b"[" * 30,
    )

    def generate(rng: random.Random) -> bytes:
        count = rng.choice(COUNTS_HEADED if name in HEADED else COUNTS)
        kept = rng.random() < 0.3
        return b"".join(
            (rng.choice(corpus) if kept and rng.random() < 0.8 else mutated(rng, rng.choice(corpus), splices))
            + rng.choice(ends)
            for _ in range(count)
        )

    def count(data: bytes) -> int:
        return max(1, data.count(b"\n"))

    def run(data: bytes) -> None:
        form = StreamFormat(spec)
        parser = form.parser("f")
        for block in (data[: len(data) // 2], data):
            parsed = parser.parse(block, WANTED)
            found = parsed.batch
            found.validate(full=True)
            assert parsed.rows + parsed.errors == parsed.lines
            assert found.num_rows == parsed.rows
            assert found.schema.names == list(WANTED)
            assert found.schema.field("_raw").type == pa.string()
            assert len(parsed.samples) <= 3
        discover_columns(form.parser("f"), data)
        found_columns(parser)

    return Harness(f"lines-{name}", f"log lines, {name}", generate, run, count=count)
