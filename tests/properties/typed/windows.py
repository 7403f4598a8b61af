"""Random SELECTs over windows of time: TUMBLE, HOP and SESSION, in Spark window and session_window.

Spark joins streams over all time. Its statement for a join within windows is the reference of ours: each side
has the windows of its records as a column, and the join is on equal windows as well.
"""

from __future__ import annotations

from tests.properties.nodes import NOTHING, Node, listed, same, spare, two
from tests.properties.typed.expressions import Scope, expression
from tests.properties.typed.rows import BOOL, SCHEMAS, SORTS, TIME
from tests.properties.typed.statements import JOINS, Maker, Query, Source

SIZES_S = (5, 10, 20, 60, 3600)


def windowed(maker: Maker) -> Query:
    """A grouped SELECT over windows or sessions of one stream, or of two that are joined."""
    rng = maker.rng
    maker.features.add("window")
    if rng.random() < 0.3:
        return _joined(maker)
    source = maker.stream()
    ts = next(leaf for leaf in source.leaves if leaf.texts()[0].endswith(".ts")).texts()[0]
    if rng.random() < 0.3:
        maker.features.add("session")
        gap = rng.choice((1, 2, 3, 20))
        elf, spark = f"SESSION({ts}, INTERVAL '{gap}' SECOND)", f"session_window({ts}, '{gap} seconds')"
        return _grouped(maker, source, elf, spark, "session_window")
    name, lengths, seconds = _window(maker)
    return _grouped(maker, source, f"{name}({ts}, {lengths})", f"window({ts}, {seconds})", "window")


def _window(maker: Maker) -> tuple[str, str, str]:
    """TUMBLE or HOP, its lengths, and those of Spark."""
    size_s = maker.rng.choice(SIZES_S)
    if maker.rng.random() < 0.5:
        maker.features.add("tumble")
        return "TUMBLE", f"INTERVAL '{size_s}' SECOND", f"'{size_s} seconds'"
    maker.features.add("hop")
    long_s = size_s * maker.rng.choice((2, 3, 5)) // maker.rng.choice((1, 2))
    long_s = max(long_s, size_s)
    lengths = f"INTERVAL '{size_s}' SECOND, INTERVAL '{long_s}' SECOND"
    return "HOP", lengths, f"'{long_s} seconds', '{size_s} seconds'"


def _joined(maker: Maker) -> Query:
    maker.features.add("windowed join")
    rng, sources = maker.rng, [maker.stream(), maker.stream()]
    aliases = [source.leaves[0].texts()[0].partition(".")[0] for source in sources]
    name, lengths, seconds = _window(maker)
    inputs = [
        two("", f"{stream} {alias}", f"(SELECT *, window(ts, {seconds}) AS w0 FROM {stream}) {alias}")
        for alias in aliases
        for stream in SCHEMAS
        if any(source.text.texts()[0] == f"{stream} {alias}" for source in sources)
    ]
    word = rng.choice(JOINS)
    on = two("", "{0}", f"{{0}} AND {aliases[0]}.w0 = {aliases[1]}.w0", maker.equation(*sources))
    half = "SEMI" in word or "ANTI" in word
    leaves = sources[0].leaves if half else [*sources[0].leaves, *sources[1].leaves]
    window = f"{aliases[0]}.w0" if half else f"coalesce({aliases[0]}.w0, {aliases[1]}.w0)"
    source = Source(same("", f"{{0}} {word} {{1}} ON {{2}}", *inputs, on), leaves)
    return _grouped(maker, source, f"{name}({aliases[0]}.ts, {lengths})", window, window)


def _grouped(maker: Maker, source: Source, elf: str, spark: str, field: str) -> Query:
    rng, sorts = maker.rng, maker.sorts()
    keys = [rng.choice(source.leaves) for _ in range(rng.choice((0, 1, 1, 2)))]
    keys = list({key.texts()[0]: key for key in keys}.values())
    edges = [two(TIME, f"window_{each}", f"{field}.{each}") for each in ("start", "end")]
    seen, scope = Scope([*keys, *edges]), Scope(source.leaves)
    items = [
        expression(rng, seen, sort, 1) if rng.random() < 0.3 else maker.aggregate(scope, sort)
        for sort in sorts
    ]
    names = tuple(maker.name("k") for _ in sorts)
    select = [same("", f"{{0}} AS {name}", item) for name, item in zip(names, items, strict=True)]
    behind = listed("", [same("", ", {0}", key) for key in keys])
    group = two("", f" GROUP BY {elf}{{0}}", f" GROUP BY {spark}{{0}}", behind)
    where: Node = NOTHING
    if rng.random() < 0.4:
        where = spare(same("", " WHERE {0}", expression(rng, scope, BOOL, 1)))
    having: Node = NOTHING
    if rng.random() < 0.25:
        held = maker.aggregate(scope, rng.choice(SORTS))
        having = spare(same("", f" HAVING {{0}} IS {rng.choice(('', 'NOT '))}NULL", held))
    # a count makes it a grouped query, whatever the other items are
    count = same("", f"count(*) AS {maker.name('k')}")
    text = same(
        "", "SELECT {0} FROM {1}{2}{3}{4}", listed(", ", [*map(spare, select), count]), source.text, where,
        group, having,
    )  # fmt: skip
    return Query(text, names, tuple(sorts))
