"""What commands share: places in files, output, and their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elfmesh.cli.common import EXCERPT_MAX, with_caret, within
from elfmesh.control.answers import BAD_REQUEST, refusal_body
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import QueryError
from tests.cli.remote import TEXT, api, backend, elf, job
from tests.control.fakes import FakeBackend
from tests.patience import PATIENCE_S

__all__ = ["api", "backend", "job"]


def test_what_agents_refuse_is_placed_in_the_file(api: str, tmp_path: Path, backend: FakeBackend) -> None:
    reported = "web1: query:2:8: clicks has no column nosuch\n  There are ts, product."
    body = refusal_body([reported, reported.replace("web1", "web2")], "clicks")
    assert (body["line"], body["column"], body["code"]) == (2, 8, 65)
    backend.replies["apply"] = Reply(0, BAD_REQUEST, body)
    path = tmp_path / "two.elfql"
    path.write_text(TEXT.replace("shop.top", "shop.first") + ";\n\n" + TEXT)
    found = elf("apply", "-f", str(path), "--api", api)
    assert found.exit_code == 65
    assert f"elf: {path}:3:8: clicks has no column nosuch" in found.output
    assert "There are ts, product. Refused by web1 and web2." in found.output
    second = within(QueryError("x", line=2, column=5), path.read_text(), TEXT.partition("\n")[2], "two")
    assert (second.line, second.column, second.source) == (7, 5, "two")


@pytest.mark.parametrize("before", [0, 10, 60, 5000])
@pytest.mark.parametrize("behind", [1, 10, 60, 5000])
def test_a_caret_stands_under_its_column_and_a_long_line_is_cut_around_it(before: int, behind: int) -> None:
    text = "a\n" + "x" * before + "!" + "y" * (behind - 1)
    shown = str(with_caret(QueryError("no", line=2, column=before + 1), text)).splitlines()
    assert shown[0] == f"query:2:{before + 1}: no"
    assert shown[1][shown[2].index("^")] == "!"
    assert len(shown[1]) <= 2 + EXCERPT_MAX + 2 * len("...")
    assert (shown[1].strip() == text[2:]) == (before + behind <= EXCERPT_MAX)


def test_an_agents_refusal_without_a_place_is_reported_as_it_is() -> None:
    body = refusal_body(["web1: no room"], "clicks")
    assert (body["error"], body["where"], body["hint"], body["code"]) == ("web1: no room", "clicks", "", 65)


@pytest.mark.parametrize("interrupted", ["SIG_IGN", "default_int_handler"])
def test_what_waits_for_lines_ends_when_its_reader_does(interrupted: str) -> None:
    code = (
        f"import signal, time; signal.signal(signal.SIGINT, signal.{interrupted});"
        "from elfmesh.cli.common import end_with_reader as e; e(); print(1, flush=True)"
    )
    command = [sys.executable, "-c", f"{code}; time.sleep({PATIENCE_S})"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waits:
        assert waits.stdout
        assert waits.stderr
        assert waits.stdout.readline() == b"1\n"
        waits.stdout.close()
        assert b"KeyboardInterrupt" in waits.stderr.read()
