"""Figures of many rounds come together as one row for each harness; sections of a page keep to themselves."""

from __future__ import annotations

from tests.fuzz.rounds import table, total
from tests.reliability import with_section


def test_rounds_add_up_and_a_round_that_crashed_is_a_finding() -> None:
    ran = {"about": "x", "refused_share": 0.5, "slowest_ms": 2.0, "largest_mib": 1.0, "findings": []}
    done = [
        {"name": "frames", "inputs": 100, **ran},
        {
            "name": "frames",
            "inputs": 300,
            **ran,
            "refused_share": 0.9,
            "slowest_ms": 7.0,
            "findings": ["slow"],
        },
        {"name": "frames", "inputs": 1, "findings": ["Segmentation fault"]},
    ]
    assert total(done, "frames") == 401
    (row,) = [row for row in table(done) if "`frames`" in row]
    assert row == "| `frames` | x | 400 | 80% | 7 ms | 1 MiB | 2 |"
    page = "| `frames` | x | 1 | 0% | 0 ms | 0 MiB | 0 |\n| `votes` | y | 7 | 0% | 1 ms | 0 MiB | 0 |\n"
    assert table(done, page) == [row, page.splitlines()[1]], "a harness that was not run keeps its row"


def test_a_section_is_added_once_and_replaced_where_it_stands() -> None:
    page = with_section(with_section("# Page\n", "one", "first"), "two", "second")
    again = with_section(page, "one", "better\n")
    assert again == page.replace("first", "better")
    assert again.count("<!-- one: begin -->") == 1
