"""The parameters of a route as the record of its verb declares them."""

from __future__ import annotations

import pytest

from elfmesh.api.web.parameters import parameters
from elfmesh.control.requests.verbs import VERBS
from elfmesh.errors import UsageError

RESULTS = VERBS["results"].request


@pytest.mark.parametrize(
    ("text", "wait_s"), [("0", 0.0), ("-3", 0.0), ("2.5", 2.5), ("1000", 30.0), ("inf", 30.0)]
)
def test_a_wait_is_between_none_and_the_longest_poll(text: str, wait_s: float) -> None:
    assert parameters(RESULTS, {"wait": text})["wait"] == wait_s


@pytest.mark.parametrize("text", ["nan", "NaN", "soon", ""])
def test_a_wait_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number"):
        parameters(RESULTS, {"wait": text})
