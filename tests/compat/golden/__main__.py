"""`python -m tests.compat.golden`: what became of Spark's golden queries, by file or one by one."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict

from elfmesh.errors import ElfError
from tests.compat.golden import outcomes as o
from tests.compat.golden.data import Golden, cases
from tests.compat.golden.run import answer


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(prog="python -m tests.compat.golden", description=__doc__)
    options.add_argument("--file", action="append", help="Only this file of Spark's tests; repeatable.")
    options.add_argument("--case", action="append", help="Show FILE#N: statement, input, expected, got.")
    options.add_argument("--show", choices=(*o.STATES, *o.MORE_STATES), help="List the cases of a state.")
    options.add_argument("--kind", help="With --show: only of this kind.")
    options.add_argument("--json", action="store_true", help="A line of JSON for each case.")
    options.add_argument("--write", action="store_true", help="Write open.txt as it is now.")
    given = options.parse_args()
    if given.case:
        for name in given.case:
            print(_shown(next(case for case in cases() if case.name == name)))
        return
    found = o.outcomes(given.file)
    if given.json:
        for each in found:
            print(json.dumps(asdict(each)))
        return
    if given.show:
        texts = {case.name: " ".join(case.text.split()) for case in cases()}
        chosen = [each for each in found if each.state == given.show and given.kind in (None, each.kind)]
        for each in chosen:
            print(f"{each.name} [{each.kind}]\n  {texts[each.name]}\n  {' '.join(each.why.split())}")
        print(Counter(each.kind for each in chosen))
        return
    if given.write:
        states = (o.POOR, o.WRONG, o.CRASHED)
        o.OPEN_CASES.write_text(o.as_list({each.name: each.state for each in found if each.state in states}))
    print(o.table_of(found))


def _shown(case: Golden) -> str:
    lines = [f"-- {case.name}", case.text]
    for name, view in case.views.items():
        lines += [f"-- {name}: {', '.join(map(' '.join, view.columns))}", *map(str, view.rows[:20])]
    lines += [f"-- expected: {', '.join(map(' '.join, case.columns))}", *map(str, case.rows)]
    lines += [case.error] if case.error else []
    try:
        table = answer(case)
        lines += [f"-- got: {', '.join(f'{field.name} {field.type}' for field in table.schema)}"]
        lines += [str(tuple(row.values())) for row in table.to_pylist()]
    except ElfError as error:
        lines += [f"-- refused: {error}"]
    found = o.outcome(case)
    return "\n".join([*lines, f"-- {found.state} {found.kind}: {found.why}"])


if __name__ == "__main__":
    main()
