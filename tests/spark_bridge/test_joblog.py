from __future__ import annotations

import threading
from typing import Any

import pytest

from elfmesh import spark_bridge
from elfmesh.errors import ElfError, RuntimeFailure, Unreachable, UsageError
from elfmesh.spark_bridge import joblog
from elfmesh.spark_bridge.joblog import JobLog
from tests.ports import reserve

spark_only = [pytest.mark.spark]


def test_an_unknown_job_is_named(agent: Any) -> None:
    with pytest.raises(RuntimeFailure, match=r"^ELF_JOB_UNKNOWN: no job 'shop/nope' runs on this overlay"):
        JobLog.of("shop/nope", agent.api).ddl()


def test_rows_of_another_job_of_the_same_name_are_refused(agent: Any) -> None:
    agent.create("shop/top")
    agent.publish("shop/top", [("a", 0)])
    log = JobLog.of("shop/top", agent.api)
    planned = log.offsets().incarnation
    assert [batch.num_rows for batch in log.batches(-1, 0, incarnation=planned)] == [1]
    agent.create("shop/top", incarnation="b2")
    agent.publish("shop/top", [("other", 0)])
    with pytest.raises(RuntimeFailure, match=r"^ELF_JOB_RECREATED: .*\(incarnation a1, now b2\)"):
        list(log.batches(-1, 0, incarnation=planned))


def test_no_agent_is_exit_code_69_and_the_error_names_the_address() -> None:
    address = f"127.0.0.1:{reserve()}"
    with pytest.raises(Unreachable, match=f"^ELF_UNREACHABLE: no agent answers at {address}") as caught:
        JobLog.of("shop/top", address).offsets()
    assert caught.value.exit_code == 69


def test_silent_agents_are_passed_over_and_one_without_a_master_is_waited_for(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.create("shop/top")
    log = JobLog.of("shop/top", f"127.0.0.1:{reserve()}, {agent.api}")
    assert log.offsets().latest == -1
    agent.broken = True
    healed = threading.Timer(1.5, setattr, (agent, "broken", False))  # as while a master is replaced
    healed.start()
    assert log.offsets().latest == -1
    healed.join()
    agent.broken = True
    monkeypatch.setattr(joblog, "PATIENCE_S", 0.5)
    with pytest.raises(Unreachable, match="the overlay has no quorum"):
        log.offsets()


def test_intervals_gone_are_named(agent: Any) -> None:
    agent.create("shop/top", first=3)
    for clicks in range(3):
        agent.publish("shop/top", [("a", clicks)])
    agent.expire("shop/top", 4)
    with pytest.raises(
        RuntimeFailure, match=r"^ELF_INTERVALS_EXPIRED: job 'shop/top' no longer holds interval 3"
    ):
        list(JobLog.of("shop/top", agent.api).batches(2, 5))


def test_intervals_lost_are_named(agent: Any) -> None:
    agent.create("shop/top", first=3)
    agent.publish("shop/top", [("a", 1)])
    agent.lose("shop/top", 4)
    with pytest.raises(RuntimeFailure, match=r"^ELF_INTERVALS_LOST: job 'shop/top': interval 4 is lost"):
        list(JobLog.of("shop/top", agent.api).batches(2, 5))


def test_options_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELF_API", raising=False)
    with pytest.raises(UsageError, match="ELF_BAD_OPTION: '' is not the name of a job"):
        JobLog.of("", "127.0.0.1:1")
    assert JobLog.of("top", None).addresses == ("127.0.0.1:7401",)
    with pytest.raises(UsageError, match="'nonsense' is not HOST:PORT"):
        JobLog.of("top", "nonsense")
    monkeypatch.setenv("ELF_API", "127.0.0.1:7411")
    assert JobLog.of("top", None) == JobLog(("127.0.0.1:7411",), "default", "top")
    assert JobLog.of("shop.top", None).job == JobLog.of("shop/top", None).job == "shop/top"


def test_a_job_without_a_result_is_waited_for_and_then_named(agent: Any) -> None:
    agent.create("shop/top")
    log = JobLog.of("shop/top", agent.api)
    with pytest.raises(RuntimeFailure, match=r"^ELF_NO_RESULT_YET: job 'shop/top' has no result yet"):
        log.ddl(wait_s=0.2)
    later = threading.Timer(0.2, agent.publish, ("shop/top", [("a", 1)]))
    later.start()
    assert "clicks BIGINT" in log.ddl(wait_s=20)
    later.join()


def test_an_answer_that_breaks_off_is_no_short_answer(agent: Any) -> None:
    agent.create("shop/top")
    for _ in range(3):
        agent.publish("shop/top", [(f"p{i}", i) for i in range(2_000)])
    log = JobLog.of("shop/top", agent.api)
    assert sum(batch.num_rows for batch in log.batches(-1, 2)) == 6_000
    agent.breaks_off = True
    with pytest.raises(
        Unreachable, match=r"^ELF_UNREACHABLE: the results of job 'shop/top' broke off within"
    ):
        list(log.batches(-1, 2))
    with pytest.raises(Unreachable, match=r"^ELF_UNREACHABLE: the answer to offsets broke off"):
        log.offsets()


class TestThroughSpark:
    pytestmark = spark_only

    def test_results_fails_before_spark_is_bothered(self, agent: Any, spark: Any) -> None:
        with pytest.raises(ElfError, match=r"^ELF_JOB_UNKNOWN"):
            spark_bridge.results(spark, "shop/nope", api=agent.api)

    def test_the_first_sentence_reaches_the_user_of_the_format(self, agent: Any, spark: Any) -> None:
        def reader(job: str, **options: str) -> Any:
            reads = spark.read.format("elf").option("api", agent.api).option("job", job)
            return reads.options(**options).load()

        with pytest.raises(Exception, match=r"ELF_JOB_UNKNOWN: no job 'shop/nope'"):
            reader("shop/nope")
        agent.create("shop/top", first=3)
        agent.publish("shop/top", [("a", 1)])
        agent.publish("shop/top", [("a", 1)])
        agent.expire("shop/top", 4)
        with pytest.raises(
            Exception, match=r"ELF_INTERVALS_EXPIRED: job 'shop/top' no longer holds interval 3"
        ):
            reader("shop/top", startingInterval="3").collect()
        with pytest.raises(Exception, match=r"ELF_BAD_OPTION: state='open' is none of final, all"):
            reader("shop/top", state="open").collect()
        with pytest.raises(Exception, match=r"ELF_BAD_OPTION: numPartitions='0' must be at least 1"):
            reader("shop/top", numPartitions="0").collect()

    def test_a_column_named_like_the_intervals_own_is_refused(self, agent: Any, spark: Any) -> None:
        agent.create("shop/top", "State STRING, clicks BIGINT")
        agent.publish("shop/top", [("a", 1)])
        with pytest.raises(
            ElfError,
            match=r"^ELF_SCHEMA_MISMATCH: two columns of the results of job 'shop/top' are called 'state'",
        ):
            spark_bridge.results(spark, "shop/top", api=agent.api)
