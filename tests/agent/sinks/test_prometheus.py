"""Metrics: what Prometheus itself would read, escaped and bounded, of the newest interval only."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from elfmesh.agent.sinks.base import SinkItem
from elfmesh.agent.sinks.config import PrometheusSink
from elfmesh.agent.sinks.metrics import Exposition
from elfmesh.agent.sinks.prometheus import LastResults, samples_of
from tests.agent.sinks.rig import HOSTILE, LOG, Following, Master, item


def sink(**options: Any) -> LastResults:
    return LastResults("shown", PrometheusSink(jobs=("*",), **options))


def read(shown: LastResults, jobs: dict[str, Any] | None = None) -> list[tuple[str, dict[str, str], float]]:
    text = Exposition([shown], lambda: {"shown": {"jobs": jobs or {}}}).text().decode()
    families = text_string_to_metric_families(text)
    return [(each.name, each.labels, each.value) for family in families for each in family.samples]


def results(found: list[tuple[str, dict[str, str], float]]) -> list[tuple[str, dict[str, str], float]]:
    own = ("elf_sink", "elf_job")
    return [
        (name.removeprefix("elf_result_"), {k: v for k, v in labels.items() if k not in own}, value)
        for name, labels, value in found
        if name.startswith("elf_result_")
    ]


async def test_the_newest_interval_is_shown_alone(tmp_path: Path) -> None:
    shown, master = sink(), Master(tmp_path)
    master.append(*(item(index) for index in range(50)))
    async with Following(shown, master, newest=True) as following:
        await following.until(lambda: following.progress.written)
        assert following.progress.written == 1, "what is older is not read"
        master.append(item(51))
        await following.until(lambda: following.progress.written == 2)
        found = read(shown)
        master.incarnation = None
        await following.until(following.task.done)
    assert results(found) == [("hits", {"path": "/0"}, 51), ("hits", {"path": "/1"}, 51)]
    assert ("elf_interval_number", {"elf_sink": "shown", "elf_job": "shop/top"}, 51) in found
    assert ("elf_interval_completeness", {"elf_sink": "shown", "elf_job": "shop/top"}, 1) in found
    assert read(shown) == [], "a job that is gone shows nothing"


async def test_samples_are_made_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return samples_of(*args)

    monkeypatch.setattr("elfmesh.agent.sinks.prometheus.samples_of", noted)
    await sink().write(LOG, item(1))
    assert threading.main_thread() not in threads
    assert len(threads) == 1


async def test_hostile_values_and_names(tmp_path: Path) -> None:
    shown = sink(labels=("whole",))
    await shown.write(LOG, item(1, HOSTILE))
    found = results(read(shown))
    assert {name for name, _, _ in found} == {"number", "exact", "at", "local", "odd__name____"}
    first = next(each for each in found if each[0] == "number")
    assert first[1]["text"] == "NUL \x00, quote ' \" \\ \n ⌘"
    assert first[1]["whole"] == "9223372036854775807"
    assert first[1]["flag"] == "true"
    assert math.isnan(first[2])
    assert not any("x" * 2000 in labels.get("text", "") for _, labels, _ in found)
    assert shown.describe()["series_left_out"] == 5, "the long text's row"


def test_samples_are_bounded_and_the_rest_is_counted() -> None:
    table = pa.table({"k": [str(n) for n in range(500)], "a": range(500), "b": range(500)})
    samples, left_out = samples_of(item(1, table), PrometheusSink(jobs=("*",), series_max=100))
    assert (len(samples), left_out) == (100, 900)


ODD = ["elf_job", "elf_sink", "__name__", "a.b", "a_b", "1"]
NAMES = st.text(min_size=0, max_size=8) | st.sampled_from(ODD)


@given(
    st.lists(NAMES, min_size=1, max_size=6, unique=True),
    st.lists(st.lists(st.none() | st.text(max_size=5), min_size=3, max_size=3), min_size=1, max_size=5),
)
def test_whatever_columns_are_called_prometheus_can_read_it(names: list[str], texts: list[Any]) -> None:
    columns: dict[str, Any] = {}
    for number, name in enumerate(names):
        values = [row[number % 3] for row in texts]
        columns[name] = pa.array(values, pa.string()) if number % 2 else pa.array(range(len(texts)))
    shown = sink()
    each = item(1, pa.table(columns))
    samples, left_out = samples_of(each, PrometheusSink(jobs=("*",)))
    shown._shown[LOG] = type("S", (), {"log": LOG, "record": each.record, "samples": samples})()
    found = read(shown)
    keys = [(name, tuple(sorted(labels.items()))) for name, labels, _ in found]
    assert len(keys) == len(set(keys)), "no series twice"
    assert len(results(found)) == len(samples)
    assert len(samples) + left_out == len(texts) * ((len(names) + 1) // 2)


def test_an_interval_without_rows_shows_no_series() -> None:
    assert samples_of(SinkItem(item(1).record, b""), PrometheusSink(jobs=("*",))) == ((), 0)
