"""A log and its archive for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from elfmesh.agent.archive.archive import Archive
from elfmesh.ingest.archive_settings import ArchiveConfig
from elfmesh.ingest.sources.tail import ReadFrom
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig


class Rig:
    """A log and its archive; `now` is the archive's clock."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.root, self.log = root, root / "app.log"
        self.stream = StreamConfig(
            path=str(root / "app.log*"),
            format=config.pop("format", "json"),
            multiline=config.pop("multiline", ""),
        )
        self.config, self.now = ArchiveConfig(**config), 1_000.0
        self.read_from: ReadFrom = "beginning"

    def open(self) -> Archive:
        return Archive(
            "app", self.stream.path, format_of(self.stream, name="app"), self.config,
            directory=self.root / "out", host="h1", clock=lambda: self.now,
            read_from=self.read_from,
        )  # fmt: skip

    def write(self, *lines: str) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def once(self) -> dict[str, Any]:
        """Read everything and write it, as a process that then ends."""
        archive = self.open()
        try:
            while archive.step():
                pass
            archive.flush()
            return archive.describe()
        finally:
            archive.close()

    @property
    def rows(self) -> list[dict[str, Any]]:
        found = ds.dataset(self.root / "out" / "app", format="parquet", partitioning="hive")
        rows: list[dict[str, Any]] = found.to_table().to_pylist()
        return rows
