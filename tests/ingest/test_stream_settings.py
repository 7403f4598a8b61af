"""What is said of one stream: --stream as text, and settings that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.inputs.kafka_config import KafkaInput
from elfmesh.ingest.stream_settings import StreamConfig, check_stream, parse_stream


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=/x", ("a", {"path": "/x"})),
        ("a=/x,y,format=json", ("a", {"path": "/x,y", "format": "json"})),
        ("a=/x=y", ("a", {"path": "/x=y"})),
        ("a=udp://h:1,idle=3 s", ("a", {"listen": "udp://h:1", "idle": "3 s"})),
        ("a=program://n/p", ("a", {"listen": "program://n/p"})),
        ("a=/x,format=csv:b,c=d,ts=b", ("a", {"path": "/x", "format": "csv:b,c=d", "ts": "b"})),
        (r"a=/x\,y=z\,v,format=json", ("a", {"path": "/x,y=z,v", "format": "json"})),
        (r"a=/x\,format=json", ("a", {"path": "/x,format=json"})),
        (r"a=/x\d,multiline=start:a,b=c", ("a", {"path": r"/x\d", "multiline": "start:a,b=c"})),
    ],
)
def test_a_stream_on_the_command_line(text: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_stream(text) == expected


@pytest.mark.parametrize("text", ["a", "a=", ""])
def test_what_is_no_name_and_path_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=PATH") as caught:
        parse_stream(text, "--tail")
    assert caught.value.hint == "Write --tail NAME=PATH."


@pytest.mark.parametrize(
    ("text", "unknown", "hint"),
    [
        ("a=x,colour=red", "colour", "The options are format, read_from, "),
        ("a=x,formt=json", "formt", "Did you mean format?"),
        ("a=x,idle=1 s,year=2020,ts=b", "year", "The options are format, read_from, "),
        ("a=udp://h:1,Format=json", "Format", "Did you mean format?"),
    ],
)
def test_an_option_that_does_not_exist_is_no_part_of_the_path(text: str, unknown: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_stream(text, "--lookup")
    assert (caught.value.message, caught.value.where) == (f"{unknown} is not an option", "--lookup")
    assert hint in caught.value.hint
    assert r"Write \, for a comma of the path." in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "where", "message"),
    [
        ({}, "s", "has no source"),
        ({"path": "/x", "listen": "udp://127.0.0.1:1"}, "s", "comes from several places"),
        ({"path": "/x", "journal": ()}, "s", "comes from several places"),
        ({"listen": "udp://nowhere"}, "s.listen", ""),
        ({"journal": ("unit=nginx",)}, "s.journal", "'unit=nginx' is not a journal match"),
        ({"path": "/x", "spool": "63 MB"}, "s.spool", "is less than 64 MB"),
        ({"path": "/x", "spool": "much"}, "s.spool", "much"),
        ({"path": "/x", "idle": "soon"}, "s.idle", "soon"),
        ({"path": "/x", "multiline_timeout": "soon"}, "s.multiline_timeout", "soon"),
        ({"path": "/x", "multiline_bytes_max": "much"}, "s.multiline_bytes_max", "much"),
        ({"kafka": KafkaInput(servers=("h",), topic="t")}, "s.kafka.servers", "'h' is not HOST:PORT"),
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, Any], where: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_stream(StreamConfig(**settings), "s")
    assert caught.value.where.startswith(where)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/x"},
        {"journal": ()},
        {"journal": ("_SYSTEMD_UNIT=nginx.service", "PRIORITY=3")},
        {"listen": "unix:///x"},
    ],
)
def test_settings_that_can_be_are_taken(settings: dict[str, Any]) -> None:
    check_stream(StreamConfig(**settings), "s")
    assert (StreamConfig(**settings).spool_bytes, StreamConfig(**settings).idle_us) == (10**9, 5_000_000)
