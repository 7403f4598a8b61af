"""Whose lines a follower gets: those of one term, or of a site while it votes."""

from __future__ import annotations

from elfmesh.control.closing.shown import ShownLines, SiteLines
from elfmesh.control.jobs.records import ResultRecord
from tests.control.closing.rig import START, ClosingRig


def test_a_site_has_the_lines_of_its_present_grant_and_none_without_one() -> None:
    rig, grants = ClosingRig(), list[ShownLines]()
    site = SiteLines(lambda: grants[-1] if grants else None)
    assert (site.source, site.seq, site.since(0, START, early=False)) == ("", 0, [])
    lines = ShownLines(rig.term.tentative, rig.term.early, "m/1")
    grants.append(lines)
    rig.term.tentative.begin(ResultRecord(job="shop/top", index=START), (1, 0, 0))
    rig.term.tentative.made(START, 1, b"rows")
    assert (site.source, site.seq) == ("m/1", lines.seq)
    ((number, record, rows),) = site.since(0, START, early=False)
    assert (number, record.index, rows) == (lines.seq, START, b"rows")
    assert site.since(number, START, early=False) == site.since(0, START + 1, early=False) == []
