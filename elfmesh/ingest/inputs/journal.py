"""Input from the systemd journal: a child `journalctl`, its JSON in the spool, its cursor as position.

Every entry contains the cursor. After a restart the child begins after the last durable line, so nothing is
lost or repeated while the journal still has it. If the child ends by itself, it is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence

from elfmesh.ingest.inputs.writer import SpoolWriter, watched
from elfmesh.limits import LINE_BYTES_MAX

log = logging.getLogger("elf.inputs")
COMMAND = ("journalctl",)
READ_BYTES = 256 << 10
AGAIN_MIN_S, AGAIN_MAX_S = 0.5, 30.0
CURSOR = "__CURSOR"


class Journal:
    """Follower of the journal.

    Args:
        matches: matches of journalctl (`_SYSTEMD_UNIT=nginx.service`); none: the whole journal.
        from_end: with an empty spool, begin with the next entry instead of the oldest.
    """

    def __init__(
        self,
        writer: SpoolWriter,
        matches: Sequence[str],
        *,
        from_end: bool,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._writer, self._matches, self._from_end, self._command = writer, matches, from_end, command
        self._cursor = cursor_of(writer.spool.last_line())
        self._task = watched(self._run(), writer.name, writer.counters)

    def look(self) -> None: ...

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def arguments(self) -> list[str]:
        begin = [f"--after-cursor={self._cursor}"] if self._cursor else []
        if not begin:
            begin = ["--lines=0"] if self._from_end else ["--no-tail"]
        fixed = ["--follow", "--output=json", "--all", "--no-pager", "--quiet"]
        return [*self._command, *fixed, *begin, "--", *self._matches]

    async def _run(self) -> None:
        pause = AGAIN_MIN_S
        while True:
            before = self._writer.counters.messages
            why = await self._follow()
            pause = AGAIN_MIN_S if self._writer.counters.messages > before else min(AGAIN_MAX_S, pause * 2)
            self._writer.counters.problem = why
            log.warning("the journal is not read: %s; again in %.1f s", why, pause)
            await asyncio.sleep(pause)

    async def _follow(self) -> str:
        try:
            child = await asyncio.create_subprocess_exec(
                *self.arguments(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            return f"{self._command[0]} cannot be run: {error.strerror or error}"
        assert child.stdout is not None
        assert child.stderr is not None
        reported = asyncio.get_running_loop().create_task(_last_words(child.stderr))
        try:
            await self._take(child.stdout)
            code = await child.wait()
            words = await reported
            return f"{self._command[0]} has ended ({code}): {words}" if words else f"it has ended ({code})"
        finally:
            reported.cancel()
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()

    async def _take(self, stdout: asyncio.StreamReader) -> None:
        rest, dropping = b"", False
        while chunk := await stdout.read(READ_BYTES):
            data = rest + chunk
            end = data.rfind(b"\n") + 1
            whole, rest = data[:end], data[end:]
            if dropping and whole:
                whole, dropping = whole.partition(b"\n")[2], False
            if len(rest) > LINE_BYTES_MAX:
                self._writer.counters.overlong += not dropping
                rest, dropping = b"", True
            if whole:
                await self._writer.put(whole, whole.count(b"\n"))
                self._cursor = cursor_of(whole.rstrip(b"\n").rpartition(b"\n")[2]) or self._cursor


async def _last_words(stderr: asyncio.StreamReader) -> str:
    reported = b""
    while chunk := await stderr.read(4096):
        reported = (reported + chunk)[-400:]
    return reported.decode("utf-8", "replace").strip()


def cursor_of(line: bytes) -> str:
    try:
        entry = json.loads(line) if line else {}
    except ValueError:
        return ""
    cursor = entry.get(CURSOR, "") if isinstance(entry, dict) else ""
    return cursor if isinstance(cursor, str) else ""
