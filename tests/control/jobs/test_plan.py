"""What the control plane reads in a job's text, and the texts that no job can have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.control.jobs.manifest import TEXT_BYTES_MAX
from elfmesh.control.jobs.plan import (
    PARTITIONS_MAX,
    check_columns,
    check_result_columns,
    has_no_members,
    read_job,
    read_plan,
    reads_jobs,
)
from elfmesh.errors import QueryError
from elfmesh.ql.plan.fidelity_shape import ONE_INPUT
from tests.control.member.support import SECOND, SESSIONS, TEXT

READER = (
    "CREATE JOB shop.best EVERY '30 s' AS SELECT product, max(hits) AS best FROM shop.top GROUP BY product"
)
BESIDE = """CREATE JOB shop.growth EVERY '10 s' AS SELECT c.product, count(*) AS hits
FROM clicks c LEFT JOIN LATEST shop.top l ON c.product = l.product GROUP BY c.product"""
LABELLED = TEXT.replace("FROM clicks", "FROM clicks ON (zone = 'a')")


def test_a_plan_has_the_rules_of_the_text() -> None:
    text = """CREATE JOB shop.top PARTITIONS 4 REPLICAS 2 LATENESS '5 s' DEADLINE '1500 ms' HORIZON '2 min'
    ON STRAGGLER CORRECT AS SELECT product, COUNT(*) AS hits FROM clicks
    GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND), product"""
    job, plan = read_job(text)
    assert (job.namespace, job.name, job.partitions) == ("shop", "top", 4)
    assert (plan.slide_us, plan.size_us) == (10 * SECOND, 30 * SECOND)
    assert (plan.deadline_s, plan.horizon_s, plan.on_straggler) == (1.5, 120.0, "correct")
    assert (plan.replicas, plan.lateness_us, plan.columns) == (2, 5 * SECOND, ("product", "hits"))
    assert (plan.streams, plan.jobs, plan.spans, plan.shape) == (("clicks",), (), "", ONE_INPUT)


def test_a_plan_without_rules_has_the_defaults() -> None:
    plan = read_plan(TEXT)
    assert (plan.horizon_s, plan.replicas, plan.lookups, plan.functions) == (None, 0, (), False)


@pytest.mark.parametrize(
    ("text", "streams", "reads", "latest", "jobs"),
    [
        (TEXT, ("clicks",), (), (), ()),
        (SESSIONS, ("clicks",), (), (), ()),
        (READER, (), ("shop/top",), (), ("shop/top",)),
        (BESIDE, ("clicks",), (), ("latest shop/top",), ("shop/top",)),
    ],
)
def test_a_job_reads_streams_or_jobs_or_streams_beside_jobs(
    text: str,
    streams: tuple[str, ...],
    reads: tuple[str, ...],
    latest: tuple[str, ...],
    jobs: tuple[str, ...],
) -> None:
    plan = read_plan(text)
    assert (plan.streams, plan.reads, plan.latest, plan.jobs) == (streams, reads, latest, jobs)
    assert plan.spans == ("SESSION" if text is SESSIONS else "")
    assert reads_jobs(text) is bool(jobs)
    assert has_no_members(text) is bool(reads)


def test_a_text_that_cannot_be_read_reads_no_job() -> None:
    assert not reads_jobs("CREATE JOB")
    assert not has_no_members("CREATE JOB")


@pytest.mark.parametrize(("interval", "window"), [(0, (0, 30)), (2, (20, 50)), (-1, (-10, 20))])
def test_an_interval_has_a_window_from_its_slide_on(interval: int, window: tuple[int, int]) -> None:
    hop = "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)"
    plan = read_plan(f"CREATE JOB a AS SELECT COUNT(*) AS n FROM s GROUP BY {hop}")
    assert plan.window(interval) == tuple(each * SECOND for each in window)


@pytest.mark.parametrize(
    ("end_us", "first"), [(0, 0), (1, 1), (10 * SECOND, 1), (10 * SECOND + 1, 2), (-1, 0)]
)
def test_the_first_interval_after_a_time_begins_there_or_later(end_us: int, first: int) -> None:
    assert read_plan(TEXT).first_after(end_us) == first


@pytest.mark.parametrize(
    ("streams", "labels", "read"),
    [
        (["clicks"], {"zone": "a"}, ("clicks",)),
        (["clicks", "logs"], {"zone": "a", "disk": "ssd"}, ("clicks",)),
        (["clicks"], {"zone": "b"}, ()),
        (["clicks"], {}, ()),
        (["logs"], {"zone": "a"}, ()),
    ],
)
def test_an_agent_takes_part_with_the_stream_and_the_labels_of_the_text(
    streams: list[str], labels: dict[str, str], read: tuple[str, ...]
) -> None:
    assert read_plan(LABELLED).read_at(streams, labels) == read


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT COUNT(*) AS n FROM clicks", "a job needs a name"),
        ("x" * (TEXT_BYTES_MAX + 1), f"longer than {TEXT_BYTES_MAX} bytes"),
        ("é" * (TEXT_BYTES_MAX // 2 + 1), f"longer than {TEXT_BYTES_MAX} bytes"),
        (TEXT.replace("DEADLINE", f"PARTITIONS {PARTITIONS_MAX + 1} DEADLINE"), f"1 to {PARTITIONS_MAX}"),
        (READER.replace("shop.best", "shop.top"), "cannot read its own results"),
        (BESIDE.replace("shop.growth", "shop.top"), "cannot read its own results"),
        (
            "CREATE JOB shop.best EVERY '30 s' AS SELECT t.product FROM shop.top t JOIN clicks c"
            " ON t.product = c.product",
            "reads streams or other jobs, not both",
        ),
        (READER.replace("EVERY", "PARTITIONS 2 EVERY"), "PARTITIONS and REPLICAS are for jobs"),
        (READER.replace("EVERY", "REPLICAS 1 EVERY"), "PARTITIONS and REPLICAS are for jobs"),
        (READER.replace("EVERY", "ON STRAGGLER SKIP EVERY"), "ON STRAGGLER SKIP is for jobs"),
    ],
)
def test_a_text_that_no_job_can_have_is_refused(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        read_job(text)


def test_paths_and_the_label_of_its_groups_are_part_of_the_plan() -> None:
    found = [
        read_job(TEXT.replace("DEADLINE", f"{clause} DEADLINE"))[1]
        for clause in ("", "PATHS 1", "PATHS 1 ACROSS rack", "paths 1 across Region")
    ]
    assert [(plan.paths, plan.across) for plan in found] == [(0, ""), (1, ""), (1, "rack"), (1, "region")]


@pytest.mark.parametrize("partitions", [1, PARTITIONS_MAX])
def test_a_job_has_one_tree_or_as_many_as_members_can_serve(partitions: int) -> None:
    assert read_job(TEXT.replace("DEADLINE", f"PARTITIONS {partitions} DEADLINE"))[0].partitions == partitions


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([("ts", pa.timestamp("us", "UTC")), ("product", pa.string())], ""),
        ([("ts", pa.timestamp("us", "UTC"))], "product"),
        (None, ""),
    ],
)
def test_a_stream_serves_a_job_when_it_has_its_fields(
    fields: list[tuple[str, pa.DataType]] | None, problem: str
) -> None:
    schema = None if fields is None else pa.schema(fields)
    found = check_columns(TEXT, schema, "clicks")
    assert problem in found
    assert bool(found) == bool(problem)


def test_a_constant_that_no_value_can_equal_is_refused_of_new_jobs_only() -> None:
    text = TEXT.replace("GROUP BY", "WHERE code = 'abc' GROUP BY")
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("product", pa.string()), ("code", pa.int64())])
    assert check_columns(text, schema, "clicks") == ""
    assert check_columns(text, schema, "clicks", is_new=True) != ""


@pytest.mark.parametrize(("columns", "passes"), [(["product", "hits"], True), (["product"], False)])
def test_a_reader_is_refused_fields_that_the_results_do_not_have(columns: list[str], passes: bool) -> None:
    statement = ql.parse(READER)
    if passes:
        check_result_columns(statement, "shop/top", columns)
    else:
        with pytest.raises(QueryError, match="hits"):
            check_result_columns(statement, "shop/top", columns)
