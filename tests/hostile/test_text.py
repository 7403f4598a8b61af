"""Keys and names that are to obey: on terminals, in spreadsheets, in logs of the agent, in names of files."""

from __future__ import annotations

import csv
import io
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elfmesh.agent.runtime.log_lines import TextLine
from elfmesh.agent.sinks.base import LogName, Unavailable
from elfmesh.cli.common import csv_line, print_table, say
from elfmesh.control.jobs.manifest import Manifest, new_manifest
from elfmesh.errors import StorageError
from elfmesh.storage.storage import DiskStorage
from elfmesh.text import printable
from tests.cli.remote import elf

ORDERS = (
    "\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\b", "\n", "\x00", "\x7f",  # what terminals obey
    "\u202e", "\u2066", "\u061c", "\u200f",  # what turns text round
    "\u200b", "\u2060", "\ufeff", "\u2028", "\u2029", "\U000e0041", "\ud800",  # what no reader sees
)  # fmt: skip


def obeyed(shown: str) -> list[str]:
    return [order for order in ORDERS if order not in ("\n", "") and order in shown]


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_no_answer_of_a_query_gives_a_terminal_orders(output: str, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    keys = [f"k{order}k" for order in ORDERS if order != "\ud800"]
    log.write_text("".join(json.dumps({"k": key, key: 1}) + "\n" for key in keys))
    ran = elf("run", "SELECT k, count(*) AS n FROM log GROUP BY k", str(log), "-o", output)
    assert ran.exit_code == 0, ran.output
    if output == "table":
        assert obeyed(ran.stdout) == []
        assert len(ran.stdout.splitlines()) == len(keys) + 2
    elif output == "json":
        assert {row["k"] for row in json.loads(ran.stdout)["rows"]} == set(keys), "data stays exact"
        assert not {"\x1b", "\x00", "\r", "\x07"} & set(ran.stdout), "JSON escapes controls"
    else:
        assert {row[0] for row in csv.reader(io.StringIO(ran.stdout, newline=""))} == {"k", *keys}


def test_messages_and_tables_of_commands_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    for order in ORDERS:
        say(f"job {order} is gone")
        print_table([f"c{order}"], [[f"v{order}"], [[order]], [{order: order}]])
    shown = capsys.readouterr()
    assert obeyed(shown.out) == []
    assert obeyed(shown.err) == []


def test_errors_show_what_was_wrong_and_do_not_do_it() -> None:
    for words in (
        ["run", "SELECT \x1b[2J FROM log"],
        ["run", "SELECT 1 FROM log", "/no/\x1b[2J/file"],
        ["\x1b[2J"],
    ):
        ran = elf(*words)
        assert ran.exit_code != 0
        assert obeyed(ran.output) == []


def test_letters_of_all_scripts_stay() -> None:
    text = "naïve Ελληνικά עברית العربية 漢字 👩‍👩‍👧 क्‍ष"
    assert printable(text) == text


@pytest.mark.parametrize("cell", ["a\nb,FINAL,1", "a\rb", 'a"b', "a\r=1"])
def test_no_key_begins_a_line_of_its_own(cell: str, tmp_path: Path) -> None:
    assert list(csv.reader(io.StringIO(csv_line([cell, 1]) + "\n", newline=""))) == [[cell, "1"]]
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"k": cell}) + "\n")
    ran = elf("run", "SELECT k, count(*) AS n FROM log GROUP BY k", str(log), "-o", "csv")
    assert list(csv.reader(io.StringIO(ran.stdout, newline=""))) == [["k", "n"], [cell, "1"]]


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])
def test_csv_is_data_and_holds_exactly_what_was_in_the_log(cell: str) -> None:
    """No quote is put before a formula: other readers would take it for data. See docs/security.md."""
    (row,) = csv.reader(io.StringIO(csv_line([cell, 1]), newline=""))
    assert row == [cell, "1"]


def test_a_line_of_the_agents_log_is_one_line() -> None:
    record = logging.LogRecord(
        "elf", logging.WARNING, "f", 1, "sink %s: %s", ("a", "x\n2026 ERROR y\x1b[2J\u2028"), None
    )
    shown = TextLine().format(record)
    assert len(shown.splitlines()) == 1
    assert obeyed(shown) == []


MANIFEST = new_manifest(type("Job", (), {"namespace": "a", "name": "b", "partitions": 1})(), "text", "me",
                        created=0, incarnation="0badc0de")  # fmt: skip
BAD: list[dict[str, Any]] = [
    *({"namespace": name} for name in ("", "..", "a/b", "../../etc", "a\nb", "a\x00", "a" * 141, "1a", "é")),
    *({"name": name} for name in ("..", "b/../../c", "b\n", "\x1b[2J")),
    *({"incarnation": name} for name in ("x/../../../tmp/y", "..", "a\n", "a" * 65)),
    {"creator": "c" * 1025},
    {"text": "x" * ((128 << 10) + 1)},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD, ids=lambda change: repr(change)[:40])
def test_manifests_of_peers_have_names_that_are_names(change: dict[str, Any]) -> None:
    assert msgspec.msgpack.decode(MANIFEST.canonical(), type=Manifest) == MANIFEST
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.structs.replace(MANIFEST, **change).canonical(), type=Manifest)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "", "a//b", "a/./b", "a\x00b", ".."])
def test_no_name_leads_out_of_the_data_directory(name: str, tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path / "data")
    for use in (storage.open, storage.read, storage.delete, lambda name: storage.write(name, b"x")):
        with pytest.raises(StorageError):
            use(name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "lock"]
    storage.close()


@pytest.mark.parametrize(
    ("job", "incarnation"),
    [
        ("a/b", "../../x"),
        ("a/b", "x/y"),
        ("../b", "1"),
        ("a/b/c", "1"),
        ("a/..", "1"),
        ("a/b", ""),
        ("a/b", "1\n"),
    ],
)
def test_results_of_odd_names_are_written_nowhere(job: str, incarnation: str) -> None:
    with pytest.raises(Unavailable):
        LogName(job, incarnation)
