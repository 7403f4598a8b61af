"""Reader of a spool: lines that wait to be written keep the watermark back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader
from elfmesh.ingest.stream_settings import StreamConfig


def test_a_source_is_not_at_its_end_while_a_post_waits_for_the_disk() -> None:
    asyncio.run(_post_slowly())


async def _post_slowly() -> None:
    with tempfile.TemporaryDirectory() as directory:
        executor = ThreadExecutor(2)
        inputs = Inputs({"words": StreamConfig(listen="program://shop/words")}, Path(directory), executor)
        try:
            await inputs.start(None)  # type: ignore[arg-type]  # no job reads here
            reader = inputs.reader("words", inputs.streams["words"], StreamFormat("json"))
            reader.add("job", ("body",))
            target = inputs.inserts("shop/words", None)
            await target.post("p", 1, b"1")
            assert _read(reader) == [True]
            posting = asyncio.ensure_future(target.post("p", 2, b"2"))
            while not target._writer._queue and not posting.done():  # noqa: ASYNC110 - the other task's state
                await asyncio.sleep(0)
            assert _read(reader) == [False], "the post has its time, and is not in the file"
            await posting
            assert _read(reader) == [True]
            reader.close()
        finally:
            await inputs.close()
            executor.close()


def _read(reader: StreamReader) -> list[bool]:
    reader.poll()
    return [each.at_end for each in reader.sources("job")]
