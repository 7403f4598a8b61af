"""Rows of an archive: each with the file and the byte that it begins at."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.stream_settings import StreamConfig
from tests.agent.archive.rig import Rig


def test_each_row_names_its_file_and_its_offset_in_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write('{"a": 1}', "", "not json \u00fc", '{"a": 2}')
    rig.log.write_bytes(rig.log.read_bytes() + b'bad \xff byte\n{"a": 3}\n')
    assert rig.once()["rows"] == 5
    data, found = rig.log.read_bytes(), rig.log.stat()
    for row in rig.rows:
        assert (row["_device"], row["_inode"], row["host"]) == (found.st_dev, found.st_ino, "h1")
        line = data[row["_offset"] :].split(b"\n", 1)[0]
        assert line.decode("utf-8", "replace") == row["_raw"]
    assert [row["_raw"] for row in rig.rows][-1] == '{"a": 3}'


def test_parsed_columns_keep_the_line_only_where_it_was_not_parsed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, what="parsed", columns=("a", "b.c", "nowhere"))
    rig.write('{"a": 1, "b": {"c": "x"}}', "broken", '{"a": 2}')
    rig.once()
    rows = [(row["a"], row["b.c"], row["_raw"]) for row in rig.rows]
    assert rows == [(1, "x", None), (None, None, "broken"), (2, None, None)]
    assert "nowhere" not in rig.rows[0]
    with pytest.raises(ConfigError, match=r"streams\.app\.archive\.columns: the format has no fixed columns"):
        Rig(tmp_path, what="parsed").open()


def test_a_value_that_does_not_fit_its_column_is_kept_in_its_line(tmp_path: Path) -> None:
    rig = Rig(tmp_path, what="parsed", columns=("a", "b"))
    rig.write('{"a": 1, "b": "1"}')
    rig.once()
    odd = ['{"a": "x", "b": 1}', '{"a": true, "b": {"c": 2}}']
    rig.write(odd[0], "broken", odd[1], '{"a": 2}')
    rig.once()
    assert [(row["a"], row["b"], row["_raw"]) for row in rig.rows] == [
        (1, "1", None), (None, "1", odd[0]), (None, None, "broken"),
        (None, '{"c":2}', odd[1]), (2, None, None),
    ]  # fmt: skip
    fields = Rig(tmp_path / "text", what="parsed", format="regex:(?P<a>.*)")
    fields.stream = StreamConfig(path=fields.stream.path, format=fields.stream.format, types={"a": "int"})
    fields.root.mkdir()
    fields.write("7", "seven")
    fields.once()
    assert [(row["a"], row["_raw"]) for row in fields.rows] == [(7, None), (None, "seven")]


def test_records_of_several_lines_are_one_row_at_their_first_byte(tmp_path: Path) -> None:
    rig = Rig(tmp_path, format="regex:(?P<x>.*)", multiline="indent")
    rig.write("one", "  more", "two", "three")
    rig.once()
    data = rig.log.read_bytes()
    for row in rig.rows:
        assert data[row["_offset"] :].decode().startswith(row["_raw"].split("\n")[0])
    assert next(row["_raw"] for row in rig.rows) == "one\n  more"
