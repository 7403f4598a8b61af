"""Logs that others collected, in formats that are ours too: told, read, and as a third party read them."""

from __future__ import annotations

import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.sniff import sniff
from tests.tooling.shared_data import DATA

LNAV = DATA / "lnav"

LNAV_FORMATS = {
    "logfile_access_log.0": "combined",
    "logfile_access_log.1": "combined",
    "logfile_glog.0": "glog",
    "logfile_syslog.0": "syslog",
    "logfile_syslog.1": "syslog",
    "logfile_syslog.2": "syslog",
    "logfile_syslog_with_mixed_times.0": "syslog",
    "logfile_for_join.0": "syslog",
    "logfile_haproxy.0": "syslog",
    "logfile_w3c.0": "w3c",
    "logfile_w3c.1": "w3c",
    "logfile_w3c.2": "w3c",
    "logfile_w3c.3": "w3c",
    "logfile_w3c.4": "w3c",
    "logfile_journald.json": "journald",
    "logfile_json.json": "json",
    "logfile_logfmt.0": "logfmt",
}


@pytest.mark.skipif(not LNAV.is_dir(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize("name", LNAV_FORMATS)
def test_logs_of_lnav_are_recognised_and_read(name: str) -> None:
    data = (LNAV / name).read_bytes()
    assert sniff(data) == LNAV_FORMATS[name]
    parsed = StreamFormat("auto").parser("f").parse(data, ["ts", "_raw"])
    assert parsed.rows
    assert parsed.errors <= parsed.lines // 3, parsed.samples
    assert parsed.arrays["ts"].null_count <= parsed.rows // 3


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize(
    ("name", "spec"), [("Linux", "syslog"), ("OpenSSH", "syslog"), ("Apache", "apache_error")]
)
def test_system_logs_agree_with_their_third_party_parse(name: str, spec: str) -> None:
    import csv

    log = DATA / f"system_logs/{name}_2k.log"
    with (DATA / f"system_logs/{name}_2k.log_structured.csv").open() as file:
        expected = [row["Content"].strip() for row in csv.DictReader(file)]
    parsed = (
        StreamFormat(spec, clock=LocalClock(year=2005)).parser("f").parse(log.read_bytes(), ["ts", "message"])
    )
    assert parsed.errors == 0
    assert parsed.arrays["ts"].null_count == 0
    found = [(text or "").strip() for text in parsed.arrays["message"].to_pylist()]
    assert sum(bool(a) and b.endswith(a) for a, b in zip(found, expected, strict=True)) >= 0.99 * len(
        expected
    )
