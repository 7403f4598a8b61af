"""Several streams read for one job: places go back to the reader of their stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.multi_stream_reader import MultiStreamReader, check_apart, together
from elfmesh.ingest.sources.position import FilePosition
from elfmesh.ingest.stream_settings import StreamConfig


def position(path: str, stream: str = "") -> FilePosition:
    return FilePosition(path, 1, hash(path) & 0xFFFF, b"g", 1, 0, b"", stream=stream)


class Reader:
    """One that remembers what it was asked for, and stands at one place."""

    def __init__(self, place: FilePosition) -> None:
        self.place = place
        self.added: list[dict[str, Any]] = []
        self.closed = False

    def add(self, job: str, columns: Iterable[str], **given: Any) -> None:
        self.added.append({"job": job, "columns": list(columns), **given})

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        return (self.place,)

    def problems(self) -> dict[str, str]:
        return {self.place.path: "cannot be read"}

    def close(self) -> None:
        self.closed = True


def both() -> tuple[dict[str, Any], MultiStreamReader]:
    readers: dict[str, Any] = {"one": Reader(position("a")), "two": Reader(position("b"))}
    return readers, MultiStreamReader(readers, {"one": "beginning", "two": "end"}, lambda name: [f"{name}.x"])


def test_each_stream_is_read_for_its_columns_from_where_it_is_set_to() -> None:
    readers, reader = both()
    reader.add("j", ["ignored"])
    assert [(each.added[0]["columns"], each.added[0]["read_from"]) for each in readers.values()] == [
        (["one.x"], "beginning"),
        (["two.x"], "end"),
    ]


def test_places_go_back_to_the_stream_that_they_are_of() -> None:
    readers, reader = both()
    places = reader.positions("j")
    assert [(place.stream, place.path) for place in places] == [("one", "a"), ("two", "b")]
    reader.add("j", [], positions=places, boundaries=places[:1], read_from="resume")
    given = {name: each.added[0] for name, each in readers.items()}
    assert [place.path for place in given["one"]["positions"]] == ["a"]
    assert [place.path for place in given["two"]["positions"]] == ["b"]
    assert [len(list(each["boundaries"])) for each in given.values()] == [1, 0]
    assert {each["read_from"] for each in given.values()} == {"resume"}


def test_problems_and_the_end_are_those_of_all() -> None:
    readers, reader = both()
    assert reader.problems() == {"a": "cannot be read", "b": "cannot be read"}
    reader.close()
    assert all(each.closed for each in readers.values())


def test_streams_with_a_file_in_common_are_refused() -> None:
    class State:
        def __init__(self, identity: tuple[int, int]) -> None:
            self.id = identity

    states: list[Any] = [State((1, 1)), State((1, 2))]
    check_apart(states)
    with pytest.raises(RuntimeFailure, match="two streams of this job have a file in common"):
        check_apart([*states, states[0]])


def test_settings_of_streams_together_are_the_most_patient() -> None:
    one = StreamConfig(path="/a", format="json", idle="5 s")
    found = together([one, replace_idle(one)])
    assert (found.path, found.format, found.idle) == ("/a, /b", "json, csv", "9 s")


def replace_idle(config: StreamConfig) -> StreamConfig:
    return StreamConfig(path="/b", format="csv", idle="9 s")
