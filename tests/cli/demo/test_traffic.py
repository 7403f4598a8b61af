from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elfmesh.cli.demo.traffic import DIRECTORIES, LOCATIONS, ShopTraffic, TrafficWriter, write_bulk
from elfmesh.errors import StorageError

NOW = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def records(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def times(count: int) -> list[int]:
    return [NOW + i * 1000 for i in range(count)]


def test_a_line_has_the_fields_of_the_papers_log() -> None:
    first = records(ShopTraffic(3).lines([NOW + 17_123_456]))[0]
    assert first["ts"] == "2026-01-01T00:00:17.123456Z"
    assert first["created_at"] == "Thu Jan 01 00:00:17 +0000 2026"
    assert set(first) == {
        "ts", "created_at", "id", "kind", "clicks_count", "likes_count", "buys_count", "product", "directory",
        "user",
    }  # fmt: skip
    assert set(first["user"]) == {"id", "name", "location"}
    assert first["id"] == 3 << 40


def test_content_does_not_depend_on_how_lines_are_asked_for() -> None:
    whole = ShopTraffic(1, seed=7).lines(times(10_000))
    pieces = ShopTraffic(1, seed=7)
    cuts = [0, 1, 2, 5_000, 5_000, 9_999, 10_000]
    joined = b"".join(pieces.lines(times(10_000)[a:b]) for a, b in itertools.pairwise(cuts))
    assert joined == whole
    assert ShopTraffic(1, seed=8).lines(times(10_000)) != whole


def test_agents_share_the_shop_but_not_the_visitors() -> None:
    seen = [records(ShopTraffic(agent, seed=5).lines(times(5_000))) for agent in range(2)]
    assert [r["product"] for r in seen[0]] != [r["product"] for r in seen[1]]
    where = [{r["product"]: r["directory"] for r in part} for part in seen]
    both = where[0].keys() & where[1].keys()
    assert len(both) > 100
    assert all(where[0][product] == where[1][product] for product in both)
    assert not {r["id"] for r in seen[0]} & {r["id"] for r in seen[1]}


def test_popularity_is_zipfs_and_kinds_are_mixed() -> None:
    part = records(ShopTraffic(seed=2).lines(times(50_000)))
    products = Counter(r["product"] for r in part)
    ranked = [count for _, count in products.most_common(10)]
    assert products.most_common(1)[0][0] == "Angry Birds"
    assert 1.5 < ranked[0] / ranked[1] < 3
    assert len(products) == 400
    kinds = Counter(r["kind"] for r in part)
    assert kinds["click"] > kinds["like"] > kinds["buy"] > 0
    assert all(r["clicks_count"] * (r["kind"] == "click") == r["clicks_count"] for r in part)
    assert {r["directory"] for r in part} == set(DIRECTORIES)
    assert {r["user"]["location"] for r in part} == set(LOCATIONS)


def test_the_writer_keeps_its_rate_and_stamps_just_before_now(tmp_path: Path) -> None:
    path = tmp_path / "clicks.ndjson"
    writer = TrafficWriter(path, ShopTraffic(), rate_per_s=250, now_us=NOW)
    ticks = [NOW, NOW + 3_000, NOW + 20_000, NOW + 20_000, NOW + 40_000, NOW + 5_040_000]
    stamps: list[int] = []
    for now in ticks:
        count = writer.advance(now)
        part = records(path.read_bytes())[len(stamps) :] if path.stat().st_size else []
        assert len(part) == count
        new = [round(datetime.fromisoformat(r["ts"]).timestamp() * 1_000_000) for r in part]
        assert all(now - 20_000 <= stamp <= now for stamp in new)
        stamps += new
    writer.close()
    assert stamps == sorted(stamps)
    assert len(stamps) == writer.written == 5.04 * 250


def test_bulk_writes_many_lines_with_even_times(tmp_path: Path) -> None:
    path = tmp_path / "bulk.ndjson"
    size = write_bulk(path, 70_000, ShopTraffic(), start_us=NOW, rate_per_s=10_000)
    assert size == path.stat().st_size
    stamps = np.array([r["ts"] for r in records(path.read_bytes())])
    assert len(stamps) == 70_000
    assert (stamps[0], stamps[-1]) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:06.999900Z")
    assert list(stamps) == sorted(stamps)


def test_an_unwritable_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        TrafficWriter(tmp_path / "no" / "x", ShopTraffic(), rate_per_s=1, now_us=NOW)
    with pytest.raises(StorageError, match="Is a directory"):
        write_bulk(tmp_path, 1, ShopTraffic(), start_us=NOW)


def test_the_command_writes_at_once_or_live(tmp_path: Path) -> None:
    path = tmp_path / "clicks.ndjson"
    command = [sys.executable, "-m", "elfmesh.cli.demo.traffic", str(path)]
    subprocess.run([*command, "--lines", "12"], check=True)
    assert len(records(path.read_bytes())) == 12
    subprocess.run([*command, "--seconds", "0.3", "--rate", "1000"], check=True)
    assert len(records(path.read_bytes())) > 100
