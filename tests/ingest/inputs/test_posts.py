"""Posts: what a message becomes in the spool, and which ones are refused."""

from __future__ import annotations

import asyncio
import json
import tempfile
from functools import partial
from pathlib import Path

import pytest

from elfmesh.errors import UsageError
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.inserts import Inserts
from elfmesh.ingest.inputs.posts import PostTimes, newest_us, post_line, read_post
from elfmesh.ingest.inputs.spool import Spool
from elfmesh.ingest.inputs.writer import SpoolWriter
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.limits import LINE_BYTES_MAX, POST_BYTES_MAX


def test_plain_fields_are_columns_and_cannot_replace_those_of_the_agent() -> None:
    own = {"producer": "other", "position": 99, "body": "x", "ts": "1970"}
    message = {"campaign": "c1", "n": 3, "list": [1], **own}
    text = json.dumps(message)
    line = json.loads(post_line(read_post(text.encode()), 1_500_000, "p", 7))
    assert line == {
        "campaign": "c1", "n": 3, "producer": "p", "position": 7, "body": text,
        "ts": "1970-01-01T00:00:01.500000+00:00",
    }  # fmt: skip
    assert read_post(b' "text" ') == {"body": ' "text" '}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "one JSON value"),
        (b"{} {}", "one JSON value"),
        (b'"\xff"', "one JSON value"),
        (b'{"a": NaN}', "one JSON value"),
        (b"[" * 100_000, "over|one JSON value"),
        (b"[" * 20_000, "one JSON value"),
        (b'"' + b"x" * POST_BYTES_MAX + b'"', "is over"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_post(data)


def test_times_do_not_decrease_when_the_clock_does() -> None:
    clock = iter([5, 9, 7, 10])
    times = PostTimes(lambda: next(clock))
    assert [times.next_us() for _ in range(4)] == [5, 9, 9, 10]


async def test_a_record_without_a_time_gets_that_of_its_insert_at_the_agent(tmp_path: Path) -> None:
    """The program's own time would be late if the insert had waited for an agent that was away."""
    executor, clock = ThreadExecutor(1), iter([3_000_000, 2_000_000])
    writer = SpoolWriter("words", Spool(tmp_path, 1 << 20, positioned=True), executor, _no_restarts)
    target = Inserts("a/b", writer, lambda: next(clock))
    stamp = "2026-01-01T00:00:00.000000Z"
    lines = [b'{"ts":"%s","k":1}' % stamp.encode(), b'{"ts":"2026-01-01","k":2}', b"no json"]
    try:
        await target.insert("p", 1, lines, stamp)
        await target.insert("p", 2, lines[:1], stamp)
        await target.insert("p", 3, lines[:1])
        with pytest.raises(UsageError, match="longer than"):
            await target.insert("p", 4, [b"x" * LINE_BYTES_MAX], stamp)
    finally:
        await writer.close()
        executor.close()
    at = b'{"ts":"1970-01-01T00:00:03.000000+00:00","k":1}'
    assert (tmp_path / "spool.log").read_bytes().split(b"\n") == [at, *lines[1:], at, lines[0], b""]


def test_no_post_is_late_because_the_clock_steps_back_over_a_restart() -> None:
    asyncio.run(_step_back())


async def _step_back() -> None:
    times = []
    with tempfile.TemporaryDirectory() as directory:
        for boot, clock_us in enumerate((100_000_000, 40_000_000)):
            executor, spool = ThreadExecutor(2), Spool(Path(directory), 8 << 20, positioned=True)
            writer = SpoolWriter("words", spool, executor, _no_restarts)
            inserts = Inserts("shop/words", writer, partial(int, clock_us))
            await inserts.post("p", boot, b'"x"')
            await inserts.insert("q", boot, [b'{"ts":"2099-01-01T00:00:00Z"}'])  # it is no post
            times = [json.loads(line)["ts"] for line in spool.path.read_bytes().splitlines()]
            await writer.close()
            executor.close()
    assert times[0] == "1970-01-01T00:01:40.000000+00:00"
    assert times[2] >= times[0], "the interval of the first post may be closed, and the second would be late"


async def _no_restarts() -> list[tuple[FilePosition, ...]]:
    return []


def test_the_newest_time_is_that_of_posts_alone() -> None:
    post = post_line({"body": "1"}, 7_000_000, "p", 1)
    others = [b"", b"x", b"{}", b'{"producer":"p","position":1,"body":"1","ts":"yesterday"}', b"\xff"]
    assert newest_us([]) == newest_us(others) == 0
    assert newest_us([*others, post, *others]) == 7_000_000


def test_a_post_that_is_too_large_is_refused_with_both_numbers() -> None:
    largest = b'"' + b"x" * (POST_BYTES_MAX - 2) + b'"'
    assert read_post(largest)["body"] == largest.decode()
    with pytest.raises(UsageError, match=f"{POST_BYTES_MAX + 1} bytes is over {POST_BYTES_MAX}") as refused:
        read_post(largest[:-1] + b'x"')
    assert "reference" in refused.value.hint


async def test_a_post_is_stored_once(tmp_path: Path) -> None:
    executor = ThreadExecutor(2)
    inputs = Inputs({"words": StreamConfig(listen="program://shop/words")}, tmp_path, executor)
    try:
        await inputs.start(None)  # type: ignore[arg-type]  # no job reads here
        target = inputs.inserts("shop/words", None)
        assert [await target.post("p", number, b"1") for number in (0, 1, 1, 0)] == [0, 1, 1, 1]
        lines = (tmp_path / "words" / "spool.log").read_bytes().splitlines()
        assert [json.loads(line)["position"] for line in lines] == [0, 1]
        assert target.times.waiting == 0
    finally:
        await inputs.close()
        executor.close()
