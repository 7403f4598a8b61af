"""The results of a job as one Parquet or Arrow file: HEAD, byte ranges and the same bytes for a reader.

A reader of columns such as DuckDB requests the length of a file, then its end, then ranges of it. Therefore
the agent writes the file to its temporary directory, and answers all requests of one reader from it. aiohttp
owns ranges, entity tags and conditions.

Invariants: a file is never changed once it is written, and a request without a range gets a file of the
intervals that are closed when it comes. A request with a range gets the reader's newest file, so a reader
sees no interval that closes while it reads. At most one file is written at a time, and all files together
have at most `bytes_max` bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from elfmesh.api.client.client import INCARNATION
from elfmesh.api.client.result_range import index_from
from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.web.responses import json_response
from elfmesh.api.web.row_stream import RowsRefused, RowStream, open_rows, refusing
from elfmesh.api.web.whole_rows import Asker
from elfmesh.control.answers import CONFLICT, OK, UNAVAILABLE, error_body
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.protocol.replies import Description, ResultOffsets, read_reply
from elfmesh.errors import RuntimeFailure
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.row_json import iso_us
from elfmesh.units import parse_time

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa = lazy_module("pyarrow")
    pq = lazy_module("pyarrow.parquet")

FILE_BYTES_MAX = 256 << 20
"""Maximum number of bytes of one file. A longer range is requested in parts."""
BYTES_MAX = 1 << 30
"""Maximum number of bytes of all files, which is the space that they need in the temporary directory."""
QUIET_S = 60.0
"""How long a file is kept after the last request for it."""
GROUP_ROWS, GROUP_BYTES = 100_000, 32 << 20
"""Number of rows or bytes from which on a row group is complete: intervals of few rows share one."""
TOO_LARGE = 413
TYPES = {"parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.file"}


@dataclass(slots=True)
class _File:
    """A written file.

    Attributes:
        of: incarnation, first and last interval.
        held: the file; closing it removes it.
        nbytes: its length.
        used_at: time of the last request, in the loop's time.
        readers: answers that are being sent from it; it is not removed meanwhile.
    """

    of: tuple[str, int, int]
    held: IO[bytes]
    nbytes: int
    used_at: float
    readers: int = 0


class _Answer(web.FileResponse):
    """Sends a file, or the requested ranges of it, and then calls `sent`."""

    def __init__(self, path: str, headers: dict[str, str], sent: Callable[[], None]) -> None:
        super().__init__(path, headers=headers)
        self._when_sent = sent

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        try:
            return await super().prepare(request)
        finally:
            self._when_sent()


class ResultFiles:
    """The files of an agent's API.

    Args:
        file_bytes_max: maximum number of bytes of one file.
        bytes_max: maximum number of bytes of all files.
        quiet_s: how long a file is kept after the last request for it.
    """

    def __init__(
        self,
        file_bytes_max: int = FILE_BYTES_MAX,
        bytes_max: int = BYTES_MAX,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._file_bytes_max, self._bytes_max, self._quiet_s = file_bytes_max, bytes_max, quiet_s
        self._files: dict[tuple[str, ...], _File] = {}
        self._replaced: list[_File] = []
        self._writing = asyncio.Lock()

    async def answer(
        self, request: web.Request, ask: Asker, job: dict[str, Any], kind: str, bounds: dict[str, str]
    ) -> web.StreamResponse:
        """Answer a request for a file, or for ranges of it; errors are JSON with their status.

        Args:
            request: request of the client.
            ask: sends a request to the master of the job.
            job: fields that name the job.
            kind: "parquet" or "arrow", the IPC file format of Arrow.
            bounds: "since" and "until", if they are in the request.

        Raises:
            UsageError: a bound is not a time.
            RuntimeFailure: the file cannot be written.

        Cost: one message to the master if the file exists; otherwise the rows are fetched and written once.
        """
        reader = (request[PRINCIPAL].name, request.remote or "")
        key = (*reader, kind, *sorted(job.values()), *map(str, sorted(bounds.items())))
        try:
            found = self._files.get(key) if hdrs.RANGE in request.headers else None
            if found is None:
                async with self._writing:
                    found = await self._current(key, ask, job, kind, bounds)
                    found.readers += 1
            else:
                found.readers += 1
        except RowsRefused as error:
            return json_response(error.status, error.body)
        headers = {hdrs.CONTENT_TYPE: TYPES[kind], INCARNATION: found.of[0]}
        return _Answer(found.held.name, headers, partial(self._sent, found))

    def _sent(self, found: _File) -> None:
        loop = asyncio.get_running_loop()
        found.readers -= 1
        found.used_at = loop.time()
        loop.call_later(self._quiet_s + 1, self._remove_quiet)

    def close(self) -> None:
        """Remove all files."""
        for each in (*self._files.values(), *self._replaced):
            each.held.close()
        self._files.clear()
        self._replaced.clear()

    async def _current(
        self, key: tuple[str, ...], ask: Asker, job: dict[str, Any], kind: str, bounds: dict[str, str]
    ) -> _File:
        incarnation, first, last = of = await _closed(ask, job, bounds)
        if (had := self._files.get(key)) is not None:
            if had.of == of:
                return had
            self._replaced.append(self._files.pop(key))
        self._remove_quiet()
        question = {"from": first, "to": last, "state": "final"}
        rows = await open_rows(ask, job, question)
        if rows.incarnation != incarnation:
            raise RowsRefused(UNAVAILABLE, error_body("the job is being created again"))
        with _disk():
            held = tempfile.NamedTemporaryFile(prefix="elf-results-", suffix=f".{kind}")  # noqa: SIM115 - the cache closes it
        try:
            with refusing():
                await self._write(held, kind, rows)
        except BaseException:
            held.close()
            raise
        size = os.fstat(held.fileno()).st_size
        self._make_room(size)
        found = self._files[key] = _File(of, held, size, asyncio.get_running_loop().time())
        return found

    async def _write(self, held: IO[bytes], kind: str, rows: RowStream) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_disk())
            make = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
            writer = stack.enter_context(make(held, rows.columns))
            try:
                async for group in _groups(rows.tables):
                    await _whole(partial(writer.write_table, group))
                    self._check(held.tell())
            except ConnectionAbortedError as error:
                raise RowsRefused(UNAVAILABLE, error_body(str(error), hint="Try again.")) from None
        with _disk():
            held.flush()
        self._check(held.tell())

    def _check(self, nbytes: int) -> None:
        if nbytes > self._file_bytes_max:
            line = f"the file has more than {self._file_bytes_max} bytes"
            raise RowsRefused(
                TOO_LARGE, error_body(line, hint="Request a shorter range with since and until.")
            )

    def _make_room(self, nbytes: int) -> None:
        """Remove the files that have not been requested for the longest time."""
        for key in sorted(self._files, key=lambda key: self._files[key].used_at):
            if sum(each.nbytes for each in self._all()) + nbytes <= self._bytes_max:
                return
            self._replaced.append(self._files.pop(key))
            self._remove_replaced()

    def _remove_quiet(self) -> None:
        before = asyncio.get_running_loop().time() - self._quiet_s
        for key in [key for key, each in self._files.items() if each.used_at < before]:
            self._replaced.append(self._files.pop(key))
        self._remove_replaced()

    def _remove_replaced(self) -> None:
        for each in self._replaced:
            if not each.readers:
                each.held.close()
        self._replaced = [each for each in self._replaced if each.readers]

    def _all(self) -> Iterator[_File]:
        yield from self._files.values()
        yield from self._replaced


async def _closed(ask: Asker, job: dict[str, Any], bounds: dict[str, str]) -> tuple[str, int, int]:
    """Return the incarnation and the first and last closed interval that starts in [since, until)."""
    now = datetime.datetime.now(datetime.UTC)
    times = {name: parse_time(text, now, name) for name, text in bounds.items()}
    log = read_reply(ResultOffsets, (await _asked(ask, "offsets", job)).body)
    first, last = log.earliest, log.latest
    if not times or last < first:
        return log.incarnation, first, last
    reply = await _asked(ask, "results", job | {"from": last, "limit": 1})
    record = next((record for record, _ in decode_page(reply.payload)), None)
    slide = read_reply(Description, (await _asked(ask, "describe", job)).body).window.get("slide")
    if record is None or record.start_us is None or slide is None:
        raise RowsRefused(CONFLICT, error_body("since and until need a job with windows of time"))
    place = {"index": record.index, "start": iso_us(record.start_us)}
    index = {name: index_from(place, slide, time) for name, time in times.items()}
    return log.incarnation, max(first, index.get("since", first)), min(last, index.get("until", last + 1) - 1)


async def _asked(ask: Asker, verb: str, body: dict[str, Any]) -> Any:
    reply = await ask(verb, body)
    if reply.status != OK:
        raise RowsRefused(reply.status, reply.body)
    return reply


async def _groups(tables: AsyncIterator[pa.Table]) -> AsyncIterator[pa.Table]:
    held: list[pa.Table] = []
    async for table in tables:
        if not table.num_rows:
            continue
        held.append(table)
        rows, nbytes = sum(each.num_rows for each in held), sum(each.nbytes for each in held)
        if rows >= GROUP_ROWS or nbytes >= GROUP_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held = []
    if held:
        yield pa.concat_tables(held).combine_chunks()


async def _whole(call: Callable[[], Any]) -> None:
    """Run a call in a thread to its end, also if the request is cancelled: its file is closed next."""
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        place = tempfile.gettempdir()
        raise RuntimeFailure(f"{place}: cannot be written: {error.strerror or error}") from None
