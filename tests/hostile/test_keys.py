"""Keys chosen to collide, numbers at their ends, and structures as deep as a message may be long."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elfmesh.cbt import kernel
from elfmesh.cbt.kernel.protocol import Keys
from elfmesh.errors import ElfError, QueryError
from elfmesh.local.embedded import answers
from elfmesh.ql import parse
from tests.hostile.cost import calls, cut_off

GOLDEN = 0x9E3779B97F4A7C15
COUNT = 8_000
MAY_COST = 2.0
"""Times the calls, and the probes of the index."""


def mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def unmix(x: Any) -> Any:
    """The inverse of `mix`."""
    x = x ^ (x >> np.uint64(31)) ^ (x >> np.uint64(62))
    x = x * np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
    x = x ^ (x >> np.uint64(27)) ^ (x >> np.uint64(54))
    x = x * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
    return x ^ (x >> np.uint64(30)) ^ (x >> np.uint64(60))


def colliding(count: int) -> list[str]:
    """Keys of eight ASCII letters whose placement hash, which is public, begins alike."""
    found: list[str] = []
    first = mix(np.array([8 + GOLDEN], np.uint64)) * np.uint64(GOLDEN)
    low = np.uint64(0)
    while len(found) < count:
        hashes = (np.uint64(0xDEADBEEF) << np.uint64(32)) | np.arange(
            low, low + np.uint64(1 << 20), dtype=np.uint64
        )
        low += np.uint64(1 << 20)
        inner = unmix(hashes)
        words = unmix(inner ^ (inner >> np.uint64(32))) ^ first
        plain = words[(words & np.uint64(0x8080808080808080)) == 0]
        found += [word.tobytes().decode() for word in plain]
    return found[:count]


@pytest.fixture(scope="module")
def crafted() -> list[str]:
    return colliding(COUNT)


def as_keys(texts: list[str]) -> Keys:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    return Keys(offsets, np.frombuffer("".join(texts).encode(), np.uint8))


def test_the_keys_do_collide(crafted: list[str]) -> None:
    hashes = kernel.active.hash_keys(as_keys(crafted))
    assert set((hashes >> np.uint64(32)).tolist()) == {0xDEADBEEF}


def test_keys_of_one_placement_hash_cost_no_more_than_others(crafted: list[str], tmp_path: Path) -> None:
    """The order of the tree begins with that hash and goes on with the key; its index hashes otherwise."""
    rng = np.random.default_rng(7)
    others = [row.tobytes().decode() for row in rng.integers(1, 127, (COUNT, 8)).astype(np.uint8)]
    cost: dict[str, tuple[int, int]] = {}
    for name, keys in (("others", others), ("crafted", crafted)):
        log = tmp_path / name
        log.write_text("".join(json.dumps({"k": key}) + "\n" for key in keys))

        def work(log: Path = log) -> None:
            found = answers("SELECT k, count(*) AS n FROM log GROUP BY k", [str(log)], format="json")
            assert found[0].table.num_rows >= COUNT - 10

        table = kernel.active.table(7)
        table.upsert(as_keys(keys))
        with cut_off():
            cost[name] = calls(work), getattr(table, "probes", 0)  # the twin's index is Python's dict
    for crafted_cost, others_cost in zip(cost["crafted"], cost["others"], strict=True):
        assert crafted_cost <= MAY_COST * others_cost


def test_the_index_of_a_table_is_keyed_by_the_process() -> None:
    """The same keys lie elsewhere in the index of another process, so no sender can know which collide."""
    script = (
        "import numpy as np; from elfmesh.cbt import kernel; from elfmesh.cbt.kernel.protocol import Keys;"
        "k = kernel.active; t = k.table(7); n = 20000;"
        "d = b''.join(b'%08d' % i for i in range(n)); o = np.arange(0, 8*n+1, 8, dtype=np.int32);"
        "t.upsert(Keys(o, np.frombuffer(d, np.uint8))); print(t.probes)"
    )
    env = {**os.environ, "PYTHONHASHSEED": "random"}
    if kernel.active is not kernel.native:
        pytest.skip("the twin's index is Python's dict")
    reported = {subprocess.check_output([sys.executable, "-c", script], env=env) for _ in range(3)}
    assert len(reported) > 1


def test_whole_numbers_beyond_int64_and_odd_floats_have_one_meaning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    values = [
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "1e400",
        "-0.0",
        "0.0",
        "0",
        "-0",
    ]
    log.write_text("".join(f'{{"v": {value}}}\n' for value in values))
    (found,) = answers("SELECT v, count(*) AS n FROM log GROUP BY v", [str(log)], format="json")
    rows = found.table.to_pylist()
    zeros = [row for row in rows if row["v"] == 0]
    assert [row["n"] for row in zeros] == [4], "the zeros are one group"
    assert sum(found.record.counts.values()) == len(values), "no record is lost to a number that is too large"


def test_a_sum_beyond_int64_is_never_another_number(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"v": 9223372036854775807}\n' * 3)
    try:
        found = answers("SELECT sum(v) AS s FROM log", [str(log)], format="json")
    except ElfError:
        return
    (row,) = found[0].table.to_pylist()
    assert row["s"] is None or row["s"] == 3 * (2**63 - 1)


DEEP = {
    "parentheses": "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS x FROM log",
    "calls": "SELECT " + "abs(" * 3000 + "1" + ")" * 3000 + " AS x FROM log",
    "and": "SELECT count(*) AS n FROM log WHERE " + " AND ".join(["a = 1"] * 5_000),
    "not": "SELECT count(*) AS n FROM log WHERE " + "NOT " * 5000 + "a",
    "case": "SELECT " + "CASE WHEN a THEN " * 1500 + "1" + " END" * 1500 + " AS x FROM log",
    "arrays": "SELECT " + "array(" * 3000 + "1" + ")" * 3000 + " AS x FROM log",
    "queries": "SELECT * FROM (" * 800 + "SELECT a FROM log" + ")" * 800,
    "minus": "SELECT " + "- " * 9000 + "1 AS x FROM log",
    "comment": "SELECT 1 /*" * 5000 + " FROM log",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_text_is_an_error_or_an_answer_and_never_the_end(name: str) -> None:
    with cut_off(), contextlib.suppress(QueryError):
        parse(DEEP[name])


@pytest.mark.parametrize("unit", ["[", '{"a":', '{"a":[', '[{"b":'])
def test_deep_records_cost_one_record(unit: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"a": 1}\n' + '{"a":' + unit * 30_000 + "\n" + '{"a": 2}\n')
    with cut_off():
        found = answers("SELECT count(*) AS n FROM log WHERE a IS NOT NULL", [str(log)], format="json")
    assert found[0].table.to_pylist() == [{"n": 2}]
    assert found[0].record.counts["parse_error"] == 1
