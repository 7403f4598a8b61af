"""The commands of docs/wide-area.md work as they stand, in one shell with real agents."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs/wide-area.md"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
TIMEOUT_S = 180


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


@pytest.mark.slow
def test_the_commands_of_the_guide_start_three_regions_and_read_from_another_one(tmp_path: Path) -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) == 2
    script = "set -e\ntrap 'kill $(jobs -p); wait' EXIT\n" + "".join(blocks)
    used = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script)))
    for port, free in zip(used, free_ports(len(used)), strict=True):
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": folders},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for expected in ("PATHS 3 ACROSS region", "site 2 ", "group ap", "group eu", "group us", "/eu"):
        assert expected in done.stdout, done.stdout + done.stderr
