"""What one tap reads and shows: filters, samples, and lines that are cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elfmesh.ingest import tap_lines
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.tap import Taps
from elfmesh.ingest.tap_lines import LINE_CHARS_MAX
from tests.ingest.tapping import append, ask, line, new_format, shown


@pytest.fixture
async def taps(tmp_path: Path) -> AsyncIterator[Taps]:
    log = tmp_path / "log"
    log.write_text("".join(line(at) for at in range(1000)) + "no json\n")
    streams = {
        "log": StreamConfig(path=str(log), format="json"),
        "empty": StreamConfig(path=str(tmp_path / "x")),
    }
    executor = ThreadExecutor()
    yield Taps(streams, new_format, executor)
    executor.close()


async def test_lines_pass_the_filters_of_all_texts(taps: Taps) -> None:
    job = "CREATE JOB a.b EVERY '1 s' AS SELECT count(*) FROM log WHERE n % 100 = 7 GROUP BY n"
    numbers, counts = await shown(taps, ask(job, "SELECT _raw FROM log WHERE n > 500", limit=5))
    assert numbers == [507, 607, 707, 807, 907]
    assert counts == {"read": 1001, "matched": 5, "shown": 5, "parse_errors": 1, "jumps": 0}


async def test_more_lines_than_the_rate_are_sampled_evenly(taps: Taps) -> None:
    numbers, counts = await shown(taps, ask(rate=10, seconds=0.01))
    assert len(numbers) == 10 == counts["shown"]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, 999)
    assert max(b - a for a, b in itertools.pairwise(numbers)) <= 111
    assert counts["matched"] == 1000


async def test_a_long_line_is_cut(taps: Taps, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(1, text="x" * 100_000))
    found = [each async for each in taps.lines(ask(limit=1))]
    (text,) = [each["line"] for each in found if "line" in each]
    assert len(text) == LINE_CHARS_MAX + 1
    assert text.startswith('{"ts"')


async def test_a_stream_that_is_faster_is_jumped_over(taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap_lines, "POLL_BYTES", 1)
    path = Path(taps._streams["log"].path)
    lines = taps.lines(ask(beginning=False, seconds=30))
    await anext(lines)
    append(path, line(1))
    async for each in lines:
        if each.get("jumps"):
            break
    append(path, line(2))
    async for each in lines:
        if "line" in each:
            assert json.loads(each["line"])["n"] == 2
            break
    await lines.aclose()
