from __future__ import annotations

from collections.abc import Mapping

from elfmesh.ingest.budget.watchdog import CALM, CORES_MIN, WINDOW, Cost, ThrottleOrder, Watchdog


class Jobs:
    """Jobs that use the processor at steady rates, before a watchdog of an agent with one core."""

    def __init__(self, rates: Mapping[str, float], sheds: tuple[str, ...] = ()) -> None:
        self.rates, self.sheds = dict(rates), sheds
        self._used = dict.fromkeys(rates, 0.0)
        self.dog = Watchdog(1.0, 0.5)

    def seconds(self, count: int, waited: float) -> list[ThrottleOrder]:
        reported = []
        for _ in range(count):
            for job, rate in self.rates.items():
                self._used[job] = self._used.get(job, 0.0) + rate
            costs = {job: Cost(self._used[job], job in self.sheds) for job in self.rates}
            verdict = self.dog.observe(waited, costs)
            reported += [verdict] if verdict else []
        return reported


def test_the_job_that_costs_most_is_slowed_down_first() -> None:
    jobs = Jobs({"a": 0.1, "bad": 0.8, "b": 0.1})
    (verdict,) = jobs.seconds(WINDOW, waited=0.9)
    assert (verdict.job, verdict.cores) == ("bad", 0.5)
    assert abs(verdict.used_cores - 0.8) < 1e-9


def test_a_burst_is_no_overload() -> None:
    jobs = Jobs({"a": 0.1, "bad": 0.8})
    assert jobs.seconds(WINDOW - 1, waited=0.0) == []
    assert jobs.seconds(1, waited=1.0) == []


def test_equal_jobs_that_lose_nothing_wait_together() -> None:
    assert Jobs({"a": 0.5, "b": 0.5}).seconds(60, waited=1.0) == []
    assert Jobs({"only": 1.0}).seconds(60, waited=1.0) == []


def test_of_streams_that_shed_the_worst_sheds_even_alone() -> None:
    (verdict,) = Jobs({"only": 1.0}, sheds=("only",)).seconds(WINDOW, waited=1.0)
    assert verdict == ThrottleOrder("only", 0.5, 1.0)


def test_what_was_not_enough_is_halved_down_to_a_floor() -> None:
    jobs = Jobs({"a": 0.1, "bad": 0.8})
    given = [verdict.cores for verdict in jobs.seconds(15 * WINDOW, waited=1.0)]
    assert given[:3] == [0.5, 0.25, 0.125]
    assert given[-1] == CORES_MIN


def test_the_last_one_slowed_down_is_let_go_first_and_later_if_it_was_soon_back() -> None:
    jobs = Jobs({"a": 0.05, "bad": 0.8, "worse": 2.0})
    assert [each.job for each in jobs.seconds(WINDOW, waited=1.0)] == ["worse"]
    jobs.rates["worse"] = 0.2
    assert [each.job for each in jobs.seconds(WINDOW, waited=1.0)] == ["bad"]
    released = jobs.seconds(WINDOW + 2 * CALM, waited=0.0)
    assert released == [ThrottleOrder("bad", None), ThrottleOrder("worse", None)]
    jobs.seconds(2, waited=1.0)  # of the last five: overload
    assert list(jobs.dog.slowed) == ["bad"]
    assert jobs.seconds(WINDOW - 1 + 2 * CALM - 1, waited=0.0) == []
    assert jobs.seconds(1, waited=0.0) == [ThrottleOrder("bad", None)]


def test_a_job_that_is_gone_is_forgotten() -> None:
    jobs = Jobs({"a": 0.1, "bad": 0.8})
    jobs.seconds(WINDOW, waited=1.0)
    del jobs.rates["bad"]
    jobs.seconds(1, waited=0.0)
    assert jobs.dog.slowed == {}
