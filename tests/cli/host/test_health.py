"""`elf health`: warnings are printed and are no fault."""

from __future__ import annotations

from elfmesh.control.protocol.events import Reply
from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]


def test_warnings_are_printed_and_are_no_fault(api: str, backend: FakeBackend) -> None:
    backend.replies["health"] = Reply(0, 200, {"agent": "web1", "status": "ok", "warnings": ["late \x1b"]})
    ran = elf("health", "--api", api)
    assert (ran.exit_code, ran.stdout) == (0, "web1 is ok\nwarning: late \\x1b\n")
