"""Random SELECTs over windows of time: TUMBLE, HOP and SESSION, in Spark window and session_window."""

from __future__ import annotations

from tests.properties.nodes import NOTHING, listed, same, spare, two
from tests.properties.typed.expressions import Scope, expression
from tests.properties.typed.rows import BOOL, TIME
from tests.properties.typed.statements import Maker, Query


def windowed(maker: Maker) -> Query:
    """A grouped SELECT over windows or sessions of one stream."""
    rng, source, sorts = maker.rng, maker.stream(), maker.sorts()
    maker.features.add("window")
    ts = next(leaf for leaf in source.leaves if leaf.texts()[0].endswith(".ts")).texts()[0]
    size = rng.choice((5, 10, 20))
    shape = rng.randrange(3)
    if shape == 0:
        elf, spark = f"TUMBLE({ts}, INTERVAL '{size}' SECOND)", f"window({ts}, '{size} seconds')"
    elif shape == 1:
        more = size * rng.choice((2, 3))
        elf = f"HOP({ts}, INTERVAL '{size}' SECOND, INTERVAL '{more}' SECOND)"
        spark = f"window({ts}, '{more} seconds', '{size} seconds')"
    else:
        size = rng.choice((1, 2, 3))
        elf, spark = f"SESSION({ts}, INTERVAL '{size}' SECOND)", f"session_window({ts}, '{size} seconds')"
    field = "session_window" if shape == 2 else "window"
    keys = [rng.choice(source.leaves) for _ in range(rng.choice((0, 1, 1, 2)))]
    keys = list({key.texts()[0]: key for key in keys}.values())
    edges = [two(TIME, f"window_{each}", f"{field}.{each}") for each in ("start", "end")]
    seen = Scope([*keys, *edges])
    items = [
        expression(rng, seen, sort, 1) if rng.random() < 0.3 else maker.aggregate(Scope(source.leaves), sort)
        for sort in sorts
    ]
    names = tuple(maker.name("k") for _ in sorts)
    select = [same("", f"{{0}} AS {name}", item) for name, item in zip(names, items, strict=True)]
    group = two(
        "",
        f" GROUP BY {elf}{{0}}",
        f" GROUP BY {spark}{{0}}",
        listed("", [same("", ", {0}", k) for k in keys]),
    )
    where = NOTHING
    if rng.random() < 0.4:
        where = spare(same("", " WHERE {0}", expression(rng, Scope(source.leaves), BOOL, 1)))
    # a count makes it a grouped query, whatever the other items are
    count = same("", f"count(*) AS {maker.name('k')}")
    text = same(
        "",
        "SELECT {0} FROM {1}{2}{3}",
        listed(", ", [*map(spare, select), count]),
        source.text,
        where,
        group,
    )
    return Query(text, names, tuple(sorts))
