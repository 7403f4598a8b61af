"""What `/metrics` says, and that the dashboard and the documents speak of nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from elfmesh.agent.metrics import page
from elfmesh.agent.metrics.page import JOBS_MAX, METRICS, OTHERS, samples_of, write
from elfmesh.api.app import Backend, make_app
from elfmesh.control.jobs.load import INSECURE
from elfmesh.control.jobs.records import BUCKETS
from elfmesh.ingest.timings import BOUNDS_S, NAMES, TIMINGS, Histogram, observe, timed
from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import Traffic

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy/grafana/elfmesh-agents.json"
JOB = """CREATE JOB t.m DEADLINE '300 s' AS SELECT k, count(*) AS n FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
"""No record of it is tentative, however late an agent of a busy machine is."""


def job(cpu_s: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "cpu_seconds": cpu_s,
        "lines": 10,
        "open_bytes": 5,
        "held_bytes": 6,
        "counts": dict.fromkeys(BUCKETS, 2),
        "watermark_seconds": 90.0,
        "held": [],
        **more,
    }


def reported(jobs: dict[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "name": 'we"b\n1',
        "version": "0.1",
        "processor": {},
        "memory": {},
        "frame_log": {"bytes": 7, "limit_bytes": None},
        "skew_seconds": None,
        "waits_for_disk": {"disk_full": 3},
        "transport": {"connections": 2, "messages_out": 5},
        "overlay_stats": {"stage": "joined", "contacts": 4},
        "tree_stats": {},
        "control_stats": {},
        "votes": {"lost": None, "without_majority": []},
        **more,
        "sources": {"log": {"lines": 1, "bytes": 2, "polls": 3, "problems": {"a": "b"}}},
        "job_costs": jobs,
        "security": {"mode": "loopback only"},
    }


def parsed(text: bytes) -> dict[str, list[Any]]:
    return {family.name: family.samples for family in text_string_to_metric_families(text.decode())}


def test_a_master_has_the_worth_of_tentative_records_and_of_standbys() -> None:
    worth = {"tentative": {"t/m": 0.9}, "kept_if_lost": {"t/m": 0.7}}
    found = parsed(write(samples_of(reported({}, **worth), {}, 100.0)))
    for name, value in (("elf_job_tentative_overlap", 0.9), ("elf_job_kept_if_lost", 0.7)):
        (sample,) = found[name]
        assert (sample.labels, sample.value) == ({"job": "t/m"}, value)


def test_a_member_has_the_lag_of_its_standby_and_a_standby_what_it_holds() -> None:
    jobs = {
        "t/m": {"standby": "web4", "lag_seconds": 0.4, "shipped_bytes": 900},
        "t/n": {"standby": None, "lag_seconds": None, "shipped_bytes": 5},
    }
    standbys = {"held_bytes": 700, "limit_bytes": 900, "refused": 3, "jobs": jobs}
    found = parsed(write(samples_of(reported({}, standbys=standbys), {}, 100.0)))
    (lag,) = found["elf_standby_lag_seconds"]
    assert (lag.labels, lag.value) == ({"job": "t/m", "standby": "web4"}, 0.4)
    shipped = {each.labels["job"]: each.value for each in found["elf_standby_shipped_bytes"]}
    assert shipped == {"t/m": 900, "t/n": 5}
    names = ("held_bytes", "limit_bytes", "refused")
    assert [found[f"elf_standby_{name}"][0].value for name in names] == [700, 900, 3]


def test_metrics_hold_the_numbers_that_the_agent_reports() -> None:
    found = parsed(write(samples_of(reported({"t/m": job(held=["memory"])}), {"events": 9}, 100.0)))
    assert found["elf_agent_info"][0].labels == {"agent": 'we"b\n1', "version": "0.1"}
    assert found["elf_job_ingest_lag_seconds"][0].value == 10.0
    assert found["elf_job_waits"][0].value == 1
    assert "elf_job_tentative_overlap" not in found
    assert found["elf_agent_insecure_network"][0].value == 0
    stranger = reported({}) | {"security": {"mode": INSECURE}}
    assert parsed(write(samples_of(stranger, {}, 1.0)))["elf_agent_insecure_network"][0].value == 1
    assert found["elf_agent_queue_length"][0].labels == {"queue": "events"}
    assert found["elf_agent_transport"][0].name == "elf_agent_transport_total"
    assert found["elf_agent_overlay"][0].labels == {"what": "contacts"}, "only numbers"
    assert "elf_agent_clock_skew_seconds" not in found, "what is not known is not said"
    assert "elf_agent_certificate_days" not in found
    sure = reported({}) | {"security": {"mode": "mutual TLS 1.3", "expires": "1970-01-02T12:00:00Z"}}
    assert parsed(write(samples_of(sure, {}, 0.0)))["elf_agent_certificate_days"][0].value == 1.5
    assert len(found["elf_job_records"]) == len(BUCKETS)


def test_violations_of_assume_are_a_bucket_of_the_jobs_that_have_some() -> None:
    broken = job(0.0)
    broken["counts"] = {**broken["counts"], "assumption_broken": 3}
    jobs = {f"t/j{number}": job(1.0) for number in range(JOBS_MAX)} | {"t/x": broken, "t/y": job(0.0)}
    found = parsed(write(samples_of(reported(jobs), {}, 100.0)))["elf_job_records"]
    named = [each for each in found if each.labels["bucket"] == "assumption_broken"]
    assert [(each.labels["job"], each.value) for each in named] == [(OTHERS, 3)]


def test_a_thousand_jobs_are_no_thousand_names() -> None:
    jobs = {f"t/j{number}": job(float(number)) for number in range(JOBS_MAX + 40)}
    found = parsed(write(samples_of(reported(jobs), {}, 100.0)))
    names = {each.labels["job"]: each.value for each in found["elf_job_cpu_seconds"]}
    assert len(names) == JOBS_MAX + 1
    assert names[OTHERS] == sum(range(40))
    assert sum(each.value for each in found["elf_job_lines"]) == 10 * (JOBS_MAX + 40)


def test_histograms_are_cumulative_and_count_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMINGS, "merge", Histogram())
    for seconds in (0.0005, BOUNDS_S[0], 0.3, 99.0, -1.0):
        observe("merge", seconds)
    with pytest.raises(ValueError, match="gone wrong"), timed("merge"):
        raise ValueError("gone wrong")
    found = parsed(write([]))["elf_agent_merge_seconds"]
    buckets = [each.value for each in found if each.name.endswith("_bucket")]
    assert buckets == sorted(buckets)
    assert len(buckets) == len(BOUNDS_S) + 1
    assert buckets[-1] == 6
    assert {each.value for each in found if each.name.endswith("_count")} == {6}


