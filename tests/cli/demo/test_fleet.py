"""The web servers of the demo: lines in every log, until a server is silent or the shop is closed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elfmesh.cli.demo.fleet import ShopLogs
from elfmesh.errors import StorageError
from tests.patience import PATIENCE_S


def shop(tmp_path: Path) -> ShopLogs:
    return ShopLogs({name: tmp_path / name for name in ("web1", "web2")}, seed=1, rate_per_s=2000)


def until(done: Callable[[], object], shop: ShopLogs) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        shop.check()
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_silent_server_writes_no_more_while_the_others_do(tmp_path: Path) -> None:
    logs = shop(tmp_path)
    one, two = logs.paths.values()
    assert (one.read_bytes(), two.read_bytes(), logs.lines, logs.last_us) == (b"", b"", 0, 0)
    logs.start()
    try:
        until(lambda: one.stat().st_size and two.stat().st_size, logs)
        logs.silence("web1")
        still, other = one.stat().st_size, two.stat().st_size
        until(lambda: two.stat().st_size > other, logs)
        assert one.stat().st_size == still
    finally:
        logs.stop()
    whole = one.read_bytes() + two.read_bytes()
    assert (logs.lines, whole[-1:]) == (whole.count(b"\n"), b"\n")
    assert 0 < logs.last_us <= time.time_ns() // 1000


def test_what_the_writing_fails_with_is_raised_by_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = shop(tmp_path)

    def full(*_: object) -> int:
        raise StorageError("no space left")

    monkeypatch.setattr("elfmesh.cli.demo.traffic.TrafficWriter.advance", full)
    logs.check()
    logs.start()
    try:
        with pytest.raises(StorageError, match="no space left"):
            until(bool, logs)
    finally:
        logs.stop()


def test_a_shop_that_was_never_opened_can_be_closed(tmp_path: Path) -> None:
    shop(tmp_path).stop()
