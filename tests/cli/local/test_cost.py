"""`elf explain --cost`: the table and the JSON, agents that refuse, and options that exclude each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.remote import api, backend, elf
from tests.control.fakes import FakeBackend

__all__ = ["api", "backend"]

COUNT = "SELECT count(*) AS n FROM clicks"
STREAM = {
    "stream": "clicks", "files": 2, "bytes": 1_500_000, "lines": 9000, "seconds": 0.75,
    "bytes_per_second": 2_000_000, "measured_on": "reads", "estimated": 0,
}  # fmt: skip


def row(name: str, stream: dict[str, Any] = STREAM, **of: Any) -> dict[str, Any]:
    about = {"agent": name, "id": name, "streams": [stream], "bytes_max": None, "refusal": ""}
    return about | {key: stream[key] for key in ("bytes", "lines", "seconds", "estimated")} | of


def test_each_agent_has_a_line_and_the_last_line_is_the_sum(api: str, backend: FakeBackend) -> None:
    backend.lists("cost", [row("web1"), row("web2", STREAM | {"seconds": 2.0})], silent=1)
    done = elf("explain", "--cost", COUNT, "--history", "10 min", "--api", api)
    assert done.exit_code == 0
    head, first, _, total = done.stdout.splitlines()
    assert head.split() == ["AGENT", "STREAM", "FILES", "BYTES", "LINES", "SECONDS", "RATE", "FROM"]
    assert first.split() == ["web1", "clicks", "2", "1.5", "MB", "9000", "0.75", "2.0", "MB/s", "reads"]
    assert total == "2 agents, 3.0 MB to read, about 18000 lines, about 2 s"
    assert done.stderr == "1 of 8 agents did not answer\n"


def test_json_is_the_answer_of_the_api(api: str, backend: FakeBackend) -> None:
    backend.lists("cost", [row("web1")])
    found = json.loads(elf("explain", "--cost", COUNT, "-o", "json", "--api", api).stdout)
    assert (found["bytes"], found["seconds"], found["agents"]) == (1_500_000, 0.75, [row("web1")])


def test_what_is_not_known_is_not_shown_and_refusals_are(api: str, backend: FakeBackend) -> None:
    unknown = STREAM | {"lines": None, "seconds": None, "bytes_per_second": None}
    backend.lists("cost", [row("web1", unknown), row("web2", refusal="it would read 1.5 MB\x1b")])
    lines = elf("explain", "--cost", COUNT, "--api", api).stdout.splitlines()
    assert lines[1].split() == ["web1", "clicks", "2", "1.5", "MB"]
    assert lines[-2:] == [
        "1 agent, 1.5 MB to read, no rate is measured yet",
        "web2 refuses it: it would read 1.5 MB\\x1b",
    ]


def test_what_compressed_files_do_not_state_is_called_an_estimate(api: str, backend: FakeBackend) -> None:
    backend.lists("cost", [row("web1", STREAM | {"estimated": 1_200_000}), row("web2")])
    done = elf("explain", "--cost", COUNT, "--api", api)
    assert done.stdout.splitlines()[-2:] == [
        "2 agents, 3.0 MB to read, about 18000 lines, about 0.75 s",
        "1.2 MB of it are an estimate, because compressed files do not state their size",
    ]


def test_a_query_over_results_reads_no_logs(api: str) -> None:
    assert elf("explain", "--cost", "SELECT hits FROM shop.top", "--api", api).stdout == (
        "it reads results of jobs, and no logs\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["SELECT count(*) AS n FROM click"], 65, "no agent has a stream click"),
        (["SELECT count(* FROM clicks"], 65, "^"),
        ([COUNT, "--history", "much"], 2, "--history"),
        ([COUNT, "--history", "1 h", "--from", "1 h"], 2, "exclude"),
        ([COUNT, "--sample", "a.log"], 2, "--cost excludes --sample"),
        ([], 2, "no query"),
    ],
)
def test_bad_input_is_named(api: str, backend: FakeBackend, words: list[str], code: int, text: str) -> None:
    backend.lists("cost", [])
    done = elf("explain", "--cost", *words, "--api", api)
    assert done.exit_code == code
    assert text in done.stderr


def test_a_range_of_time_needs_the_option() -> None:
    done = elf("explain", COUNT, "--history", "1 h")
    assert (done.exit_code, "need --cost" in done.stderr) == (2, True)


def test_no_agent_with_the_labels_is_no_error(api: str, backend: FakeBackend) -> None:
    backend.lists("cost", [])
    done = elf("explain", "--cost", COUNT + " ON (role = 'none')", "--api", api)
    assert (done.exit_code, done.stdout) == (0, "0 agents, 0 B to read, about 0 lines, about 0 s\n")
