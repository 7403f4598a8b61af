"""ELF (USENIX ATC 2014), section 4.3 and Figure 12c: balance of the roots."""

from __future__ import annotations

import random

import pytest

from tests.control.placement_rule import by_the_rule


@pytest.mark.parametrize(("jobs", "fewer"), [(500, 3), (1000, 5), (2000, 5)])
def test_the_balance_of_figure_12c_holds_as_it_is_worded(jobs: int, fewer: int) -> None:
    """Of 1,000 agents "99.5% [...] are the roots of less than 3 trees when there are 500 SRTs total", less
    than 5 of 1,000, "and 95% [...] less than 5 trees when there are 2000 SRTs total"."""
    share = 0.95 if jobs == 2000 else 0.995
    rng = random.Random(jobs)
    led = by_the_rule([rng.randbytes(20) for _ in range(1000)], [f"shop/job{n}" for n in range(jobs)])
    assert sum(led.values()) == jobs
    assert sum(count < fewer for count in led.values()) >= share * 1000
