"""`elf report`: the terminal, JSON, the HTML page, and hostile lines."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.remote import elf

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\\x1b[2J&amp;\"'"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "<b>.log"
    rows = [{"ts": f"2026-11-22T06:0{n}:00Z", "k": "a", HOSTILE: HOSTILE, "n": n} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + f"{HOSTILE}\x1b]0;x\x07\n")
    return path


def test_a_report_on_the_terminal(log: Path) -> None:
    ran = elf("report", str(log))
    assert (ran.exit_code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0] == f"{log}: json, 4 lines, 1 bad"
    assert "time: 2026-11-22T06:00:00Z .. 2026-11-22T06:02:00Z, 0.025 lines per second" in lines
    assert "lines per minute" in lines
    assert "k: 1 different value" in lines
    assert any(re.match(r"a +3 +100.0% +█+", line) for line in lines)
    assert any(re.match(r"n +0 +2 +1.0 +3", line) for line in lines)
    assert "\x1b" not in ran.stdout


def test_a_report_for_programs(log: Path) -> None:
    found = json.loads(elf("report", str(log), "-o", "json").stdout)
    assert (found["format"], found["lines"], found["bad"], found["unit"]) == ("json", 4, 1, "minute")
    assert found["numbers"] == [{"column": "n", "min": 0, "max": 2, "mean": 1.0, "sum": 3}]
    assert [each["lines"] for each in found["times"]] == [1, 1, 1]
    assert {each["column"] for each in found["frequent"]} >= {"k"}


def test_a_sum_that_json_does_not_have_is_a_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"v": 1e308}\n' * 3)

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    found = json.loads(elf("report", str(log), "-o", "json").stdout, parse_constant=refuse)
    assert found["numbers"] == [
        {"column": "v", "min": 1e308, "max": 1e308, "mean": "Infinity", "sum": "Infinity"}
    ]


class Page(HTMLParser):
    """Reads the tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_page_has_hostile_texts_as_texts_only(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    ran = elf("report", str(log), "--html", str(target))
    assert (ran.exit_code, ran.output) == (0, "")
    text = target.read_text()
    page = Page(text)
    assert page.tags.isdisjoint({"script", "img", "iframe", "link", "b", "a", "object", "base", "form"})
    assert page.names <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "min", "max", "value"),
    }
    assert any(HOSTILE.partition("\\")[0] in each for each in page.texts)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert not re.search(r"url\(|@import|https?://", re.sub(r"&lt;.*?&gt;", "", text))
    assert "default-src 'none'" in text


def test_a_page_replaces_a_page_and_is_whole(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    target.write_text("before")
    assert elf("report", str(log), "/nosuch", "--html", str(target)).exit_code == 1
    assert target.read_text() == "before"
    assert elf("report", str(log), "--html", str(target)).exit_code == 0
    assert target.read_text().endswith("</html>\n")
    ran = elf("report", str(log), "--html", str(tmp_path / "no/r.html"))
    assert (ran.exit_code, "No such file or directory" in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ((), 2, "Missing argument 'FILE...'"),
        (("/nosuch",), 1, "/nosuch: no such file"),
        (("-",), 2, "several times"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], code: int, error: str) -> None:
    ran = elf("report", *arguments)
    assert ran.exit_code == code
    assert error in ran.stderr
