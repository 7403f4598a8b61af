"""The part of `/metrics` that sinks write: how they stand, and the result that is shown."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from elfmesh.agent.sinks.config import PrometheusSink
from elfmesh.agent.sinks.metrics import Exposition
from elfmesh.agent.sinks.prometheus import LastResults
from tests.agent.sinks.rig import LOG, START_US, item


def sink(**options: Any) -> LastResults:
    return LastResults("shown", PrometheusSink(jobs=("*",), **options))


def read(shown: LastResults, jobs: dict[str, Any] | None = None) -> list[tuple[str, dict[str, str], float]]:
    text = Exposition([shown], lambda: {"shown": {"jobs": jobs or {}}}).text().decode()
    families = text_string_to_metric_families(text)
    return [(each.name, each.labels, each.value) for family in families for each in family.samples]


async def test_how_sinks_stand_is_exposed_and_unknown_lag_is_not() -> None:
    progress = {"written": 3, "refused": 1, "fenced": 0, "lost": 7, "failures": 2, "lag": None}
    found: dict[str, float] = {name: value for name, _, value in read(sink(), {"shop/top": progress})}
    assert found["elf_sink_written_total"] == 3
    assert found["elf_sink_lost_total"] == 7
    assert "elf_sink_lag" not in found


async def test_the_result_that_is_shown_has_its_number_end_and_shares() -> None:
    shown = sink()
    await shown.write(LOG, item(7, completeness=0.5, fidelity=0.25))
    found = {name: (labels, value) for name, labels, value in read(shown)}
    own: dict[str, str] = {"elf_sink": "shown", "elf_job": "shop/top"}
    assert found["elf_interval_number"] == (own, 7.0)
    assert found["elf_interval_completeness"] == (own, 0.5)
    assert found["elf_interval_fidelity"] == (own, 0.25)
    assert found["elf_interval_end_seconds"] == (own, (START_US + 8_000_000) / 1e6)


def test_sinks_of_other_types_show_how_they_stand_and_no_results() -> None:
    progress = {"written": 1, "refused": 0, "fenced": 0, "lost": 0, "failures": 0, "lag": 4}
    page = Exposition([], lambda: {"files": {"jobs": {"shop/top": progress}}}).text().decode()
    assert 'elf_sink_lag{elf_job="shop/top",elf_sink="files"} 4.0' in page
    assert "elf_interval" not in page
