"""The journal as an input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.journal import Journal, cursor_of
from elfmesh.ingest.inputs.spool import Spool
from elfmesh.ingest.inputs.writer import SpoolWriter
from tests.ingest.inputs.receiving import until

JOURNALCTL = """
import json, sys, time
after = next((int(a.split("=c", 1)[1]) for a in sys.argv if a.startswith("--after-cursor=")), -1)
if "--lines=0" in sys.argv and after < 0:
    after = 9
for n in range(after + 1, 1000):
    if n - after > 7:
        time.sleep(0.05)
        sys.exit(0)
    print(json.dumps({"__CURSOR": f"c{n}", "MESSAGE": f"m{n}"}), flush=True)
"""


async def test_the_journal_goes_on_behind_the_last_entry_that_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journalctl that ends after a few entries stands for one that is killed."""
    monkeypatch.setattr("elfmesh.ingest.inputs.journal.AGAIN_MIN_S", 0.01)
    script = tmp_path / "journalctl.py"
    script.write_text(JOURNALCTL)
    command = (sys.executable, str(script))

    async def restarts() -> list[Any]:
        return []

    executor = ThreadExecutor(2)
    for _ in range(2):
        spool = Spool(tmp_path / "spool", 1 << 20)
        before = spool.nbytes
        writer = SpoolWriter("journal", spool, executor, restarts)
        journal = Journal(writer, ["_UID=0"], from_end=False, command=command)
        assert journal.arguments()[-2:] == ["--", "_UID=0"]
        await until(lambda spool=spool, before=before: spool.nbytes > before + 400)  # type: ignore[misc]  # bound here
        await journal.close()
        await writer.close()
        with (tmp_path / "spool" / "spool.log").open("ab") as file:
            file.write(b'{"__CURSOR": "torn')  # what a crash within a write leaves
    executor.close()
    lines = (tmp_path / "spool" / "spool.log").read_bytes().splitlines()[:-1]
    assert [cursor_of(line) for line in lines] == [f"c{n}" for n in range(len(lines))]
