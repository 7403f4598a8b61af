"""What is in the files of a log, and which time it is."""

from __future__ import annotations

from tests.ingest.rotation.case import case
from tests.ingest.rotation.station import Station


@case("no end of line at the end of the file: no record until it comes", prompt=False)
def no_newline(s: Station) -> None:
    s.write()
    line = s.line()
    s.raw(line[:10])
    s.step()
    s.raw(line[10:])
    s.step()
    s.raw(b"\n")
    s.step()


@case(
    "no end of line at the end of a rotated file that is then deleted",
    promise="no record; one `source_gap` with its bytes",
    gaps=1,
    lost=(0, 3, 0),
)
def no_newline_rotated(s: Station) -> None:
    s.write()
    s.step()
    s.raw(b'{"ts":"2026-05-17T10:0')
    old = s.rotate()
    s.write()
    s.step()
    s.step()
    s.step()
    old.unlink()
    s.step()


@case("a line of 10 MB", promise="one `parse_error`", buckets={"parse_error": 1})
def long_line(s: Station) -> None:
    s.write()
    for _ in range(10):
        s.raw(b"x" * (1 << 20))
        s.step()
    s.raw(b"\n")
    s.write()
    s.step()


@case("lines that end in CR LF", prompt=False)
def crlf(s: Station) -> None:
    s.write(end=b"\r\n")
    s.step()
    s.raw(s.line() + b"\r")
    s.step()
    s.raw(b"\n")
    s.step()


@case("bytes that are not UTF-8", promise="exact; replaced in the value")
def invalid_utf8(s: Station) -> None:
    s.write()
    s.raw(s.line(path="?").replace(b"?", b"\xff\xfe\xc3") + b"\n")
    s.write()
    s.step()


@case(
    "NUL bytes: a hole before the first record of a file",
    promise="that line is one `parse_error`",
    buckets={"parse_error": 1},
)
def nul(s: Station) -> None:
    s.write()
    s.step()
    s.raw(b"\0" * 5000 + b"\n")
    s.write()
    s.step()


@case("the wall clock is set back and forth by 10 minutes", promise="exact within LATENESS", prompt=False)
def clock(s: Station) -> None:
    s.write()
    s.step()
    for shift in (-600, 600, 0):
        s.wall_shift_s = shift
        s.write()
        s.step()
