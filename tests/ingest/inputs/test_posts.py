"""Posts: what a message becomes in the spool, and which ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elfmesh.errors import UsageError
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.posts import PostTimes, post_line, read_post
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.limits import POST_BYTES_MAX


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
