"""The supervisor of streaming queries: what it starts again, how often, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.spark_bridge.supervisor import RESTARTS_MAX, Supervised

SLOW = (
    "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
)


class Query:
    def __init__(self, failure: str) -> None:
        self.failure = failure

    def exception(self) -> Exception | None:
        return RuntimeError(self.failure) if self.failure else None

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802 - the name that Spark gives it
        if self.failure:
            raise RuntimeError(self.failure)
        return timeout_s > 0


def supervised(*failures: str) -> Supervised:
    """A query that fails so at each start, and so at all later ones as at the last."""
    left = list(failures)
    return Supervised(lambda: Query(left.pop(0) if len(left) > 1 else left[0]))


def test_a_query_whose_worker_was_slow_is_started_again() -> None:
    query = supervised(SLOW, SLOW, "")
    assert query.awaitTermination(1.0)
    assert query.restarts == 2


def test_a_look_at_the_exception_starts_it_again_too() -> None:
    query = supervised(SLOW, "")
    assert query.exception() is None
    assert query.exception() is None
    assert query.restarts == 1


def test_restarts_are_bounded() -> None:
    query = supervised(SLOW)
    with pytest.raises(RuntimeError, match="failed to connect back"):
        query.awaitTermination(1.0)
    assert query.restarts == RESTARTS_MAX
    assert "failed to connect back" in str(query.exception())


def test_every_other_failure_is_the_tests_to_judge() -> None:
    query = supervised("ELF_JOB_RECREATED: job 'shop/top' was deleted and created again", "")
    assert "ELF_JOB_RECREATED" in str(query.exception())
    with pytest.raises(RuntimeError, match="ELF_JOB_RECREATED"):
        query.awaitTermination(1.0)
    assert query.restarts == 0
