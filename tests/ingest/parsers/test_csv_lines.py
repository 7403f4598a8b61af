"""csv: what a line means, whichever way its block goes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers import StreamFormat, csv_lines
from elfmesh.ingest.parsers.csv_lines import CsvParser, csv_row
from elfmesh.ingest.parsers.formats import discover_columns
from elfmesh.ingest.parsers.lines import Lines


def test_csv_takes_its_columns_from_the_first_line_of_each_file() -> None:
    formats = StreamFormat("csv")
    one, two = formats.parser("one"), formats.parser("two")
    assert one.parse(b"a,b\n1,2\n", ["b"]).batch.to_pylist() == [{"b": "2"}]
    assert one.parse(b"3,4\n", ["b"]).batch.to_pylist() == [{"b": "4"}]
    assert two.parse(b"b,a\n1,2\n", ["b"]).batch.to_pylist() == [{"b": "1"}]


def test_csv_in_the_middle_of_a_file_knows_its_header() -> None:
    parser = StreamFormat("csv").parser("f", head=b"a,b\n1,2\n3,")
    assert parser.parse(b"5,6\n", ["a"]).batch.to_pylist() == [{"a": "5"}]


def test_csv_with_declared_columns_has_no_header_line() -> None:
    parser = StreamFormat("csv:a,b").parser()
    assert parser.parse(b"1,2\n", ["a", "b"]).batch.to_pylist() == [{"a": "1", "b": "2"}]


def test_csv_lines_of_another_width_are_errors_and_empty_fields_are_null() -> None:
    parsed = CsvParser(header=["a", "b"]).parse(b'1,\n1,2,3\n"x,y",z\nq"r,2\n"open,2\n', ["a", "b"])
    assert parsed.batch.to_pylist() == [
        {"a": "1", "b": None},
        {"a": "x,y", "b": "z"},
        {"a": 'q"r', "b": "2"},
    ]
    assert parsed.errors == 2


plain = st.text(st.sampled_from("ab;\t é\\"), max_size=4)
quoted = st.text(st.sampled_from("ab,é "), max_size=4).map(lambda text: f'"{text}"')
doubled = st.sampled_from(['""', '"a""b"', '"""a"', '"a"""', '""""', '""""""'])
broken = st.text(st.sampled_from('"a, \r'), max_size=6)
field = st.one_of(plain, quoted, doubled)
sane_line = st.lists(field, min_size=3, max_size=3).map(",".join)
any_line = st.one_of(st.lists(st.one_of(field, broken), max_size=4).map(",".join), broken)
line = st.one_of(sane_line, sane_line, any_line)


@settings(max_examples=600, deadline=None)
@given(st.lists(line, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@example(['"a"b,c,d'], "\n", True, True)
@example(['a,"b', 'c",d,e'], "\n", True, True)
@example(["\ufeffa,b,c", "\ufeffa,b,c"], "\n", True, True)
@example(["a,b", "1,2,3", " ", "4,5,6,7"], "\n", True, False)
@example(["a,b,c\rd,e,f", "1,2,3"], "\n", True, False)
@example(["a,b,c", '"x\r', '",b,c'], "\r\n", True, False)
def test_the_block_reader_equals_the_line_reader(texts: list[str], end: str, some: bool, last: bool) -> None:
    names = ["a", "c"] if some else []
    block = (end.join(texts) + (end if last else "")).encode()
    parsed = CsvParser(header=["a", "b", "c"]).parse(block, names)
    lines = Lines(block).texts()
    records = [csv_row(text) for text in lines]
    expected = [row for row in records if len(row) == 3]
    wrong = [text for text, row in zip(lines, records, strict=True) if len(row) != 3]
    assert (parsed.batch.num_rows, parsed.errors) == (len(expected), len(wrong))
    assert [tuple(row.values()) for row in parsed.batch.to_pylist()] == [
        tuple(row["abc".index(name)] or None for name in names) for row in expected
    ]
    assert [sample.endswith(text) for sample, text in zip(parsed.samples, wrong, strict=False)] == [
        True
    ] * min(3, len(wrong))


def test_only_lines_that_need_it_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(text: str, *more: str) -> list[str]:
        seen.append(text)
        return csv_row(text, *more)

    monkeypatch.setattr(csv_lines, "csv_row", noted)
    odd = ['q"r,2', '"open,2', "1,2,3", '"a"b,2']
    block = "".join(
        f'"x,{i}","say ""hi"""\r\n' + (odd[i // 50] + "\r\n" if i % 50 == 7 else "") for i in range(200)
    )
    parsed = CsvParser(header=["a", "b"]).parse(block.encode(), ["b", "a"])
    assert seen == odd
    assert (parsed.rows, parsed.errors) == (201, 3)
    assert parsed.batch.column("a").to_pylist() == [
        *[f"x,{i}" for i in range(8)], 'q"r', *[f"x,{i}" for i in range(8, 200)],
    ]  # fmt: skip
    assert set(parsed.batch.column("b").to_pylist()) == {'say "hi"', "2"}


def test_a_column_the_header_names_twice_is_an_error_for_a_query_that_reads_it() -> None:
    parser = StreamFormat("csv").parser("f")
    parsed = parser.parse(b"a,b,a\n1,2,3\n4,5,6\n", ["b", "a"])
    assert (parsed.rows, parsed.errors) == (0, 2)
    assert parsed.samples == ["the header names 'a' twice, so name the columns (format csv:a,b,c): a,b,a"]
    assert parser.parse(b"1,2,3\n", ["b"]).batch.to_pylist() == [{"b": "2"}]
    assert parser.parse(b"", ["a"]).errors == 0


def test_a_format_that_names_a_column_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a' is named twice"):
        StreamFormat("csv:a,b,a")


def test_spaces_around_the_headers_names_do_not_count_wherever_the_header_is_read() -> None:
    begun = StreamFormat("csv").parser("f")
    assert begun.parse(b"a, b\n1,2\n", ["b"]).batch.to_pylist() == [{"b": "2"}]
    resumed = StreamFormat("csv").parser("f", head=b"a, b\n1,2\n")
    assert resumed.parse(b"3,4\n", ["b"]).batch.to_pylist() == [{"b": "4"}]
    assert discover_columns(StreamFormat("csv").parser("f"), b"a, b\n1,2\n") == ("a", "b")


def test_a_declared_column_that_the_file_does_not_have_is_null() -> None:
    parsed = StreamFormat("csv", declared={"n": "int"}).parser("f").parse(b"a,b\n1,2\n", ["n", "a"])
    assert parsed.batch.to_pylist() == [{"n": None, "a": "1"}]
    assert parsed.batch.schema.field("n").type == pa.int64()


def test_a_broken_quote_is_named_as_one() -> None:
    found = StreamFormat("csv").parser("one").parse(b'a,b\n1,"x, y"\n2,"never closed\n3\n', ["b"])
    assert found.batch.to_pylist() == [{"b": "x, y"}]
    assert found.errors == 2
    assert 'a quote is wrong or not closed: 2,"never closed' in found.samples
    assert "1 fields instead of 2: 3" in found.samples
