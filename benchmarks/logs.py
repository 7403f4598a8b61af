"""Logs of the benchmarks: text files, deterministic, made once (see data.py), in seconds per million lines.

Columns are cut from dictionaries and joined row by row in Arrow; the data buffer of the result is the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import made, zipf

CHUNK_LINES = 100_000
BEGIN_S = 1_779_001_200
"""A full hour, so that windows begin with the first line."""

LINE_SPACING_US = 720
"""Five million lines make an hour."""

_DIRECTORIES = (
    "Video Games",
    "Books",
    "Electronics",
    "Garden & Outdoor",
    "Toys",
    "Music",
    "Kitchen",
    "Shoes",
)
_CITIES = ("Berlin", "Atlanta", "Reykjavik", "Lagos", "Osaka", "Montevideo", "San Francisco", "Hanoi", "Oslo")
_SYSTEMS = ("X11; Linux x86_64", "Windows NT 10.0; Win64", "Macintosh; Intel Mac OS X 14_5")
_ENGINES = ("Gecko/20100101 Firefox/128.0", "AppleWebKit/537.36 Chrome/126.0")
_AGENTS = tuple(f"Mozilla/5.0 ({system}) {engine}" for system in _SYSTEMS for engine in _ENGINES)
_SECTIONS = ("products", "articles/2026", "images/large", "blog", "api/v2/items", "search")
_MILLION = 1_000_000
Text: TypeAlias = pa.Array
Columns: TypeAlias = Mapping[str, Text]


def ndjson(lines: int, spacing_us: int = LINE_SPACING_US) -> Path:
    """Shop clicks as JSON lines of about 208 bytes: eight fields, one of them an object; time in order.

    5,000 products (Zipf), 8 directories; `ts` is ISO 8601 with microseconds and Z.
    """
    return _log(f"clicks-{lines}-{spacing_us}.ndjson", lines, _Clicks(spacing_us).chunk, _json)


def csv(lines: int) -> Path:
    """The clicks as CSV with a header: ts, product, directory, clicks_count, price, location."""
    header = b"ts,product,directory,clicks_count,price,location\n"
    return _log(f"clicks-{lines}.csv", lines, _Clicks(LINE_SPACING_US).chunk, _csv, header)


def logfmt(lines: int) -> Path:
    """The clicks as logfmt."""
    return _log(f"clicks-{lines}.logfmt", lines, _Clicks(LINE_SPACING_US).chunk, _logfmt)


def combined(lines: int) -> Path:
    """A combined access log of about 201 bytes a line: 20,000 paths (Zipf), 30,000 hosts, time in order."""
    return _log(f"access-{lines}.log", lines, _Requests().chunk, _combined)


def _log(
    name: str,
    lines: int,
    chunk: Callable[[int, int], Columns],
    text: Callable[[Columns], pa.Buffer],
    header: bytes = b"",
) -> Path:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.write(header)
            for first in range(0, lines, CHUNK_LINES):
                file.write(text(chunk(first, min(CHUNK_LINES, lines - first))))

    return made(name, write)


class _Clicks:
    """The columns of a shop's clicks as text, one chunk after the other."""

    def __init__(self, spacing_us: int) -> None:
        self._spacing_us = spacing_us
        self._rng = np.random.default_rng(5)
        self._shares = zipf(5000)
        self._products = pa.array([f"P-{number * 7919 % 100_003:05}" for number in range(5000)])

    def chunk(self, first: int, rows: int) -> Columns:
        rng = self._rng
        micros = np.arange(first, first + rows, dtype=np.int64) * self._spacing_us
        price = rng.integers(100, 50_000, rows)
        return {
            "second": _seconds(micros // _MILLION, "%Y-%m-%dT%H:%M:%S"),
            "micro": _padded(micros % _MILLION, 6),
            "product": _pick(self._products, np.searchsorted(self._shares, rng.random(rows))),
            "directory": _pick(pa.array(_DIRECTORIES), rng.integers(0, len(_DIRECTORIES), rows)),
            "clicks": _numbers(rng.integers(1, 100, rows)),
            "euros": _numbers(price // 100),
            "cents": _padded(price % 100, 2),
            "user": _numbers(rng.integers(10_000_000, 99_999_999, rows)),
            "city": _pick(pa.array(_CITIES), rng.integers(0, len(_CITIES), rows)),
            "session": _padded(rng.integers(0, _MILLION, rows), 6),
        }


class _Requests:
    """The columns of a web server's requests as text, one chunk after the other."""

    def __init__(self) -> None:
        rng = self._rng = np.random.default_rng(6)
        numbers = np.arange(20_000)
        self._shares = zipf(len(numbers))
        sections = rng.integers(0, len(_SECTIONS), len(numbers)).tolist()
        self._paths = pa.array([f"/{_SECTIONS[s]}/{n * 7919 % 999_983}.html" for n, s in enumerate(sections)])
        octets = rng.integers(1, 255, (30_000, 4)).tolist()
        self._hosts = pa.array([".".join(map(str, four)) for four in octets])

    def chunk(self, first: int, rows: int) -> Columns:
        rng = self._rng
        status = rng.choice(np.array([200, 304, 404, 500]), rows, p=[0.9, 0.05, 0.04, 0.01])
        sizes = _numbers(rng.integers(200, 200_000, rows))
        return {
            "host": _pick(self._hosts, rng.integers(0, len(self._hosts), rows)),
            "second": _seconds(np.arange(first, first + rows) * LINE_SPACING_US // _MILLION, _CLF),
            "method": _pick(pa.array(["GET", "GET", "GET", "POST"]), rng.integers(0, 4, rows)),
            "path": _pick(self._paths, np.searchsorted(self._shares, rng.random(rows))),
            "status": _numbers(status),
            "bytes": pc.if_else(pa.array(status == 304), pa.scalar("-"), sizes),
            "referer": _pick(self._paths, rng.integers(0, 500, rows)),
            "agent": _pick(pa.array(_AGENTS), rng.integers(0, len(_AGENTS), rows)),
        }


_CLF = "%d/%b/%Y:%H:%M:%S +0000"


def _json(c: Columns) -> pa.Buffer:
    return _join(
        '{"ts":"', c["second"], ".", c["micro"], 'Z","product":"', c["product"], '","directory":"',
        c["directory"], '","clicks_count":', c["clicks"], ',"price":', c["euros"], ".", c["cents"],
        ',"user":{"id":', c["user"], ',"location":"', c["city"], '"},"session":"5f0c', c["session"],
        '","referer":"/search?page=12"}\n',
    )  # fmt: skip


def _csv(c: Columns) -> pa.Buffer:
    return _join(
        c["second"], ".", c["micro"], "Z,", c["product"], ",", c["directory"], ",", c["clicks"], ",",
        c["euros"], ".", c["cents"], ",", c["city"], "\n",
    )  # fmt: skip


def _logfmt(c: Columns) -> pa.Buffer:
    return _join(
        "ts=", c["second"], ".", c["micro"], "Z product=", c["product"], ' directory="', c["directory"],
        '" clicks_count=', c["clicks"], " price=", c["euros"], ".", c["cents"], ' location="', c["city"],
        '"\n',
    )  # fmt: skip


def _combined(c: Columns) -> pa.Buffer:
    return _join(
        c["host"], " - - [", c["second"], '] "', c["method"], " ", c["path"], ' HTTP/1.1" ', c["status"], " ",
        c["bytes"], ' "https://s.org', c["referer"], '" "', c["agent"], '"\n',
    )  # fmt: skip


def _join(*parts: Text | str) -> pa.Buffer:
    columns = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    joined = pc.binary_join_element_wise(*columns, pa.scalar(""))
    return joined.buffers()[2].slice(0, int(np.frombuffer(joined.buffers()[1], np.int32)[len(joined)]))


def _pick(values: Text, places: np.ndarray) -> Text:
    return values.take(pa.array(places))


def _numbers(values: np.ndarray) -> Text:
    return pa.array(values).cast(pa.string())


def _padded(values: np.ndarray, digits: int) -> Text:
    """Decimal numbers of a fixed width, with leading zeros."""
    text = (values[:, None] // 10 ** np.arange(digits - 1, -1, -1) % 10 + ord("0")).astype(np.uint8)
    offsets = np.arange(0, digits * (len(values) + 1), digits, dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1)))


def _seconds(values: np.ndarray, form: str) -> Text:
    """Seconds since the beginning as text; a chunk has few different ones."""
    distinct, places = np.unique(values, return_inverse=True)
    stamps = pa.array(distinct + BEGIN_S, pa.timestamp("s", tz="UTC"))
    return _pick(pc.strftime(stamps, format=form), places)
