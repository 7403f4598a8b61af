"""elf run within its memory: what does not fit goes to disk, and the rows are those of a run with room."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.cbt.budget import MemoryBudget
from elfmesh.errors import StorageError
from elfmesh.ingest.interval_result import IntervalResult
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse
from elfmesh.storage.spill import SpillStore
from tests.patience import PATIENCE_S

QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY s DESC LIMIT 50",
    "SELECT j, count(DISTINCT k) AS d FROM t GROUP BY j",
    "SELECT k, j, max(v) AS m FROM t GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k, j",
    "SELECT j, count(DISTINCT k) AS d FROM t GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND), j",
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, path = random.Random(3), tmp_path_factory.mktemp("log") / "log"
    with path.open("w") as file:
        for number in range(60_000):
            key = f"{rng.getrandbits(64) if number % 3 else number % 999:016x}"
            record = {"ts": number / 1_500, "k": key, "j": f"g{number % 7}", "v": rng.randrange(1_000)}
            file.write(json.dumps(record) + "\n")
    return path


def answers(text: str, log: Path, memory_bytes: int, spill_dir: Path) -> list[tuple[int, pa.Table]]:
    run = LogRun(parse(text), [str(log)], memory_bytes=memory_bytes, spill_dir=spill_dir)
    return [(result.record.index, result.table) for result in run.results()]


@pytest.mark.parametrize("text", QUERIES)
def test_a_run_that_spills_gives_the_rows_of_one_that_has_room(
    log: Path, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    put = SpillStore.put

    def counted(self: SpillStore, blob: bytes) -> int:
        written.append(len(blob))
        return put(self, blob)

    monkeypatch.setattr(SpillStore, "put", counted)
    whole = answers(text, log, 1 << 30, tmp_path / "unused")
    assert not written
    assert not (tmp_path / "unused").exists()
    monkeypatch.setattr("elfmesh.local.log_input.BLOCK_BYTES", 1 << 18)
    tight = answers(text, log, 100_000, tmp_path / "spill")
    assert len(written) > 3
    assert list((tmp_path / "spill").iterdir()) == []
    assert [index for index, _ in tight] == [index for index, _ in whole]
    assert all(one.equals(other) for (_, one), (_, other) in zip(tight, whole, strict=True))


def test_a_full_disk_ends_the_run_with_a_clear_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SpillStore, blob: bytes) -> int:
        raise StorageError("the disk is full", where=str(self.directory), hint="Make room there.")

    monkeypatch.setattr(SpillStore, "put", full)
    monkeypatch.setattr("elfmesh.local.log_input.BLOCK_BYTES", 1 << 16)
    with pytest.raises(StorageError, match="the disk is full"):
        answers(QUERIES[1], log, 100_000, tmp_path)


def test_a_sum_of_budgets_is_what_the_trees_hold(log: Path, tmp_path: Path) -> None:
    budgets: list[MemoryBudget] = []

    class Watched(LogRun):
        def _results(self, budget: MemoryBudget) -> Iterator[IntervalResult]:
            budgets.append(budget)
            return super()._results(budget)

    run = Watched(parse(QUERIES[1]), [str(log)], memory_bytes=500_000, spill_dir=tmp_path)
    list(run.results())
    assert budgets[0].problem is None
    assert budgets[0].nbytes < 500_000


@pytest.mark.parametrize("size", ["1 MB", "lots"])
def test_an_impossible_memory_is_a_usage_error(size: str, log: Path) -> None:
    command = [sys.executable, "-m", "elfmesh.cli.entry", "run", "--memory", size, QUERIES[0], str(log)]
    code = f"from elfmesh.cli.entry import main; main({command[3:]!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 2
    assert "--memory" in done.stderr


def test_trees_may_end_in_the_thread_that_reads_ahead(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector runs in whatever thread allocates, and the budget counts from there."""
    budgets: list[MemoryBudget] = []

    def noted(*arguments: Any, **options: Any) -> MemoryBudget:
        budgets.append(MemoryBudget(*arguments, **options))
        return budgets[-1]

    monkeypatch.setattr("elfmesh.local.embedded.MemoryBudget", noted)
    list(LogRun(parse(QUERIES[0]), [str(log)]).results())
    (budget,) = budgets
    with budget._counting:
        waits = threading.Thread(target=budget.note, args=(0, 1), kwargs={"used": False}, daemon=True)
        waits.start()
        waits.join(0.05)
        assert waits.is_alive(), "a second thread must wait, not fail"
    waits.join(PATIENCE_S)
    assert not waits.is_alive()


def test_a_full_disk_names_the_settings_of_elf_run(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr("elfmesh.local.log_input.BLOCK_BYTES", 1 << 18)
    with pytest.raises(StorageError) as caught:
        list(LogRun(parse(QUERIES[0]), [str(log)], memory_bytes=100_000).results())
    assert caught.value.where == str(tmp_path / "file" / "below")
    assert "--memory" in (caught.value.hint or "")
    assert "TMPDIR" in (caught.value.hint or "")
    assert "limits." not in str(caught.value)


def test_a_run_that_fits_in_memory_needs_no_directory_for_temporary_files(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    (result,) = LogRun(parse("SELECT j, count(*) AS n FROM t GROUP BY j"), [str(log)]).results()
    assert sum(result.table["n"].to_pylist()) == 60_000
    monkeypatch.setattr("elfmesh.local.log_input.BLOCK_BYTES", 1 << 18)
    with pytest.raises(StorageError, match="No usable temporary directory"):
        list(LogRun(parse(QUERIES[0]), [str(log)], memory_bytes=100_000).results())
