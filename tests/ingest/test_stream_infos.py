"""What is announced of streams."""

from __future__ import annotations

from elfmesh.ingest.stream_infos import infos_of
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
