"""`elf bench host`: a real agent, the kernel's accounts."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from elfmesh.cli.entry import run
from elfmesh.cli.host.host_cost import FORMATS, Writer, parts_of
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
    writer = Writer(tmp_path / "log", "json", 100.0)
    writer.check()
    writer._slowest = 1.5
    with pytest.raises(RuntimeFailure, match="could not write 100 lines"):
        writer.check()


def test_an_operator_is_told_what_an_agent_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "host", "--rate", "500", "--seconds", "4", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "combined"
    assert found["lines_counted"] > 0
    assert found["rss_bytes"] > found["rss_idle_bytes"] / 2 > 1_000_000
    assert 0 < found["lag_p50_s"] <= found["lag_p99_s"]
    assert found["cpu_percent"] > 0


def test_wrong_usage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "host", "--rate", "0"]) == 2
    assert re.search("rate", capsys.readouterr().err)
