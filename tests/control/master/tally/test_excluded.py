"""What a master counts and shows of its job, besides results."""

from __future__ import annotations

from elfmesh.control.master.tally import EXCLUDED_MAX, EXCLUDED_S, SAMPLES_MAX, Tally
from elfmesh.control.protocol.messages import Report
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.protocol.replies import RefusingAgent

JOB = b"j" * 20
EXCLUDED = Excluded(JOB, "i", "web1", (("region=eu", "region=uk"),), "the master")
TEXT = "web1 takes no part: its keep_in, region=eu or region=uk, excludes the master"


def test_the_newest_samples_of_bad_lines_are_kept_and_errors_are_those_of_members() -> None:
    tally = Tally()
    for number in range(SAMPLES_MAX + 1):
        tally.on_report(Report(JOB, "web1", (f"line {number}",), "no memory"), is_member=number > 0)
    assert list(tally.samples) == [f"web1: line {number}" for number in range(1, SAMPLES_MAX + 1)]
    assert tally.worker_errors == {"web1": "no memory"}
    tally.on_report(Report(JOB, "web1", ()), is_member=True)
    assert tally.worker_errors == {}


def test_an_excluded_host_is_named_while_its_messages_come_and_until_it_takes_part() -> None:
    tally = Tally()
    tally.on_excluded(b"1", EXCLUDED, 5.0)
    assert tally.excluded(5.0 + EXCLUDED_S) == [TEXT]
    assert tally.excluded(5.1 + EXCLUDED_S) == []
    tally.on_excluded(b"1", EXCLUDED, 100.0)
    tally.on_member(b"1")
    tally.on_member(b"2")
    assert tally.excluded(100.0) == []


def test_a_host_that_refuses_because_of_a_limit_is_named_with_its_reason() -> None:
    tally = Tally()
    tally.on_excluded(b"1", EXCLUDED, 5.0)
    tally.on_excluded(b"2", Excluded(JOB, "i", "web2", (), "it would read too much"), 5.0)
    assert tally.excluded(5.0) == [TEXT, "web2 takes no part: it would read too much"]
    assert tally.refused(5.0) == [RefusingAgent("web2", "32", "it would read too much")]
    assert tally.refused(5.1 + EXCLUDED_S) == []


def test_few_enough_excluded_hosts_are_kept() -> None:
    tally = Tally()
    for number in range(EXCLUDED_MAX + 1):
        tally.on_excluded(number.to_bytes(2), EXCLUDED, 0.0)
    assert len(tally.excluded(0.0)) == EXCLUDED_MAX
