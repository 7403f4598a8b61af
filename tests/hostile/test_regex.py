"""Lines and patterns that are to make a regular expression go back and forth for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.errors import QueryError
from elfmesh.ingest.parsers import StreamFormat, discover_columns
from elfmesh.local.embedded import answers
from tests.hostile.cost import assert_linear, cut_off

WANTED = ("ts", "a", "user", "request", "status", "path", "referer", "agent", "structured_data.x.y", "_raw")
ACCESS = [
    'a b c [x] "| [] "a" 200',
    'a b c [x] "| [] "',
    "a b c [x] | [",
    'a b c [x] "|[] ',
    'a b c [x] "a" |200 ',
]
SYSLOG = "<165>1 2003-10-11T22:14:15.003Z m e - ID47 "
FORMATS: dict[str, list[str]] = {
    "combined": ACCESS,
    "common": ACCESS,
    "vhost_combined": ["|" + line.partition("|")[2] for line in ACCESS],
    "kv": ['k=v |\\"', "k=v| ", '|"\\', 'k=v "|x=\\"'],
    "kv:k=v;k=v": ["k=v| ", "k=v|\t", 'k=v |\\"'],
    "kv:k:v, k:v": ['{"log":"|\\"', "k:v| "],
    "logfmt": ['|a="', 'a="|\\"', "|="],
    "syslog": [SYSLOG + "[e@1 |\\", SYSLOG + '|[a b="', SYSLOG + '[e a="|\\"', "|<1>"],
    "cef": ["CEF:0\x01a\x01b\x011\x017\x01n\x019\x01\x02 a=b", "\x02 CEF:0\x01", "CEF:0\x01\x02\\\x01"],
    "json": ["\x02[", '\x02{"a":', '{"a":"\x02\\', '{"a":"\x02\\u'],
    "csv:a,b": ['|"', '"|""', "|,", '|","'],
    "auto": ['a b c [x] "|[a ', 'a b c [x] "|[] ', 'a b c [x] "| [] "', "| CEF:0", 'k=v |\\"'],
    "grok:%{COMBINEDAPACHELOG}": ACCESS,
    "regex:(?P<a>(x+x+)+y)": ["|x"],
    r"regex:^(?P<a>(a|a)*)$": ["|a"],
    "apache_error": ["[Wed Oct 11 14:32:52.1 2023] [core:error] [pid 3:tid 4] |[", "[| "],
    "nginx_error": ['2021/04/01 13:02:31 [error] 31#31: *1 |", host: "', "|client: "],
}


def grown(text: str, size: int) -> bytes:
    """`head|unit`: the unit again and again; \\x02 where a bar belongs to the line."""
    mark = "\x02" if "\x02" in text else "|"
    head, _, unit = text.partition(mark)
    head, unit = head.replace("\x01", "|"), unit.replace("\x01", "|")
    return (head + unit * (size // len(unit)) + "\n").encode()


@pytest.mark.parametrize("spec", FORMATS)
def test_no_line_costs_more_than_its_length(spec: str) -> None:
    form = StreamFormat(spec)
    for text in FORMATS[spec]:

        def work(size: int, text: str = text) -> None:
            form.parser("f").parse(grown(text, size), WANTED)
            discover_columns(form.parser("f"), grown(text, size))

        assert_linear(work, 4_000)


@pytest.mark.parametrize(
    "where",
    [
        "_raw RLIKE '^(([a-z])+.)+[A-Z]([a-z])+$'",
        "regexp_extract(_raw, '(a+)+(b+)+$', 1) = 'x'",
        "regexp_replace(_raw, '(a|aa)+$', '') = 'x'",
        "_raw LIKE '%a%a%a%a%a%a%a%a%a%a%b'",
        "size(split(_raw, '(a|a)*b')) = 7",
    ],
)
def test_no_pattern_of_a_query_goes_back(where: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a" * 200_000 + "!\n")
    with cut_off():
        found = answers(f"SELECT count(*) AS n FROM log WHERE {where}", [str(log)], format="raw")
    assert [result.table.to_pylist() for result in found] == [[{"n": 0}]]


@pytest.mark.parametrize("pattern", [r"(a)\\1", "(?=a)b", "a{1001}", "((a{100}){100}){100}"])
def test_patterns_that_need_more_than_linear_time_or_much_memory_are_refused(
    pattern: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("a\n")
    with cut_off(), pytest.raises(QueryError):
        answers(f"SELECT count(*) AS n FROM log WHERE _raw RLIKE '{pattern}'", [str(log)], format="raw")
