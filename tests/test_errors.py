from __future__ import annotations

import re

from elfmesh import errors

BRANCH = re.compile(r" {4}(?P<before>(?:[| ]  )*)(?P<end>[|`])- (?P<name>\w+) +(?P<code>\d+|-) ")


def drawn() -> list[tuple[str, str, str, bool]]:
    """Each branch of the drawing: name, parent, exit code, and whether it stands last under its parent."""
    path = ["ElfError"]
    branches = []
    for line in (errors.__doc__ or "").splitlines():
        if found := BRANCH.match(line):
            depth = len(found["before"]) // 3 + 1
            path[depth:] = [found["name"]]
            branches.append((found["name"], path[depth - 1], found["code"], found["end"] == "`"))
    return branches


def test_the_drawing_is_the_tree_of_the_classes() -> None:
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.ElfError)
    }
    branches = drawn()
    assert {name for name, *_ in branches} == classes.keys() - {"ElfError"}
    for name, parent, code, _ in branches:
        assert classes[name].__bases__ == (classes[parent],), name
        assert code == ("-" if name == "ProtocolError" else str(classes[name].exit_code)), name
    for parent in {parent for _, parent, *_ in branches}:
        lasts = [last for _, its, _, last in branches if its == parent]
        assert lasts == [False] * (len(lasts) - 1) + [True], parent
