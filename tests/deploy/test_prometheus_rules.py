"""The rules for Prometheus: each metric, label and bucket exists, and each expression parses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from elfmesh.control.jobs.records import BUCKETS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "elfmesh.rules.yml"
DOCUMENT = ROOT / "docs" / "operations" / "monitoring.md"
ROW = re.compile(r"^\| `(elf_\w+)`(?: by ([\w, ]+))? \| (gauge|counter|histogram) \|", re.M)
NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
HISTOGRAM = ("_bucket", "_sum", "_count")
OF_PROMETHEUS = {"instance", "le"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert [group["name"] for group in groups] == ["elfmesh-recordings", "elfmesh-alerts"]
    return [rule for group in groups for rule in group["rules"]]


def documented() -> dict[str, set[str]]:
    """The labels of each documented metric, as Prometheus has them."""
    found: dict[str, set[str]] = {}
    for name, labels, kind in ROW.findall(DOCUMENT.read_text()):
        names = {"exported_job" if each == "job" else each for each in filter(None, labels.split(", "))}
        for suffix in HISTOGRAM if kind == "histogram" else ("",):
            found[name + suffix] = names | OF_PROMETHEUS
    return found


def series_of(expr: str) -> set[str]:
    """The names of series in an expression, without the values of matchers."""
    words = NAME.findall(re.sub(r'"[^"]*"', "", expr))
    return {word for word in words if word.startswith("elf_") or ":" in word}


def grouped(expr: str) -> set[str]:
    lists = re.findall(r"\bby \(([^)]*)\)", expr)
    return {name.strip() for each in lists for name in each.split(",")}


def unknown(expr: str, recorded: set[str], metrics: dict[str, set[str]]) -> set[str]:
    """Series and labels that no agent reports and no earlier rule records."""
    series = series_of(expr)
    labels = set[str]().union(*(metrics.get(name, set()) for name in series))
    matched = set(re.findall(r"(\w+)\s*[=!]~?\s*\"", expr))
    return {name for name in series - recorded if name not in metrics} | ((grouped(expr) | matched) - labels)


def test_each_series_and_label_of_a_rule_exists() -> None:
    metrics, recorded = documented(), set[str]()
    assert len(metrics) > 50
    for rule in rules():
        assert unknown(rule["expr"], recorded, metrics) == set(), rule
        if "record" in rule:
            recorded.add(rule["record"])
    used = set[str]().union(*(series_of(rule["expr"]) for rule in rules() if "alert" in rule))
    assert used & recorded, "alerts use recordings"


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        ("elf_agent_jobs_slowd > 0", {"elf_agent_jobs_slowd"}),
        ("sum by (jobs) (elf_job_open_bytes)", {"jobs"}),
        ('elf_job_records_total{bucet="shed"}', {"bucet"}),
        ("later:recording > 0", {"later:recording"}),
        ("rate(elf_agent_loop_lag_seconds[5m])", {"elf_agent_loop_lag_seconds"}),
    ],
)
def test_a_misspelt_name_is_found(expr: str, found: set[str]) -> None:
    assert unknown(expr, set(), documented()) == found


def test_each_bucket_of_a_rule_exists() -> None:
    named = {
        bucket
        for rule in rules()
        for values in re.findall(r'bucket=~?"([^"]*)"', rule["expr"])
        for bucket in values.split("|")
    }
    assert named
    assert named <= set(BUCKETS)


def test_each_alert_has_a_severity_and_a_summary_with_labels_that_it_has() -> None:
    metrics = documented()
    expressions = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    alerts = [rule for rule in rules() if "alert" in rule]
    names = [rule["alert"] for rule in alerts]
    assert len(names) == len(set(names)) >= 10
    for rule in alerts:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        (name, *_) = series_of(rule["expr"])
        expr = expressions.get(name, rule["expr"])
        labels = grouped(expr) or metrics[name]
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels, rule


def test_each_expression_parses() -> None:
    parser = pytest.importorskip("promql_parser", reason="promql-parser is not installed (extra dev)")
    for rule in rules():
        parser.parse(rule["expr"])
    with pytest.raises(ValueError, match=r"."):
        parser.parse("sum by (rate(x[5m])")
