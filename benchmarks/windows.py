"""Sliding windows: 300 s by 1 s over a million keys, what a slide costs against making the window again.

Parts: `invertible` (count, sum: the leaving pane is subtracted) and `four` (with min and max, which have no
inverse). The last window of each contestant is compared. Made again is taken at its cheapest: the groups of
each pane are kept and grouped again in pyarrow; from the records, and in our own tree, are given too.
"""

from __future__ import annotations

from functools import partial

from benchmarks import contest, data
from benchmarks.contest import Contestant
from benchmarks.harness import Figure

PANES = {False: 300, True: 30}
PANE_ROWS = {False: 20_000, True: 1_000}
KEYS = {False: 1_000_000, True: 5_000}
SLIDES = {False: 30, True: 5}
REBUILT_SLIDES = {False: 2, True: 1}
AGAIN = {"panes": "pyarrow, from the panes' groups", "records": "pyarrow, from records", "tree": "our tree"}


def measure(aggregates: str, *, small: bool) -> list[Figure]:
    """Slides of ours, and the same last window by each."""
    panes, rows, slides = PANES[small], PANE_ROWS[small], SLIDES[small]
    stream = data.wide((panes + slides) * rows, KEYS[small])

    def one(variant: str, count: int) -> Contestant:
        arguments = (variant, str(stream), aggregates, str(panes), str(rows), str(count))
        return Contestant(variant, "benchmarks.peers.slide", arguments)

    few = REBUILT_SLIDES[small]
    again = contest.run([one("elf", few), *(one(variant, few) for variant in AGAIN)])
    ours = contest.run([one("elf", slides)])["elf"]
    slide = ours.median("window_s") + ours.median("enter_s")
    figures = [
        Figure(
            f"{aggregates}: keys in the window", ours.median("keys"), "keys", checksum=again["elf"].checksum
        ),
        Figure(f"{aggregates}: insert a pane of {rows:,} records", ours.median("enter_s"), "CPU s"),
        Figure(f"{aggregates}: slide, the insert included", slide, "CPU s"),
        Figure(f"{aggregates}: the worst slide of {slides}", ours.median("worst_s"), "CPU s"),
        Figure(f"{aggregates}: encode the whole window", ours.median("encode_s"), "CPU s"),
        Figure(f"{aggregates}: the first window", ours.median("first_s"), "CPU s"),
        Figure(f"{aggregates}: memory", ours.median("held_bytes") / 1e6, "MB"),
    ]
    for variant, name in AGAIN.items():
        cost = again[variant].median("window_s")
        figures.append(Figure(f"{aggregates}: again, {name}", cost, "CPU s", "ours to it", slide / cost))
    cheapest = min(again[variant].median("window_s") for variant in AGAIN)
    share = slide / cheapest
    figures.append(Figure(f"{aggregates}: a slide to the cheapest of them", share * 100, "%", "anew", share))
    return figures


PARTS = {name: partial(measure, name) for name in ("invertible", "four")}
