"""A real agent follows a stream for its archive, killed in the middle; who is told of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.e2e.fleet import Fleet, eventually

pytestmark = [pytest.mark.slow]


def test_an_agent_that_is_killed_archives_every_line_once(tmp_path: Path) -> None:
    log, config = tmp_path / "app.log", tmp_path / "agent.toml"
    config.write_text(
        f'[streams.app]\npath = "{log}"\nformat = "json"\n'
        f'[streams.app.archive]\npath = "{tmp_path}/out"\nevery = "50 ms"\n'
    )
    log.write_text("".join(f'{{"n": {n}}}\n' for n in range(500)))
    with Fleet(tmp_path / "fleet") as fleet:
        fleet.start(1, stream="other", extra=("-c", str(config)))
        agent = fleet[0]
        eventually(lambda: agent.get("/v1/agent")["archives"]["app"]["rows"] == 500, what="the archive")
        agent.kill()
        with log.open("a") as file:
            file.writelines(f'{{"n": {n}}}\n' for n in range(500, 900))
        agent.environment["ELF_FAILPOINT"] = "archive.written:1"
        agent.start()
        eventually(lambda: agent.process is not None and agent.process.poll() is not None, what="its death")
        agent.kill()  # gives its pipe back
        del agent.environment["ELF_FAILPOINT"]
        agent.start()
        agent.wait_ready()
        eventually(lambda: agent.get("/v1/agent")["archives"]["app"]["rows"] == 900, what="the rest")
        assert agent.get("/v1/health").get("archives") is None
        reported = agent.get("/v1/agent")["archives"]["app"]
        assert (reported["gaps"], reported["problem"], reported["what"]) == (0, "", "raw")
    rows = ds.dataset(tmp_path / "out" / "app", format="parquet", partitioning="hive").to_table()
    numbers = Counter(json.loads(line)["n"] for line in rows["_raw"].to_pylist())
    assert numbers == Counter(range(900))
    assert set(rows["_inode"].to_pylist()) == {os.stat(log).st_ino}  # noqa: PTH116 - as the row has it
