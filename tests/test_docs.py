"""Every command that a document shows is run here, in order, as a newcomer would paste it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
DOCUMENTS = [
    ROOT / "docs" / name
    for name in (
        *("guide.md", "operations/backup-and-upgrade.md"),
        *("sinks.md", "programs.md", "functions.md", "identity.md", "coordination.md"),
        "failure-domains.md",
    )
]
"""The README shows only `make demo`, run by tests/cli/test_demo.py, and `make test`, which is this run."""

DEFAULT_API = "127.0.0.1:7401"


def shell_blocks(document: Path) -> list[str]:
    return BLOCK.findall(document.read_text())


def on_free_ports(script: str) -> tuple[str, str]:
    """The script with each address on a port that is free here, and the address for ELF_API's default."""
    moved: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for address in [DEFAULT_API, *re.findall(r"127\.0\.0\.1:\d+", script)]:
            if address not in moved:
                server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                moved[address] = f"127.0.0.1:{server.getsockname()[1]}"
    return re.sub(r"127\.0\.0\.1:\d+", lambda match: moved[match[0]], script), moved[DEFAULT_API]


def make_targets(text: str) -> list[str]:
    return re.findall(r"^make ([a-z-]+)", text, re.M)


PREAMBLE = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n"
"""What fails ends the script, and with it the agents that would keep its output open."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_a_document_run_as_shown(document: Path, tmp_path: Path) -> None:
    blocks = [block for block in shell_blocks(document) if not re.search(r"^make ", block, re.M)]
    assert blocks, f"{document.name} shows no commands"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "HOME": str(tmp_path),
        "NO_COLOR": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script, api = on_free_ports(PREAMBLE + "\n".join(blocks))
    environment["ELF_API"] = api
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        # Agents that the document started in the background go with their session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output


@pytest.mark.parametrize(
    "document",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: path.name,
)
def test_make_targets_that_documents_name_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in shell_blocks(document):
        for target in make_targets(block):
            assert re.search(rf"^{target}:", makefile, re.M), f"{document.name} shows `make {target}`"
