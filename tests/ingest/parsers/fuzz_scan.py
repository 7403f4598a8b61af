"""Feeds the native scanner broken logs: python -m tests.ingest.parsers.fuzz_scan SECONDS [SEED].

Meant for a sanitized build (`make sanitize`, `make fuzz`), which stops at the first byte out of place. Every
block is also read by the slow path, and the two must agree; the functions below the parsers get cells that
no scan would make, and must refuse or answer.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress

import numpy as np

from elfmesh.ingest.parsers import StreamFormat, scanner
from elfmesh.ingest.parsers.access import COMBINED_COLUMNS
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.logfmt import LogfmtParser
from tests.ingest.parsers.agreement import compare

JSON = [
    b'{"ts":"2015-05-17T10:00:00.123Z","a":"plain","b":{"c":12,"x":[1,{"y":null}]},"ok":true,"price":0.1}',
    b'{"time":1431856800,"a":"esc\\n\\u00e9\\ud83d\\ude00","b.c":-7,"x":{"a":{"b":1e5}}}',
    b' { "a" : 1.7976931348623157e308,"b" : {"c" : false}, "a.b" : "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" } ',
    b'{"a":-0.0,"b":{"c":9223372036854775807},"x":"' + b"long " * 30 + b'","c":123456789.123456789}',
    b'{"@timestamp":"17/May/2015:10:05:03 +0000","b":{"c":[]},"c":{},"a":null}',
]
ACCESS = [
    b'1.2.3.4 - frank [17/May/2015:10:05:03 +0200] "GET /a?b HTTP/1.1" 200 12 "http://r/" "Agent (X; Y)"',
    b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -',
    b'h - a b [17/May/2015:10:05:03 +0000] "GET /\\" x" 404 7 "-" "a \\"b\\" c" 1 2',
]
LOGFMT = [
    b'ts=2015-05-17T10:00:00.123Z a=plain b.c="two words" ok price=0.1 c=',
    b'time=1431856800 a="esc\\n \\" \\/" b.c="\\x \\u0041" url=http://x/?a=b',
    b'a="never closed b.c=1 \xc3\xa9=\xe3\x81\x82 b="\xe2\x80\xa8" price=\xe2\x82\xac\xe3\x80\x80ok\x1fc=2',
]
SPLICES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"\n",
    b"\r",
    b"\x00",
    b"\xff",
    b"\xe2\x82",
    b"\\u",
    b"1e9",
    b"=",
    b"\xe2\x80\xa9",
    b"\xc2\xa0",
    b"-",
]
PATHS = ["a", "b.c", "ts", "c", "a.b", "x.a.b", "b", "price", "ok", "_raw"]


def mutated(dice: random.Random, line: bytes) -> bytes:
    """The line with some bytes dropped, repeated, replaced or put in."""
    data = bytearray(line)
    for _ in range(dice.choice([0, 0, 1, 1, 2, 4])):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(5)
        if kind == 0:
            del data[at : at + dice.choice([1, 2, 8, 40])]
        elif kind == 1:
            data[at:at] = dice.choice(SPLICES) * dice.choice([1, 1, 1, 2, 100])
        elif kind == 2:
            data[at:at] = data[max(0, at - dice.randrange(30)) : at]
        elif kind == 3:
            data[at : at + 1] = bytes([dice.randrange(256)])
        else:
            data = data[:at]
    return bytes(data)


def block_of(dice: random.Random, corpus: list[bytes]) -> bytes:
    """Some lines, some of them broken; the block may end anywhere."""
    ends = [b"\n", b"\n", b"\n", b"\r\n", b"\n\n"]
    lines = [
        mutated(dice, dice.choice(corpus)) + dice.choice(ends) for _ in range(dice.choice([1, 2, 5, 40]))
    ]
    data = b"".join(lines)
    return data if dice.randrange(2) else data[: dice.randrange(len(data) + 1)]


def fuzz_json(dice: random.Random) -> None:
    """Whole parses, block after block, so that types settle."""
    columns = dice.sample(PATHS, dice.randrange(len(PATHS)))
    compare(JsonParser, [block_of(dice, JSON) for _ in range(3)], columns)


def fuzz_access(dice: random.Random) -> None:
    """Whole parses of access logs."""
    columns = dice.sample(COMBINED_COLUMNS, dice.randrange(1, len(COMBINED_COLUMNS)))
    compare(StreamFormat("combined").parser, [block_of(dice, ACCESS)], columns)


def fuzz_logfmt(dice: random.Random) -> None:
    """Whole parses of logfmt."""
    columns = dice.sample(PATHS, dice.randrange(len(PATHS)))
    compare(LogfmtParser, [block_of(dice, LOGFMT) for _ in range(2)], columns)


def fuzz_cells(dice: random.Random) -> None:
    """Cells and plans that no scanner made: any answer, or a refusal."""
    count = dice.choice([0, 1, 7, 8, 9, 100])
    draw = np.random.default_rng(dice.getrandbits(32))
    kinds = draw.integers(0, 9, count, np.uint8)
    words = draw.integers(-(2**63), 2**63 - 1, count, np.int64) >> draw.integers(0, 63)
    block, side = mutated(dice, dice.choice(JSON)), bytearray(dice.choice(JSON))
    scan, offsets = scanner.active, np.zeros(count + 1, np.int32)
    with suppress(ValueError):
        room = scan.offsets(block, side, kinds, words, offsets)
        if room < 1 << 24:
            scan.texts(
                block, side, kinds, words, offsets, bytearray(max(0, room - dice.choice([0, 0, 1, 50])))
            )
    scan.times(block, side, kinds, words, np.zeros(count, np.int64), np.zeros(count, np.uint8))
    for what in "if":
        scan.values(what, kinds, words, np.zeros(count, np.int64))
    scan.values("b", kinds, words, bytearray((count + 7) // 8))
    with suppress(ValueError):
        scan.plan(draw.integers(0, 4, 4 * count, np.uint8).tobytes())


def main(seconds: float, seed: int) -> None:
    """Run all fuzzers in turn until the time is up."""
    scanner.choose("native")
    dice, rounds, until = random.Random(seed), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        for fuzz in (fuzz_json, fuzz_access, fuzz_logfmt, fuzz_cells):
            fuzz(dice)
        rounds += 1
    print(f"scanner: {rounds} rounds of seed {seed}, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
