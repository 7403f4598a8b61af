"""What is announced of streams."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.errors import ConfigError
from elfmesh.ingest.stream_infos import PLAIN, infos_of, is_plain, names_of
from elfmesh.ingest.stream_settings import StreamConfig


def test_a_stream_is_announced_with_the_schema_of_its_format_where_the_format_fixes_one() -> None:
    streams = {
        "access": StreamConfig(path="access.log", format="combined"),
        "app": StreamConfig(path="app.log", format="json"),
    }
    access, app = infos_of(streams)
    assert (access.name, access.format) == ("access", "combined")
    assert access.schema is not None
    assert "status" in access.schema.names
    assert (app.name, app.format, app.schema) == ("app", "json", None)


def test_before_there_are_formats_a_stream_is_announced_by_its_name() -> None:
    (named,) = names_of({"access": StreamConfig(path="access.log", format="combined")})
    assert (named.name, named.format, named.schema) == ("access", "combined", None)


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_a_plain_format_is_made_without_an_error(name: str) -> None:
    config = StreamConfig(path="log", format=name, read_from="end", idle="1 s")
    assert is_plain(config)
    assert len(infos_of({"log": config})) == 1


@pytest.mark.parametrize(
    "settings",
    [{"format": "regex:("}, {"ts_format": "yyyy-"}, {"types": {"n": "number"}}, {"multiline": "start:("}],
)
def test_a_format_that_settings_make_wrong_is_not_plain(settings: dict[str, object]) -> None:
    config = replace(StreamConfig(path="log"), **settings)
    assert not is_plain(config)
    with pytest.raises(ConfigError):
        infos_of({"log": config})
