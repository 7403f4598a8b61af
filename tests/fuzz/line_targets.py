"""What web servers write: blocks of log lines in every format."""

from __future__ import annotations

import random

import pyarrow as pa

from elfmesh.agent.parsers import StreamFormat, discover_columns, found_columns
from tests.agent.parsers.fuzz_scan import ACCESS, JSON, SPLICES
from tests.fuzz.engine import Harness
from tests.fuzz.mutate import BYTES, mutated

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
FORMATS: dict[str, tuple[str, list[bytes]]] = {
    "json": ("json", JSON),
    "combined": ("combined", ACCESS),
    "common": ("common", ACCESS),
    "logfmt": ("logfmt", LOGFMT),
    "csv": ("csv:ts,user,text,n", CSV),
    "csv-header": ("csv", [b"ts,user,text,n", *CSV]),
    "regex": (r"regex:(?P<time>\S+) (?P<level>[A-Z]+) (?P<text>.*)", REGEX),
    "auto": ("auto", [JSON[0], ACCESS[0], LOGFMT[0], CSV[0]]),
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
        count = rng.choice((1, 4, 16, 40))
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

    return Harness(f"lines-{name}", f"log lines, {name}", generate, run, 12_000, count=count)
