"""A byte stream cut into messages, however the bytes come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.inputs.messages import MessageCutter, one_line


def cut(data: bytes, *sizes: int, bytes_max: int = 100) -> tuple[list[bytes], int]:
    cutter, lines, at = MessageCutter(bytes_max), [], 0
    for size in (*sizes, len(data)):
        lines += cutter.push(data[at : at + size])
        at += size
    return lines + cutter.finish(), cutter.overlong


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", [b"a\n", b"b\n"]),
        (b"a\0b", [b"a\n", b"b\n"]),
        (b"\n\r\n \n", []),
        (b"4 <1>a5 <1>bc", [b"<1>a\n", b"<1>bc\n"]),
        (b"7 <1>a\nbc", [b"<1>a#012bc\n"]),
        (b"4 <1>aline\n", [b"<1>a\n", b"line\n"]),
        (b"42 is no count\n", [b"42 is no count\n"]),
        (b"04 <1>a\n", [b"04 <1>a\n"]),
        (b"9 <1>cut", []),
    ],
)
def test_messages_are_counted_or_end_with_a_line(data: bytes, lines: list[bytes]) -> None:
    assert cut(data) == (lines, 0)


def test_a_message_that_is_too_long_is_left_out_and_counted() -> None:
    assert cut(b"x" * 11 + b"\nb\n", bytes_max=10) == ([b"b\n"], 1)
    assert cut(b"11 <" + b"x" * 10 + b"4 <1>a", bytes_max=10) == ([b"<1>a\n"], 1)
    assert cut(b"x" * 500 + b"\nb\n", *[7] * 60, bytes_max=10) == ([b"b\n"], 1), "once, whatever its size"


def test_the_longest_message_is_taken() -> None:
    assert cut(b"x" * 10 + b"\n", bytes_max=10) == ([b"x" * 10 + b"\n"], 0)


PIECES = st.sampled_from([b"a", b"<", b"1", b"4 <1>a", b"12 <", b"\n", b"\0", b" ", b"x" * 9])


@given(st.lists(PIECES, max_size=20).map(b"".join), st.lists(st.integers(1, 5), max_size=40))
def test_messages_are_the_same_however_the_bytes_come(data: bytes, sizes: list[int]) -> None:
    assert cut(data, *sizes, bytes_max=20) == cut(data, bytes_max=20)


@given(st.binary(max_size=40))
def test_a_line_of_the_spool_is_one_line_with_all_that_is_in_it(message: bytes) -> None:
    line = one_line(message)
    assert line.count(b"\n") == (1 if message.strip(b"\r\n\0").strip() else 0)
    assert line in (b"", message.strip(b"\r\n\0").replace(b"\n", b"#012") + b"\n")
