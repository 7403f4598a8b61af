"""A log that is rotated between the moment it is listed and the moment it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader, held
from elfmesh.ingest.sources.file import open_file


def test_a_name_that_leads_elsewhere_by_now_is_not_read_as_what_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, rotated = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_text('{"n": 1}\n')
    now = [0.0]
    reader = StreamReader(str(log), StreamFormat("json"), clock=lambda: now[0])
    reader.add("job", ["n"])

    def late(path: str, *others: object) -> object:
        monkeypatch.setattr(held, "open_file", open_file)
        log.rename(rotated)
        log.write_text('{"n": 2}\n')
        return open_file(path, *others)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(held, "open_file", late)
    found: list[int] = []
    for _ in range(200):
        now[0] += 1.0
        for delivery in reader.poll():
            found += delivery.parsed.batch.column("n").to_pylist()
        if now[0] == 100.0:
            log.rename(tmp_path / "a.log.2")
            log.write_text('{"n": 3}\n')
    assert sorted(found) == [1, 2, 3]
    reader.close()
