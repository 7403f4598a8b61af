"""Merging in the trees: 16 children with a million keys each, as a reducer meets them.

Parts: `count` and `four`. The children's keys are drawn from twice as many, so that each key comes from
eight children on average. Ours goes from bytes to bytes; so does the Arrow peer; decoding and grouping ends
at a table.
"""

from __future__ import annotations

from functools import partial

from benchmarks import contest, data
from benchmarks.contest import Contestant
from benchmarks.harness import Figure

CHILDREN = 16
CHILD_ROWS = {False: 1_386_294, True: 13_863}
KEYS = {False: 2_000_000, True: 20_000}
"""ln 2 times as many draws as keys leave half of the keys in each child: a million."""

PEERS = {"group": "decode and group", "arrow": "Arrow IPC with zstd"}
REPEATS = 3


def measure(aggregates: str, *, small: bool) -> list[Figure]:
    """CPU, memory and bytes of one merge."""
    rows = CHILD_ROWS[small]
    stream = data.wide(CHILDREN * rows, KEYS[small])
    arguments = (str(stream), aggregates, str(CHILDREN), str(rows))
    all_agents = [Contestant(name, "benchmarks.peers.merge", (name, *arguments)) for name in ("elf", *PEERS)]
    outcomes = contest.run(all_agents, repeats=1 if small else REPEATS)
    ours = outcomes["elf"]
    figures = [
        Figure(f"{aggregates}: keys of the result", ours.median("keys"), "keys", checksum=ours.checksum),
        Figure(f"{aggregates}: merge", ours.median("cpu_s"), "CPU s", spread=ours.spread("cpu_s")),
        Figure(f"{aggregates}: peak memory of the merge", ours.median("peak_bytes") / 1e6, "MB"),
        Figure(f"{aggregates}: bytes in", ours.median("in_bytes") / 1e6, "MB"),
        Figure(f"{aggregates}: bytes out", ours.median("out_bytes") / 1e6, "MB"),
    ]
    for variant, name in PEERS.items():
        peer = outcomes[variant]
        for key, what, unit, factor in (
            ("cpu_s", "merge", "CPU s", 1.0),
            ("peak_bytes", "peak memory", "MB", 1e-6),
            ("in_bytes", "bytes in", "MB", 1e-6),
        ):
            figure = Figure(f"{aggregates}: {name}, {what}", peer.median(key) * factor, unit, name)
            figure.ratio = ours.median(key) / peer.median(key)
            figures.append(figure)
    return figures


PARTS = {name: partial(measure, name) for name in ("count", "four")}
