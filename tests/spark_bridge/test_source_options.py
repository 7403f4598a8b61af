"""The options of the data source: their defaults, their errors, and the ranges of a read."""

from __future__ import annotations

import pytest

from elfmesh.errors import ConfigError

pytest.importorskip("pyspark.sql.datasource", reason="needs pyspark")

from elfmesh.spark_bridge.source_options import LONG_POLL_S, NAMES, Options, check_names, seconds, word


def options(**given: str) -> Options:
    return Options.of(given, "latest", agents=2)


def test_a_reader_without_options_has_a_task_for_each_agent() -> None:
    assert options() == Options("latest", None, None, 2, LONG_POLL_S)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingInterval": "newest"}, "startingInterval='newest' is not a whole number"),
        ({"endInterval": "x"}, "endInterval='x' is not a whole number"),
        ({"maxIntervalsPerTrigger": "0"}, "maxIntervalsPerTrigger='0' must be at least 1"),
        ({"numPartitions": "-1"}, "numPartitions='-1' must be at least 1"),
        ({"longPoll": "soon"}, "longPoll='soon' is not a number of seconds from 0 to 3600"),
        ({"longPoll": "3601"}, "longPoll='3601' is not a number of seconds from 0 to 3600"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(**given)


def test_a_word_is_one_of_the_known_ones() -> None:
    assert (word({}, "view", "rows", "pao"), word({"view": "pao"}, "view", "rows", "pao")) == ("rows", "pao")
    with pytest.raises(ConfigError, match="view='all' is none of rows, pao"):
        word({"view": "all"}, "view", "rows", "pao")
    assert seconds({}, "schemaWait", 30.0) == 30.0


@pytest.mark.parametrize(("start", "first"), [("earliest", 3), ("LATEST", 9), ("5", 5)])
def test_an_option_names_the_first_interval_of_a_read(start: str, first: int) -> None:
    assert options(startingInterval=start).first(earliest=3, latest=9) == first


@pytest.mark.parametrize(
    ("after", "upto", "ranges"),
    [
        (9, 9, []),
        (9, 10, [(9, 10)]),
        (-1, 10, [(-1, 6), (6, 10)]),  # the intervals from 3 on in two halves
        (5, 9, [(5, 7), (7, 9)]),
    ],
)
def test_a_read_is_divided_into_ranges_that_follow_each_other(
    after: int, upto: int, ranges: list[tuple[int, int]]
) -> None:
    found = options().ranges(after, upto, earliest=3)
    assert [(each.after, each.upto) for each in found] == ranges
    assert [each.turn for each in found] == list(range(len(ranges)))


def test_the_names_of_options_are_known_without_case() -> None:
    check_names([*NAMES, *map(str.lower, NAMES)])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("jobb", "Did you mean job"),
        ("startingintervall", "Did you mean startingInterval"),
        ("path", "The options are job, api, state"),
    ],
)
def test_a_misspelt_option_is_named_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(
        ConfigError, match=f"ELF_BAD_OPTION: {name} is not an option of the source elf. {hint}"
    ):
        check_names(["job", name])
