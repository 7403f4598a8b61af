"""Which process of pytest-xdist runs which tests."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

from tests.spark_tests import EVERYTHING


class FileByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file's tests run in one process, in their order, but where `apart` says that they share nothing.

    Those files that need Spark run all in one: each process with such a test starts a JVM of its own, and
    warms it up. Files with the most tests come first, except in half of the processes, which begin with the
    files that have the fewest. Tests that run agents are in such files and wait a lot; left to the end, they
    would leave the cores idle.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        marks = _marks(self.config.rootpath / path)
        if "spark" in marks and not EVERYTHING:
            return "spark"
        return nodeid if "apart" in marks else path

    def _reschedule(self, node: Any) -> None:
        """Give a process work until it knows two tests: it begins none before it knows the next, or the end.

        The scheduler of xdist gives one that takes another's place a single file, and waits for it to end.
        """
        if node not in self.registered_collections:
            return  # it took another's place and still collects; xdist asks again when it has
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        """Give a process a file; `remove_node` shares it out again where the process has just ended."""
        if node in self.nodes[: len(self.nodes) // 2]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        with suppress(OSError):
            super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Share out what a process that ended leaves, but for the test that it was at, which is returned.

        The scheduler of xdist shares out what was done as well; a process that is given only that reports
        nothing, is given nothing more, and the run never ends. It also repeats what ended the process.
        """
        left = [
            (scope, test)
            for scope, tests in self.assigned_work.pop(node).items()
            for test, done in tests.items()
            if not done
        ]
        for scope, test in left[1:]:
            self.workqueue.setdefault(scope, {})[test] = False
        for other in self.assigned_work:
            self._reschedule(other)
        return left[0][1] if left else None


def begin_apart(config: Any, tests: Path) -> None:
    """Let each process of pytest-xdist begin to collect at another folder; the last one ends at the first.

    Every process collects all tests. In a fresh checkout, most of that is compiling them, and a process finds
    compiled what another one has come to before it.
    """
    process = getattr(config, "workerinput", None)
    if process is None or [Path(arg).resolve() for arg in config.args] != [tests]:
        return
    parts = sorted(str(path) for path in tests.iterdir() if path.is_dir() or path.match("test_*.py"))
    parts = [path for path in parts if not Path(path).name.startswith("__")]
    number = int(process["workerid"].removeprefix("gw")) % process["workercount"]
    first = number * len(parts) // process["workercount"]
    config.args[:] = parts[first:] + parts[:first]


def in_order(config: Any, items: list[Any]) -> None:
    """Sort tests by the folder that they were collected from: all processes must name them in one order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.nodeid.partition("::")[0].split("/")[:2])


@cache
def _marks(path: Path) -> frozenset[str]:
    """What a file marks any of its tests with."""
    return frozenset(re.findall(r"pytest\.mark\.(\w+)", path.read_text()))
