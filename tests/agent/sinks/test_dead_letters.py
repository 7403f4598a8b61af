"""Records that a sink refused permanently are on disk, within a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.agent.sinks.base import SinkItem
from elfmesh.agent.sinks.dead_letters import SinkDeadLetters
from elfmesh.errors import DiskFull
from elfmesh.storage.storage import DiskStorage
from tests.agent.sinks.rig import LOG, item


def test_dead_letters_have_a_budget_and_survive_a_restart(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    letters = SinkDeadLetters(storage, "hook", bytes_max=2000)
    for index in range(9):
        letters.keep(LOG, item(index, pa.table({"text": ["x" * 300]})), "no")
    reported = letters.describe()
    assert reported["bytes"] <= 2000
    assert reported["dropped"] + reported["files"] == 9
    assert SinkDeadLetters(storage, "hook").describe() == reported | {"dropped": 0}
    newest = json.loads((tmp_path / "hook/shop.top/1a2b/8.json").read_bytes())
    assert (newest["refused"], newest["rows"]) == ("no", [{"text": "x" * 300}])
    storage.close()


def test_a_record_whose_rows_cannot_be_read_is_kept_without_them(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    SinkDeadLetters(storage, "hook").keep(LOG, SinkItem(item(3).record, b"no stream"), "no")
    kept = json.loads((tmp_path / "hook/shop.top/1a2b/3.json").read_bytes())
    assert (kept["refused"], kept["interval"]["index"], kept["rows"]) == ("no", 3, [])
    storage.close()


def test_on_a_full_disk_a_letter_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = DiskStorage(tmp_path)
    letters = SinkDeadLetters(storage, "hook")
    letters.keep(LOG, item(0), "no")
    before = letters.describe()

    def full(name: str, data: bytes) -> None:
        raise DiskFull("no space left", where=name)

    monkeypatch.setattr(storage, "write", full)
    letters.keep(LOG, item(1), "no")
    assert letters.describe() == before | {"dropped": 1}
    storage.close()
