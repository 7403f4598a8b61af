"""`elf bench host`: a real agent, the kernel's accounts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from elfmesh.cli.host.host_cost import FORMATS, LogWriter, parts_of
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader


@pytest.mark.parametrize("name", FORMATS)
def test_every_line_that_is_written_can_be_read(name: str, tmp_path: Path) -> None:
    heads, tails, time_format = parts_of(name)
    stamp = datetime(2026, 1, 2, 3, 4, 5).strftime(time_format)
    log = tmp_path / "log"
    log.write_text("".join(f"{head}{stamp}{tail}" for head, tail in zip(heads, tails, strict=True)))
    reader = StreamReader(str(log), StreamFormat(name))
    reader.add("job", ("ts", "status", "bytes"), read_from="beginning")
    (found,) = reader.poll()
    assert (found.parsed.rows, found.parsed.errors) == (len(heads), 0)
    assert all(found.parsed.arrays[column].null_count == 0 for column in ("ts", "status", "bytes"))
    reader.close()


def test_a_rate_that_this_host_does_not_keep_is_no_figure(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "json", 100.0)
    writer.check()
    writer._slowest = 1.5
    with pytest.raises(RuntimeFailure, match="could not write 100 lines"):
        writer.check()
