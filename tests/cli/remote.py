"""Commands against an agent that a test plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elfmesh.cli import entry as cli
from elfmesh.control.protocol.events import Reply
from tests.control.fakes import FakeBackend, served, table

TEXT = """-- the shop's best
CREATE JOB shop.top EVERY '10 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product"""

APPLIED = {
    "job": "shop/top",
    "version": 1,
    "effective_interval": 0,
    "acknowledged": 8,
    "expected": 8,
    "state": "new",
    "seconds": {"prepare": 0.012, "activate": 0.004},
}


@pytest.fixture
def backend() -> FakeBackend:
    fake = FakeBackend()
    fake.replies["apply"] = Reply(0, 200, APPLIED)
    streams = [{"stream": name} for name in ("clicks", "access")]
    fake.lists("streams", streams)
    fake.lists("list", [{"job": "shop/top"}])
    for index in range(5):
        fake.publish(index, table(("apple", index), ("\x1b[2Jbad", 1)))
    return fake


@pytest.fixture
def api(backend: FakeBackend) -> Iterator[str]:
    with served(backend) as address:
        yield address


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.elfql"
    path.write_text(TEXT)
    return path


def elf(*arguments: str, text: str | None = None) -> Result:
    """The whole command, exit codes and all."""

    class Whole(CliRunner):
        def run_all(self) -> Result:
            with self.isolation(input=text) as (out, err, mixed):
                code = cli.run(list(arguments))
                return Result(self, out.getvalue(), err.getvalue(), mixed.getvalue(), None, code, None)

    return Whole().run_all()
