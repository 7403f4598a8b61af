"""Every section of ELF that the paper map names has a file of tests here, which quote it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
MAP = HERE.parents[1] / "docs" / "paper-map.md"
FILES = {
    path.stem.removeprefix("test_section_").replace("_", "."): path for path in HERE.glob("test_section_*.py")
}


def sections() -> set[str]:
    """Numbers in the first column of the first table, without those of figures and tables."""
    rows = MAP.read_text().partition("## Deviations")[0]
    cells = re.findall(r"^\| ([^|]+) \|", rows, re.MULTILINE)
    without = [re.sub(r"(Fig\.|Tables?) [\w/]+(, \d+(?![\d.]))*", "", cell) for cell in cells]
    return {number for cell in without for number in re.findall(r"(?<![\w.])\d(?:\.\d)?(?![\w.])", cell)}


def test_each_section_of_the_map_has_its_tests() -> None:
    assert {"1", "2.3", "4.3"} <= sections()
    assert FILES.keys() == sections()


def test_the_tests_of_a_section_name_it() -> None:
    for section, path in FILES.items():
        assert f"section {section}" in path.read_text().partition("\n")[0], path.name
