"""`elf results --chart`: what is drawn, and that text of rows stays text."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from rich.console import Console

from elfmesh.cli.entry import run
from elfmesh.cli.jobs.chart import Chart, bar_plot, bars_of, line_plot, number_column
from elfmesh.errors import DataError, NotInstalled
from tests.cli.terminal import Terminal
from tests.patience import PATIENCE_S


def interval(index: int, *rows: dict[str, Any], rev: int = 1) -> bytes:
    return json.dumps(
        {
            "job": "t/j",
            "interval": {"index": index, "start": "2026-01-01T00:00:00Z", "end": None},
            "state": "FINAL",
            "rev": rev,
            "agents": {"in": 2, "expected": 3, "missing": ["c"]},
            "rows": rows,
        }
    ).encode()


def screen(chart: Chart, width: int = 60, height: int = 20) -> str:
    out = io.StringIO()
    Console(file=out, width=width, height=height, color_system=None, highlight=False).print(
        chart.drawn(width, height)
    )
    return out.getvalue()


def test_the_line_goes_over_intervals_and_bars_are_the_newest_rows() -> None:
    chart = Chart(None, follow=False)
    chart.show(interval(1, {"path": "/", "hits": 1}, {"path": "/a", "hits": 1}))
    chart.show(interval(2, {"path": "/", "hits": 30}, {"path": "/a", "hits": 10}))
    text = screen(chart)
    assert "hits: 40 now, 40 at most" in text
    assert "2/3 agents" in text
    assert "40┤" in text
    bars = {line.split()[0]: line.count("█") for line in text.splitlines() if line.startswith("/")}
    assert bars["/"] == pytest.approx(3 * bars["/a"], abs=2)


def test_of_one_row_of_numbers_each_is_a_bar() -> None:
    chart = Chart(None, follow=False)
    chart.show(interval(1, {"likes": 120, "buys": 60}))
    bars = {line.split()[0]: line for line in screen(chart).splitlines() if "█" in line}
    assert bars["likes"].split()[1] == "120"
    assert bars["likes"].count("█") == pytest.approx(2 * bars["buys"].count("█"), abs=2)


def test_a_revision_takes_the_place_of_what_it_revises() -> None:
    chart = Chart("hits", follow=False)
    chart.show(interval(1, {"path": "/", "hits": 1}))
    chart.show(interval(1, {"path": "/", "hits": 5}, rev=2))
    assert "5 now, 5 at most" in screen(chart)
    assert len(chart._totals) == 1


def test_it_fits_the_screen_whatever_its_size() -> None:
    chart = Chart(None, follow=False)
    for index in range(300):
        chart.show(interval(index, *({"path": f"/{'x' * 90}{n}", "hits": n} for n in range(50))))
    for width, height in ((20, 8), (80, 24), (200, 60)):
        lines = screen(chart, width, height).splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= height + 2
        assert "more rows" in lines[-1] or height > 55


def test_text_of_rows_is_escaped() -> None:
    chart = Chart(None, follow=False)
    chart.show(interval(1, {"path": "\x1b[2J[red]/x[/red]", "hits": 3}))
    text = screen(chart, 100)
    assert "\x1b" not in text
    assert "\\x1b[2J[red]/x[/red]" in text


def test_what_is_no_number_is_refused_with_a_hint() -> None:
    rows = [{"path": "/", "hits": 3, "ok": True}]
    assert number_column(rows, None) == "hits"
    with pytest.raises(DataError, match="'hit' is not a numeric column") as refused:
        number_column(rows, "hit")
    assert "hits" in refused.value.hint
    with pytest.raises(DataError, match="no numeric column"):
        number_column([{"path": "/"}], None)


def test_equal_empty_and_negative_values_are_drawn() -> None:
    for values, ends in (([2.0, 2.0], "2 0"), ([0.0, 0.0], "0"), ([-1.0, 1.0], "1 -1"), ([3.0], "3 0")):
        drawn = line_plot(range(len(values)), values, 30, 6)
        shown = [line.split("┤")[0].strip() for line in drawn.splitlines() if "┤" in line]
        assert " ".join(filter(None, shown)) == ends
    left, right = (
        line.partition("┤")[2] for line in bar_plot([("a", -2.0), ("b", 2.0)], 60).splitlines()[:2]
    )
    assert left.rstrip() + right.lstrip() == "█" * (left.count("█") + right.count("█"))
    assert left.count("█") == pytest.approx(right.count("█"), abs=1)
    assert "█" not in bar_plot([("a", 0.0)], 60)
    chart = Chart(None, follow=False)
    chart.show(interval(1))
    assert "no rows: 0 now" in screen(chart)


class Results(BaseHTTPRequestHandler):
    """An agent whose job closes an interval whenever it is told to; the first three at once."""

    protocol_version = "HTTP/1.1"
    go_on = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index in range(6 if "follow" in self.path else 0 if "from=" in self.path else 3):
            if index == 3:
                Results.go_on.wait(PATIENCE_S)
            line = interval(index, {"path": "/evil\x1b]0;x\x07", "hits": index + 1}) + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        if "follow" in self.path:
            threading.Event().wait(20)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Results)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_terminal_is_drawn_on_as_intervals_come_and_when_it_is_resized(api: str) -> None:
    Results.go_on.clear()
    terminal = Terminal("results", "t/j", "--follow", "--chart", "--api", api, rows=20, columns=70)
    terminal.wait_for("hits: 3 now")
    terminal.resize(10, 40)
    Results.go_on.set()
    text = terminal.wait_for("hits: 6 now")
    assert "\x1b]0;x" not in text
    assert "/evil" in text
    terminal.press("\x03")
    assert terminal.end() == 0


def test_elsewhere_it_is_drawn_once_at_the_end(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "t/j", "--chart", "--api", api]) == 0
    text = capsys.readouterr().out
    assert text.count("hits: 3 now, 3 at most") == 1
    assert run(["results", "t/j", "--chart", "--column", "path", "--api", api]) == 65
    assert run(["results", "t/j", "--column", "hits", "--api", api]) == 2
    assert run(["results", "t/j", "--chart", "-o", "json", "--api", api]) == 2


def test_numbers_that_are_not_drawn_are_no_labels_where_a_row_has_a_name() -> None:
    rows = [{"path": "/a", "hits": 3, "bytes": 10}, {"path": "/b", "hits": 1, "bytes": 20}]
    assert bars_of(rows, "hits") == [("/a", 3.0), ("/b", 1.0)]
    assert bars_of([{"status": 200, "n": 3}, {"status": 404, "n": 1}], "n") == [
        ("200", 3.0),
        ("404", 1.0),
    ]


def test_rows_of_one_name_are_a_bar_each_and_the_first_row_is_at_the_top() -> None:
    lines = bar_plot([("a", 4.0), ("b", 1.0), ("a", 2.0)], 60).splitlines()[:3]
    assert [line.split()[0] for line in lines] == ["a", "b", "a"]
    assert lines[0].count("█") == pytest.approx(2 * lines[2].count("█"), abs=1)


def test_without_the_library_the_option_names_the_extra(
    api: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    assert run(["results", "t/j", "--chart", "--api", api]) == NotInstalled.exit_code
    text = capsys.readouterr().err
    assert "--chart needs plotext, which is not installed" in text
    assert "pip install 'elfmesh[shell]'" in text
