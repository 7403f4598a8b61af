"""The documents as a whole: links lead to a heading, the words are counted, the site needs no network.

`make docs` builds the site and stops at a broken link; CI runs it. These checks need no generator.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WORDS_MAX = 45_000 + 5 * 3_000
"""45,000; 3,000 each for coordination, several sites, planned replication, what users ask, and speed."""
NOT_COUNTED = ("adr", "history", "reference")
"""Folders of docs/ with decisions, with what was, and with what is generated."""

PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "deploy/README.md"], key=lambda path: path.as_posix()
)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
GENERATED = re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.S)
"""A section that a program writes, such as the rot matrix of docs/reliability.md."""

LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return FENCE.sub("", path.read_text())


def words(path: Path) -> int:
    """How many words are written by hand: tables count; code, marks and generated sections do not."""
    return counted(GENERATED.sub("", prose(path)))


def counted(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"\w", word))


def slug(heading: str) -> str:
    """The anchor of a heading in the repository's view and on the site."""
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    text, seen, found = prose(path), Counter[str](), set(re.findall(r'<a id="([\w-]+)">', path.read_text()))
    for heading in re.findall(r"^#{1,6} +(.*)$", text, re.M):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_a_heading(path: Path) -> None:
    broken = []
    for target in LINK.findall(prose(path)):
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if "://" not in target and anchor and to.suffix == ".md" and anchor not in anchors(to):
            broken.append(target)
    assert broken == []


def test_hand_written_documents_stay_short() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): words(path)
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
        if not (path.is_relative_to(DOCS) and path.relative_to(DOCS).parts[0] in NOT_COUNTED)
    }
    longest = sorted(found.items(), key=lambda each: -each[1])[:5]
    assert sum(found.values()) <= WORDS_MAX, f"{sum(found.values())} words; the longest: {longest}"


def test_words_are_counted() -> None:
    assert slug("`elf why`, and [the log](x.md)") == "elf-why-and-the-log"
    assert counted("| a | b-c |\n|---|---|\n- *d* `e f`\n") == 5
    assert counted(GENERATED.sub("", "a\n<!-- x y: begin -->\nb\n<!-- x y: end -->\nc")) == 2


def test_every_document_is_on_the_site() -> None:
    order = (DOCS / "_site/elf_pages.py").read_text()
    listed = set(re.findall(r'"((?:docs|deploy)/[\w./*-]+|[A-Z_]+)"', order))
    for path in PAGES:
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        assert name in listed | {"README"} or f"{Path(name).parent}/*" in listed or "/adr/" in name, name


def test_the_site_needs_no_network() -> None:
    """Nothing of the theme or of the pages is fetched from elsewhere, where a site was built."""
    site = ROOT / "build/docs/html"
    if not site.exists():
        pytest.skip("there is no site: make docs")
    for page in site.rglob("*.html"):
        text = page.read_text()
        fetched = re.findall(r'<(?:script|img)[^>]+src="(https?:[^"]+)"', text)
        fetched += re.findall(r'<link[^>]+rel="(?:stylesheet|preload)"[^>]+href="(https?:[^"]+)"', text)
        assert fetched == [], page
    index = (site / "searchindex.js").read_text()
    assert "straggler" in index
    assert "docs/operations/runbook" in index


def test_the_generator_is_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {re.split(r"[<>=]", each)[0] for each in extras["docs"]} == {"furo", "myst-parser", "sphinx"}
