"""What `make test-spark` has found, as the table of docs/spark.md.

Run as `python -m tests.spark_bridge.history.page`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.jobs import peers_jobs
from tests.spark_bridge.history import test_reference
from tests.spark_bridge.history.engines import AGENTS, ENGINES, FAILING, PASSED, REPORTED
from tests.spark_bridge.history.test_peers import cases

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
BEGIN, END = "<!-- engines -->\n", "<!-- /engines -->\n"
NOT_RUN = "not run"
TITLES = {
    "reference": "[the reference](elf-ql.md), statements",
    "peers": "[other systems' cases](compatibility.md)",
}

Outcomes = Mapping[str, Mapping[str, str]]
"""Per engine what became of each query."""


def left_out(suite: str) -> dict[str, str]:
    """The queries of a suite that four agents are not asked, with the reason."""
    if suite == "peers":
        named = {case.name: peers_jobs.left_out(case, text) for case, text in cases()}
    else:
        named = {name: test_reference.left_out(text) for name, text in test_reference.statements().items()}
    return {name: why for name, why in named.items() if why}


def found(suite: str) -> dict[str, dict[str, str]]:
    """What the tests have written down.

    Raises:
        SystemExit: they have not been run.
    """
    outcomes: dict[str, dict[str, str]] = {}
    for engine in ENGINES:
        for path in REPORTED.glob(f"{suite}.{engine}.*.json"):
            outcomes.setdefault(engine, {}).update(json.loads(path.read_text()))
        if engine not in outcomes:
            raise SystemExit(f"{REPORTED} says nothing of {suite} by {engine}: make test-spark first")
    return outcomes


def table(suites: Mapping[str, Outcomes]) -> str:
    """Counts by engine, then what is not passed, with the reason."""
    lines = [f"| | all | {' | '.join(ENGINES)} |", "|---" * (len(ENGINES) + 2) + "|"]
    exceptions: Counter[tuple[str, str, str]] = Counter()
    for suite, outcomes in suites.items():
        names = {name for states in outcomes.values() for name in states}
        cells = []
        for engine in ENGINES:
            states = Counter(outcomes[engine].get(name, NOT_RUN) for name in names)
            cells.append(
                ", ".join(f"{count} {state}" for state, count in sorted(states.items(), reverse=True))
            )
            for name in names - set(outcomes[engine]):
                exceptions[suite, engine, _why(suite, engine, name)] += 1
            for name, state in outcomes[engine].items():
                if state == FAILING:
                    exceptions[suite, engine, f"{FAILING}: {name}"] += 1
        lines.append(f"| {TITLES[suite]} | {len(names)} | {' | '.join(cells)} |")
    lines += ["", "| exception | engine | how many | why |", "|---|---|---|---|"]
    lines += [f"| {TITLES[suite]} | {engine} | {count} | {why} |"
              for (suite, engine, why), count in sorted(exceptions.items())]  # fmt: skip
    return "\n".join(lines) + "\n"


def _why(suite: str, engine: str, name: str) -> str:
    asked = left_out(suite).get(name, "") if engine == AGENTS else ""
    return asked or f"{FAILING}: {name} was not asked"


def expected(names: set[str], on_agents: set[str]) -> dict[str, dict[str, str]]:
    """The outcomes of a suite where every query passes that is asked."""
    return {engine: dict.fromkeys(on_agents if engine == AGENTS else names, PASSED) for engine in ENGINES}


def written(page: str) -> str:
    """The table that the page has."""
    (inside,) = re.findall(f"{BEGIN}(.*?){END}", page, re.S)
    return str(inside)


def main() -> None:
    """Put the table into the page."""
    page = PAGE.read_text()
    new = table({suite: found(suite) for suite in TITLES})
    PAGE.write_text(page.replace(f"{BEGIN}{written(page)}{END}", f"{BEGIN}{new}{END}"))
    sys.stdout.write(new)


if __name__ == "__main__":
    main()
