"""What people write: ELF-QL, configurations, words of the command line."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elfmesh import ql
from elfmesh.agent.settings.config import load_config, parse_label
from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import ElfError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.stream_settings import parse_stream
from elfmesh.units import parse_duration_us, parse_size
from tests.fuzz.engine import DEAR, Harness, memory_directory
from tests.fuzz.mutate import BYTES, mutated

ROOT = Path(__file__).parents[2]
WORDS = tuple(
    f" {word} ".encode()
    for word in [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "HAVING",
        "ORDER",
        "LIMIT",
        "DISTINCT",
        "AS",
        "AND",
        "OR",
        "NOT",
        "NULL",
        "IN",
        "BETWEEN",
        "LIKE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "INTERVAL",
        "TUMBLE",
        "HOP",
        "EVERY",
        "CREATE",
        "JOB",
        "PARTITIONS",
        "DEADLINE",
        "STRAGGLER",
        "ON",
        "WITH",
        "CAST",
        "STRING",
        "BIGINT",
        "DECIMAL(38,10)",
        "TIMESTAMP",
        "JOIN",
        "UNION",
        "EXPLAIN",
        "DROP",
        "OVER",
        "count(*)",
        "sum(",
        "min(",
        "max(",
        "avg(",
        "approx_count_distinct(",
        "(",
        ")",
        "[",
        "]",
        "*",
        ",",
        ";",
        "--",
        "/*",
        "*/",
        "'",
        '"',
        "`",
        ".",
        "..",
        "::",
        ":=",
        "=>",
        "->",
        "->>",
        "||",
        "&&",
        "<",
        "<=",
        "<>",
        "!=",
        "=",
        "%",
        "^",
        "~",
        "@",
        "#",
        "$",
        "?",
        "{",
        "}",
        "1",
        "-1",
        "1e400",
        "99999999999999999999",
        "0x1F",
        "1.5D",
        "1L",
        "'2015-05-17'",
        "'30",
        "s'",
        "\\'",
        "\\u0041",
        "$1",
        ":p",
        "@x",
    ]
)
DEEP = (
    b"(" * 40,
    b")" * 40,
    b"NOT " * 40,
    b"-" * 40,
    b"CASE WHEN 1=1 THEN " * 20,
    b"1+" * 60,
    b"a.b" * 30,
    b"coalesce(" * 30,
)


def queries() -> Harness:
    """ELF-QL texts of the documents and of the tests, mutated by bytes and by words."""
    corpus = _documented()

    def generate(rng: random.Random) -> bytes:
        text = rng.choice(corpus)
        draw = rng.random()
        if draw < 0.4:
            return mutated(rng, text, WORDS)
        words = text.split(b" ")
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(words))
            kind = rng.randrange(5)
            if kind == 0:
                words[at] = rng.choice(WORDS)
            elif kind == 1:
                words.insert(at, rng.choice(WORDS))
            elif kind == 2:
                other = rng.choice(corpus).split(b" ")
                words[at:at] = other[rng.randrange(len(other)) :][: rng.randrange(12)]
            elif kind == 3:
                del words[at : at + rng.randrange(4)]
                words = words or [b"SELECT"]
            else:
                words[at] = rng.choice(DEEP)
        return b" ".join(words)

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        statement = ql.parse(text)
        if not statement.star:
            query = ql.Query(statement)
            assert query.columns is not None
        if statement.job is not None:
            read_job(text)

    about = "ELF-QL texts, to the plan"
    return Harness("elf-ql", about, generate, run, DEAR, calls_per_byte=1000.0)  # sqlglot


def _documented() -> list[bytes]:
    found = []
    for name in ("docs/elf-ql.md",):
        for block in re.findall(r"```(?:sql|elfql)\n(.*?)```", (ROOT / name).read_text(), re.S):
            found += [text.strip().encode() for text in block.split(";") if "SELECT" in text]
    for path in sorted((ROOT / "examples").rglob("*.elfql")):
        found.append(path.read_bytes())
    assert found
    return [text for text in found if len(text) < 2000]


CONFIG = b"""data_dir = "/var/lib/elf"
listen = "127.0.0.1:0"
api = "[::1]:7401"
join = ["127.0.0.1:7400", "10.0.0.2:7400"]
join_timeout = "30 s"
cluster = "elf"
name = "web-1"
[labels]
rack = "a1"
[streams.access]
path = "/var/log/nginx/*.log"
format = "combined"
read_from = "end"
idle = "5 s"
ts = "time"
[limits]
cpu_percent = 5.0
memory = "200 MB"
spill = "4 GB"
[functions]
python = "off"
"""
TOML = (
    b'"""',
    b"'''",
    b"[[",
    b"]]",
    b"[a.b.c]\n",
    b"= ",
    b"1979-05-27T07:32:00Z",
    b"inf",
    b"nan",
    b"0x",
    b"{ a = 1 }",
    b'"\\U0010FFFF"',
    b"\n[streams.x]\n",
    b"9" * 30,
    b'"9" * 5000',
    b"join = 3\n",
    b"[labels]\n",
)


def configurations() -> Harness:
    """agent.toml, and the texts of the command line that go into it."""
    path = Path(memory_directory()) / f"fuzz-{os.getpid()}.toml"

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def generate(rng: random.Random) -> bytes:
        lines = CONFIG.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        if rng.random() < 0.5:  # most of a mutated whole is no TOML any more
            lines[at] = mutated(rng, lines[at], (*BYTES, *TOML))
            return b"".join(lines)
        return mutated(rng, CONFIG, (*BYTES, *TOML))

    def run(data: bytes) -> None:
        path.write_bytes(data)
        config = load_config(str(path))
        assert config.listen_address[1] <= 0xFFFF
        assert config.limits.memory_bytes > 0
        assert config.join_timeout_s >= 0
        for name, stream in config.streams.items():
            StreamFormat(stream.format, timestamp=stream.ts or None)
            assert stream.idle_us >= 0
            assert name

    return Harness("configurations", "configuration files", generate, run, around=around)


SETTINGS = [
    b"access=/var/log/a.log,format=csv:a,b,read_from=end,idle=5 s,ts=time",
    b"rack=a1",
    b"30 s",
    b"1 h 30 min",
    b"200 MB",
    b"1.5GiB",
    b"7 days",
]


def settings() -> Harness:
    """Words of the command line: streams, labels, durations, sizes."""

    def generate(rng: random.Random) -> bytes:
        return mutated(
            rng, rng.choice(SETTINGS), (*BYTES, b"9" * 20, b"e9", b"-", b"nan", "µs".encode(), "٣".encode())
        )

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        refusals = 0
        for read in (parse_stream, parse_label, parse_duration_us, parse_size):
            try:
                read(text)
            except Exception as error:
                if refusals == 3 or not isinstance(error, ElfError):
                    raise
                refusals += 1

    return Harness("settings", "words of the command line", generate, run)
