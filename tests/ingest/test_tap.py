from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.api.web.tap import TapRequest
from elfmesh.errors import QueryError, RuntimeFailure
from elfmesh.ingest import tap as module
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.tap import TAPS_MAX, Taps
from tests.ingest.tapping import ALL, append, ask, line, new_format, shown


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


async def test_only_what_comes_is_shown_and_it_ends_at_the_limit(taps: Taps, tmp_path: Path) -> None:
    lines = taps.lines(ask(beginning=False, limit=2))
    assert await anext(lines) == {"stream": "log"}
    append(tmp_path / "log", line(5000) + line(5001) + line(5002))
    found = [each async for each in lines]
    assert [json.loads(each["line"])["n"] for each in found if "line" in each] == [5000, 5002]


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


async def test_a_stream_that_is_waited_for_is_reported_as_quiet(
    taps: Taps, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_field_that_no_line_has_is_reported(taps: Taps) -> None:
    _, counts = await shown(taps, ask(ALL, "SELECT _raw FROM log WHERE nn > 3 AND n > 0", seconds=0.5))
    assert counts["unseen"] == ["nn"]


async def test_a_column_that_the_format_does_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    streams = {"log": StreamConfig(path=str(tmp_path / "log"), format="combined")}
    executor = ThreadExecutor()
    with pytest.raises(QueryError, match="log has no column statsu"):
        await shown(Taps(streams, new_format, executor), ask(ALL, "SELECT _raw FROM log WHERE statsu = 3"))
    executor.close()
