"""Options of commands that read logs: their settings and the errors that name an option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from elfmesh.cli.local.log_options import all_paths, log_options, log_paths, settings_of
from elfmesh.errors import ElfError, RuntimeFailure, UsageError
from elfmesh.local.time_range import TimeRange


def given(*arguments: str) -> dict[str, Any]:
    """The values of the options on a command line."""

    @click.command()
    @log_options
    def command(**values: Any) -> dict[str, Any]:
        return values

    values: dict[str, Any] = command.main(list(arguments), standalone_mode=False)
    return values


def test_defaults_are_those_of_a_run() -> None:
    found = settings_of(["x.log"], given())
    assert found.pop("lookups").names == ()
    lines: dict[str, Any] = {
        "multiline": "",
        "timezone": "UTC",
        "year": None,
        "ts": "",
        "ts_format": "",
        "patterns": {},
    }
    assert found == {
        "format": ("auto", lines),
        "memory_bytes": 16_000_000,
        "streams": {},
        "python": False,
        "threads": None,
        "times": TimeRange(),
    }


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--memory", "1 XB"), "--memory: "),
        (("--memory", "1 MB"), "--memory: 1 MB is less than 4 MB"),
        (("--pattern", "ID"), "--pattern: 'ID' is not NAME=REGEX"),
        (("--stream", "a"), "--stream"),
        (("--stream", "a=x.log"), "--stream and LOG exclude each other"),
        (("--lookup", "a=x,other=1"), "--lookup: "),
        (("--from", "yesterday"), "--from: 'yesterday' is not a time"),
        (("--to", "noon"), "--to: 'noon' is not a time"),
        (("--from", "now", "--to", "1 h"), "the range of times ends before it begins"),
    ],
)
def test_a_wrong_value_names_its_option(arguments: tuple[str, ...], reported: str) -> None:
    with pytest.raises(ElfError, match=reported) as found:
        settings_of(["x.log"], given(*arguments))
    assert isinstance(found.value, UsageError)


def test_patterns_of_paths_are_expanded_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.log", "a.log", "[c].log"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert log_paths(["?.log", "[c].log"]) == ["a.log", "b.log", "[c].log"]
    with pytest.raises(RuntimeFailure, match="no such file"):
        log_paths(["d.log"])
    streams = settings_of([], given("--stream", "a=a.log", "--stream", "b=?.log"))["streams"]
    assert all_paths(streams, []) == ["a.log", "a.log", "b.log"]
    assert all_paths({}, ["b.log"]) == ["b.log"]
