"""The release before: its code out of this repository's history, and agents that run it.

What that code wrote is recorded in `agent.tar.zst` and `messages.json` (`record.py`): tests of what this
release reads need no history.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

import elfmesh
from tests.e2e.fleet import Agent, eventually

COMMIT = "8c41d92"
"""What version N-1 is for the tests: the commit that was attacked and tried from outside."""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AGENT, MESSAGES = HERE / "agent.tar.zst", HERE / "messages.json"
TUMBLE = "FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY k"
HOP = "FROM log GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND), k ORDER BY k"
JOBS = {
    "old/top": f"SELECT k, count(*) AS n, sum(v) AS s {TUMBLE}",
    "old/wide": f"SELECT k, count(*) AS n {HOP}",
    "old/sent": "SELECT count(*) AS n FROM pushed GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)",
}
UPDATED = f"SELECT k, count(*) AS n, max(v) AS s {TUMBLE}"
CONFIG = """
[streams.log]
path = "{root}/a.log"
format = "json"
idle = "1 h"
read_from = "beginning"

[streams.log.archive]
path = "{root}/archive"

[streams.pushed]
listen = "tcp://127.0.0.1:{port}"
format = "json"
idle = "1 h"

[sinks.files]
type = "parquet"
jobs = ["old/*"]
path = "{root}/parquet"
"""


def code(place: Path, commit: str = COMMIT) -> Path:
    """Put the package as it was at a commit there, with the native modules of this build (of one interface).

    Skips where the history does not go back so far.
    """
    found = subprocess.run(["git", "archive", commit, "elfmesh"], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"the history does not go back to {commit}: {found.stderr.decode().strip()[:200]}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(place, filter="data")
    for built in Path(elfmesh.__file__).parent.rglob("*.abi3.so"):
        (folder,) = (each for each in place.rglob(built.parent.name) if each.is_dir())
        shutil.copy(built, folder)
    return place


def of(place: Path) -> dict[str, str]:
    """What makes a process import the package from there, and from nowhere else first."""
    return {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}


def agent(root: Path, port: int, place: Path | None = None) -> Agent:
    """The agent of a recorded directory, of the release before or of this one."""
    (root / "agent.toml").write_text(CONFIG.format(root=root, port=port))
    made = Agent(root, 0, [], ["-c", str(root / "agent.toml")])
    made.environment = {} if place is None else of(place)
    return made


@contextlib.contextmanager
def running(root: Path, port: int, place: Path | None = None) -> Iterator[Agent]:
    """That agent, started; it has joined and leads its jobs."""
    made = agent(root, port, place)
    made.start()
    try:
        made.wait_ready()
        yield made
    finally:
        made.terminate()


def jobs(agent: Agent) -> dict[str, list[Any]]:
    """State and version of each job."""
    return {row["job"]: [row["state"], row["version"]] for row in agent.get("/v1/jobs")["jobs"]}


def results(agent: Agent) -> dict[str, list[dict[str, Any]]]:
    """All results of the jobs, in order; of what differs by the time only the rows."""
    return {job: [_shown(each) for each in agent.results(job)] for job in sorted(JOBS)}


def answered(agent: Agent) -> dict[str, list[dict[str, Any]]]:
    """The results once all jobs are led again."""
    found: dict[str, list[dict[str, Any]]] = {}

    def there() -> bool:
        with contextlib.suppress(AssertionError, urllib.error.HTTPError):
            found.update(results(agent))
            return all(found.values())
        return False

    eventually(there, what="results of all jobs")
    return found


def _shown(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("interval", "state", "completeness", "rows") if name in result}


def line(second: int, number: int) -> str:
    return json.dumps(
        {"ts": f"2026-05-21T10:{second // 60:02}:{second % 60:02}Z", "k": "ab"[number % 2], "v": number}
    )


def append(root: Path, seconds: range) -> None:
    with (root / "a.log").open("a") as file:
        file.writelines(f"{line(second, second)}\n" for second in seconds)


def unpacked(root: Path) -> dict[str, Any]:
    """Put the recorded directory there; what was recorded beside it."""
    with zstandard.open(AGENT, "rb") as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
        archive.extractall(root, filter="data")
    recorded: dict[str, Any] = json.loads((root / "recorded.json").read_text())
    return recorded


def run(place: Path, script: str, *words: str, stdin: str = "") -> str:
    """What a script prints that imports the release before."""
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=of(place),
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        input=stdin,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