async def test_without_the_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(samples: object) -> bytes:
        raise ImportError

    monkeypatch.setattr(page, "write", missing)
    app = make_app(cast(Backend, None), metrics=page.AgentPage(lambda: reported({}), dict))
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/metrics")
        body = await answer.json()
    assert answer.status == 501
    assert "prometheus-client" in body["error"]
    assert "pip install 'elfmesh[prometheus]'" in body["hint"]


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs/operations/monitoring.md").read_text()
    for name, (kind, what, _) in METRICS.items():
        shown = f"{name}_total" if kind == "counter" else name
        assert re.search(rf"^\| `{shown}`.* \| {kind} \| {re.escape(what)} \|$", text, re.MULTILINE), name
    for name, what in NAMES.items():
        assert f"| `elf_agent_{name}_seconds` | histogram | {what} |" in text, name
    documented = set(re.findall(r"^\| `(elf_(?:agent|job|standby)_\w+)`", text, re.MULTILINE))
    assert len(documented) == len(METRICS) + len(NAMES), "nothing is documented that is not there"


def test_a_live_agent_has_what_the_dashboard_draws(tmp_path: Path) -> None:
    drawn = set(re.findall(r"\belf_(?:agent|job)_\w+", json.dumps(json.loads(DASHBOARD.read_text()))))
    assert len(drawn) > 20
    with Fleet(tmp_path) as fleet:
        fleet.start(2, options=",format=json,idle=300ms")
        fleet.apply(JOB)
        with Traffic(fleet, [0, 1], every_s=0.05):
            counted = re.compile(rb'elf_job_lines_total\{job="t/m"\} [1-9]')
            eventually(lambda: counted.search(scrape(fleet)), what="the job's lines")
            eventually(lambda: b'elf_job_ingest_lag_seconds{job="t/m"' in scrape(fleet), what="the job")
            eventually(lambda: b"elf_agent_clock_skew_seconds" in scrape(fleet), what="a heartbeat")
            text = scrape(fleet)

            def lacks() -> set[str]:
                nonlocal text
                text = scrape(fleet)
                return drawn - {each.name for samples in parsed(text).values() for each in samples}

            eventually(lambda: not lacks(), what="all that is drawn")
    found = parsed(text)
    declared = {*METRICS, *(f"elf_agent_{name}_seconds" for name in NAMES)}
    # There was no tentative record and no standby, and the agents of this fleet have no certificates.
    declared -= {"elf_job_tentative_overlap", "elf_job_kept_if_lost", "elf_agent_certificate_days"}
    declared -= {"elf_standby_lag_seconds", "elf_standby_shipped_bytes"}
    assert set(found) == declared, "what is declared is there, and nothing else"
    lines = {each.labels["job"]: each.value for each in found["elf_job_lines"]}
    assert lines["t/m"] > 0


def scrape(fleet: Fleet) -> bytes:
    return fleet[1].ask("GET", "/metrics")
