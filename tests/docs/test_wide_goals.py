"""The table of goals for several sites: no goal disappears, and all figures are of one run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.harness import Figure, Report
from benchmarks.wide_goals import GOALS, Goal, main, section

DOUBLE = Goal("twice", "", "at most 4x", lambda values: values["one"] * 2, lambda found: found <= 4)
ABSENT = Goal("absent", "", "at most 1x", lambda values: values["other"], lambda found: found <= 1)


def report(*figures: Figure, commit: str = "abc") -> Report:
    return Report("wide_area", "2 cores", commit, list(figures))


def test_a_goal_whose_figure_is_in_no_report_is_named_as_missing() -> None:
    table = section([report(Figure("one", 1.5, "s"))], [DOUBLE, ABSENT])
    assert table.missing == ["absent"]
    assert "| twice |  | at most 4x | 3.00x |" in table.text
    assert "| absent |  | at most 1x | missing |" in table.text
    assert "2 cores; commit abc" in table.text


def test_a_goal_that_is_missed_is_bold_and_not_missing() -> None:
    table = section([report(Figure("one", 3.0, "s"))], [DOUBLE])
    assert (table.missing, "**6.00x**" in table.text) == ([], True)


def test_a_figure_that_was_skipped_is_missing_and_one_that_is_zero_counts() -> None:
    skipped = Figure("one", 0.0, "", skipped="the traces are absent")
    assert section([report(skipped)], [DOUBLE]).missing == ["twice"]
    zero = Figure("one", 0.0, "", skipped="0: none")
    assert section([report(zero)], [DOUBLE]).missing == []


def test_reports_of_two_commits_are_refused() -> None:
    with pytest.raises(SystemExit, match="one commit: abc, def"):
        section([report(), report(commit="def")], [DOUBLE])


def test_the_command_writes_the_page_and_fails_if_a_goal_has_no_figure(
    tmp_path: Path,
) -> None:
    page, path = tmp_path / "page.md", tmp_path / "report.json"
    page.write_text("# Page\n")
    path.write_bytes(msgspec.json.encode(report(Figure("one", 1.5, "s"))))
    with pytest.raises(SystemExit, match=f"of {len(GOALS)} goals, {len(GOALS)} have no figure"):
        main([str(path)], page)
    assert page.read_text().count("| missing |") == len(GOALS)
