from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.web.tap import TapRequest
from elfmesh.errors import QueryError, RuntimeFailure
from elfmesh.ingest import tap as module
from elfmesh.ingest import tap_lines
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.tap import TAPS_MAX, Taps
from elfmesh.ingest.tap_lines import LINE_CHARS_MAX

ALL = "SELECT _raw FROM log"


def line(number: int, **more: Any) -> str:
    return json.dumps({"ts": "2015-05-17T10:00:00Z", "n": number, **more}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as log:
        log.write(text)


def new_format(name: str, config: StreamConfig) -> StreamFormat:
    return format_of(config, name=name)


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


def ask(*texts: str, **options: Any) -> TapRequest:
    return TapRequest(texts=texts or (ALL,), **{"beginning": True, **options})


async def shown(taps: Taps, request: TapRequest) -> tuple[list[int], dict[str, Any]]:
    """The numbers in the lines, and the last counts."""
    numbers: list[int] = []
    counts: dict[str, Any] = {}
    async with contextlib.aclosing(taps.lines(request)) as lines:
        async for each in lines:
            if "line" in each:
                numbers.append(json.loads(each["line"])["n"])
            counts = each if "read" in each else counts
    return numbers, counts


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


async def test_only_what_comes_is_shown_and_it_ends_at_the_limit(taps: Taps, tmp_path: Path) -> None:
    lines = taps.lines(ask(beginning=False, limit=2))
    assert await anext(lines) == {"stream": "log"}
    append(tmp_path / "log", line(5000) + line(5001) + line(5002))
    found = [each async for each in lines]
    assert [json.loads(each["line"])["n"] for each in found if "line" in each] == [5000, 5002]


async def test_a_long_line_is_cut(taps: Taps, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(line(1, text="x" * 100_000))
    found = [each async for each in taps.lines(ask(limit=1))]
    (text,) = [each["line"] for each in found if "line" in each]
    assert len(text) == LINE_CHARS_MAX + 1
    assert text.startswith('{"ts"')


async def test_taps_are_few_and_one_that_ends_makes_room(taps: Taps) -> None:
    open_ones: list[AsyncGenerator[dict[str, Any], None]] = [taps.lines(ask()) for _ in range(TAPS_MAX)]
    for each in open_ones:
        await anext(each)
    with pytest.raises(RuntimeFailure, match="taps are open"):
        await anext(taps.lines(ask()))
    await open_ones.pop().aclose()
    again = taps.lines(ask())
    assert await anext(again) == {"stream": "log"}
    for each in (*open_ones, again):
        await each.aclose()
    assert taps._open == 0


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


async def test_what_is_waited_for_is_said_to_be_quiet(taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    lines = taps.lines(TapRequest(texts=("SELECT _raw FROM empty",)))
    assert await anext(lines) == {"stream": "empty"}
    assert (await anext(lines))["read"] == 0
    await lines.aclose()


@pytest.mark.parametrize(
    ("texts", "kind", "reported"),
    [
        (("SELECT _raw FROM nothing",), RuntimeFailure, "no stream nothing"),
        (("SELECT _raw FROM log WHERE",), QueryError, "nothing follows WHERE"),
        ((ALL, "SELECT _raw FROM empty WHERE a = 1"), QueryError, "does not read log"),
        (
            ("SELECT log.n FROM log JOIN lookup.t l ON log.n = l.n WHERE l.a > 1",),
            QueryError,
            "more than the record",
        ),
        (("SELECT n FROM log WHERE n > (SELECT max(n) FROM log)",), QueryError, "whole interval"),
    ],
)
async def test_what_cannot_be_shown_is_refused_before_anything_is_read(
    taps: Taps, texts: tuple[str, ...], kind: type[Exception], reported: str
) -> None:
    with pytest.raises(kind, match=reported):
        await anext(taps.lines(ask(*texts)))
    assert taps._open == 0


async def test_a_field_that_no_line_has_is_told(taps: Taps) -> None:
    _, counts = await shown(taps, ask(ALL, "SELECT _raw FROM log WHERE nn > 3 AND n > 0", seconds=0.5))
    assert counts["unseen"] == ["nn"]


async def test_a_column_that_the_format_does_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    streams = {"log": StreamConfig(path=str(tmp_path / "log"), format="combined")}
    executor = ThreadExecutor()
    with pytest.raises(QueryError, match="log has no column statsu"):
        await shown(Taps(streams, new_format, executor), ask(ALL, "SELECT _raw FROM log WHERE statsu = 3"))
    executor.close()
