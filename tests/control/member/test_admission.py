"""Which versions an agent takes part in, why it refuses others, and which incarnations have ended."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.policy import OPEN, Grant, Policy
from elfmesh.control.jobs.terms import Gateway, PathLayout, Terms
from elfmesh.control.member import admission as under_test
from elfmesh.control.member.admission import KIND, JobAdmission
from elfmesh.control.protocol.events import LocalStreams, Persist, StreamInfo
from elfmesh.errors import QueryError
from elfmesh.machine import Effect
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, A, B

LEASED = replace(MANIFEST, leased=True)


class Rig:
    """An agent with the stream of the job."""

    def __init__(self, policy: Policy = OPEN, schema: pa.Schema | None = None, **labels: str) -> None:
        self.context = new_context(1)
        self.context.policy = policy
        self.admission = JobAdmission(self.context)
        stream = StreamInfo.of("clicks", "json", schema)
        self.admission.carries(LocalStreams((stream,), tuple(sorted(labels.items()))))

    def error(self, manifest: Manifest = MANIFEST) -> str:
        return self.admission.error(manifest, read_plan(manifest.text))

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out


def test_an_agent_has_the_streams_that_it_was_given_last() -> None:
    rig = Rig()
    assert rig.admission.stream_ids == {ids.stream_id("clicks")}
    rig.admission.carries(LocalStreams((StreamInfo.of("logs", "json", None),), (("zone", "a"),)))
    assert (list(rig.admission.streams), rig.admission.labels) == (["logs"], {"zone": "a"})


@pytest.mark.parametrize(("zone", "meant"), [("a", True), ("b", False)])
def test_a_version_is_meant_for_agents_with_its_stream_and_its_labels(zone: str, meant: bool) -> None:
    narrowed = replace(MANIFEST, narrowed=(("zone", "a"),))
    assert Rig(zone=zone).admission.is_meant(narrowed) is meant
    assert not Rig().admission.is_meant(replace(MANIFEST, text=MANIFEST.text.replace("clicks", "logs")))


def test_whether_a_text_that_cannot_be_read_is_meant_is_not_known() -> None:
    with pytest.raises(QueryError):
        Rig().admission.is_meant(replace(MANIFEST, text="CREATE JOB"))


def test_a_version_is_refused_whose_columns_the_stream_lacks() -> None:
    assert Rig().error() == ""
    assert "product" in Rig(schema=pa.schema([("ts", pa.timestamp("us", "UTC"))])).error()


@pytest.mark.parametrize(
    ("manifest", "policy", "others", "error"),
    [
        (MANIFEST, OPEN, [MANIFEST] * 3, ""),
        (MANIFEST, OPEN, [MANIFEST] * 4, "works on 4 jobs already"),
        (LEASED, Policy(queries=1), [MANIFEST], ""),
        (LEASED, Policy(queries=1), [LEASED], "works on 1 queries already"),
        (MANIFEST, Policy(namespaces={"shop": Grant(jobs=1)}), [MANIFEST], "works on 1 jobs of shop already"),
        (MANIFEST, Policy(namespaces={"shop": Grant()}), [MANIFEST], ""),
    ],
)
def test_an_agent_has_room_for_a_limited_number_of_jobs(
    manifest: Manifest, policy: Policy, others: list[Manifest], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "JOBS_MAX", 4)
    found = Rig(policy).admission.no_room(manifest, others)
    assert error in found
    assert bool(found) is bool(error)


def test_an_incarnation_that_ended_is_on_disk_once() -> None:
    rig = Rig()
    for _ in range(2):
        rig.admission.stop(JOB, "i")
        rig.admission.end(JOB, "i")
    assert rig.out() == [Persist(KIND, JOB, b"i")]
    assert rig.admission.has_ended(JOB, "i")
    assert not rig.admission.has_ended(JOB, "j")


def test_a_job_leaves_the_disk_with_its_last_incarnation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "STOPPED_MAX", 2)
    rig = Rig()
    for job, incarnation in ((b"1" * 20, "i"), (b"1" * 20, "j"), (b"2" * 20, "i")):
        rig.admission.end(job, incarnation)
    assert rig.out() == [], "another incarnation of the first job is known"
    rig.admission.end(b"3" * 20, "i")
    assert rig.out() == [Persist(KIND, b"1" * 20, b"")]


@pytest.mark.parametrize(
    ("region", "partitions", "paths", "gateway", "excluded"),
    [
        ("eu", 1, 0, "", ""),
        ("us", 1, 0, "", "the master"),
        ("", 1, 0, "", "the master"),
        ("eu", 2, 0, "", "the roots of PARTITIONS, which only PATHS places"),
        ("eu", 2, 1, "", ""),
        ("eu", 2, 1, "eu", ""),
        ("eu", 1, 1, "us", "the gateway of eu"),
    ],
)
def test_a_rule_excludes_agents_that_would_get_data_of_this_host(
    region: str, partitions: int, paths: int, gateway: str, excluded: str
) -> None:
    rig = Rig(Policy(keep_in=(("region=eu",),)))
    rig.context.me = replace(rig.context.me, region="eu")
    text = MANIFEST.text.replace(" AS", f" PATHS {paths} AS", 1) if paths else MANIFEST.text
    manifest = replace(MANIFEST, text=text, partitions=partitions)
    master = replace(A, region=region)
    layout = PathLayout("region", (Gateway("eu", replace(B, region=gateway)),))
    terms = Terms(manifest=manifest, master=master, epoch=1, layout=layout) if gateway else None
    rule = rig.context.policy.keep_in if excluded else ()
    assert rig.admission.excluded(manifest, master, terms) == (rule, excluded)
    assert Rig().admission.excluded(manifest, master, terms) == ((), "")


def test_a_rule_excludes_the_roots_of_partitions_while_a_job_with_paths_has_no_layout() -> None:
    """One group without labels has no gateway, whatever the text says."""
    rig = Rig(Policy(keep_in=(("region=eu",),)))
    manifest = replace(MANIFEST, text=MANIFEST.text.replace(" AS", " PATHS 1 AS", 1), partitions=2)
    terms = Terms(manifest=manifest, master=replace(A, region="eu"), epoch=1)
    assert rig.admission.excluded(manifest, terms.master, terms)[1] != ""


def test_a_query_over_the_limit_is_excluded_before_it_begins_and_not_afterwards() -> None:
    rig = Rig(Policy(query_bytes=99))
    rig.context.facts = lambda topic, *about: {"clicks": {"files": 1, "bytes": 100}}
    why = "it would read 100 B, and its limits.query_bytes allows 99 B"
    assert rig.admission.excluded(LEASED, A, None) == ((), why)
    assert rig.admission.excluded(LEASED, A, Terms(manifest=LEASED, master=A, epoch=1)) == ((), "")
    assert rig.admission.excluded(MANIFEST, A, None) == ((), "")
