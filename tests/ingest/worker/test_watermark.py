from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.ingest.worker.watermark import IDLE_US, SINCE_EVER, WRITING_US, Watermark

S = 1_000_000
NOW = 1_700_000_000 * S
HOUR = 3_600 * S
OLD = NOW - 86_400 * S


def test_it_is_the_minimum_over_the_sources_of_the_largest_timestamp_minus_lateness() -> None:
    mark = Watermark(2 * S)
    mark.fed("a", OLD + 10 * S, NOW)
    mark.fed("b", OLD + 30 * S, NOW)
    mark.fed("b", OLD + 20 * S, NOW)
    assert mark.observe([("a", False), ("b", False)], NOW) == OLD + 8 * S
    mark.fed("a", OLD + 50 * S, NOW)
    assert mark.observe([("a", False), ("b", False)], NOW) == OLD + 28 * S


def test_a_source_that_has_not_been_read_holds_it() -> None:
    mark = Watermark()
    mark.fed("a", OLD, NOW)
    assert mark.observe([("a", False), ("new", False)], NOW) == SINCE_EVER


def test_a_live_source_at_its_end_advances_with_the_clock_at_once() -> None:
    mark = Watermark(S)
    mark.fed("a", NOW - 2 * S, NOW)
    assert mark.observe([("a", True)], NOW) == NOW - S
    assert mark.observe([("a", True)], NOW + 60 * S) == NOW + 59 * S


def test_a_replay_at_its_end_advances_only_after_the_idle_time() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.fed("a", OLD, NOW)
    assert mark.observe([("a", True)], NOW + 4 * S) == OLD
    assert mark.observe([("a", True)], NOW + 5 * S) == NOW + 5 * S - WRITING_US


def test_an_unfinished_replay_never_advances_with_the_clock() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.fed("a", OLD, NOW)
    assert mark.observe([("a", False)], NOW + 500 * S) == OLD


def test_an_empty_source_and_no_source_at_all_wait_twice_the_idle_time() -> None:
    for sources in ([("empty", True)], []):
        mark = Watermark(idle_us=5 * S)
        assert mark.observe(sources, NOW) == SINCE_EVER
        assert mark.observe(sources, NOW + 9 * S) == SINCE_EVER
        assert mark.observe(sources, NOW + 10 * S) == NOW + 10 * S - WRITING_US


def test_a_paused_reader_neither_moves_nor_counts_as_idle() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.fed("a", OLD, NOW)
    mark.observe([("a", True)], NOW)
    mark.pause(NOW + S)
    mark.pause(NOW + 50 * S)
    assert mark.observe([("a", True)], NOW + 100 * S) == OLD
    mark.resume(NOW + 101 * S)
    mark.resume(NOW + 500 * S)
    assert mark.observe([("a", True)], NOW + 104 * S) == OLD
    assert mark.observe([("a", True)], NOW + 105 * S) == NOW + 105 * S - WRITING_US


def test_data_again_ends_the_idle_time() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.fed("a", OLD, NOW)
    mark.fed("a", OLD + S, NOW + 4 * S)
    assert mark.observe([("a", True)], NOW + 6 * S) == OLD + S


def test_a_finished_source_is_forgotten() -> None:
    mark = Watermark()
    mark.fed("old", OLD, NOW)
    mark.fed("new", OLD + 60 * S, NOW)
    mark.observe([("old", False), ("new", False)], NOW)
    assert mark.observe([("new", False)], NOW) == OLD + 60 * S


def test_what_is_stamped_and_not_yet_written_is_waited_for_a_moment() -> None:
    mark = Watermark()
    mark.fed("a", NOW - 10_000, NOW)
    stamped = NOW - 3_000  # read the clock, and will have written its line in 6 ms
    assert mark.observe([("a", True)], NOW) <= stamped
    patient = Watermark(2 * WRITING_US)
    patient.fed("a", NOW, NOW)
    assert patient.observe([("a", True)], NOW) == NOW - 2 * WRITING_US, "lateness includes the moment"


def test_a_time_ahead_of_the_clock_closes_nothing_before_its_time() -> None:
    mark = Watermark()
    mark.fed("a", NOW + 3_000 * S, NOW)
    assert mark.observe([("a", False)], NOW) <= NOW
    assert mark.observe([("a", True)], NOW + S) <= NOW + S


def test_records_without_a_time_do_not_hold_the_watermark_for_ever() -> None:
    for times in ([OLD], []):
        mark = Watermark(idle_us=5 * S)
        for time in times:
            mark.fed("a", time, NOW)
        for second in range(11):
            mark.fed("a", None, NOW + second * S)
            mark.observe([("a", True)], NOW + second * S)
        assert mark.value_us == NOW + 10 * S - WRITING_US


steps = st.tuples(st.sampled_from("ab"), st.integers(-100, 100), st.booleans(), st.integers(0, 10))


@given(st.lists(steps, max_size=30))
def test_it_never_goes_back(events: list[tuple[str, int, bool, int]]) -> None:
    mark, now, last = Watermark(S), NOW, SINCE_EVER
    for source, offset, at_end, passed in events:
        now += passed * S
        mark.fed(source, now + offset * S, now)
        value = mark.observe([("a", at_end), ("b", not at_end)], now)
        assert value >= last
        last = value


def test_a_source_is_as_live_after_a_restart_as_before() -> None:
    """Without, an agent that comes back would hold up all others for twice the idle time."""
    mark = Watermark(lateness_us=S, idle_us=5 * S)
    mark.resumed(["old"], 100 * S)
    assert mark.observe([("old", True)], 102 * S) == 101 * S
    assert mark.observe([("old", True), ("new", False)], 103 * S) == 101 * S, "has unread lines"
    mark.fed("new", 103 * S, 104 * S)
    assert mark.observe([("old", True), ("new", True)], 104 * S) == 103 * S


def test_a_source_of_before_a_restart_with_unread_lines_promises_nothing_new() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.resumed(["old"], 100 * S)
    assert mark.observe([("old", False)], 102 * S) == 100 * S


def test_a_replay_goes_on_after_a_restart_and_its_writer_is_waited_for() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.resumed(["replay"], 100 * S)
    assert mark.observe([("replay", True)], 9000 * S) == 100 * S
    mark.fed("replay", 101 * S, 9001 * S)
    assert mark.observe([("replay", True)], 9001 * S) == 101 * S
    assert mark.observe([("replay", True)], 9006 * S) > 9000 * S, "idle for long enough"


def test_the_clock_moves_it_no_further_than_most_clocks_agree() -> None:
    for sources in ([("quiet", True)], []):
        mark = Watermark(S, idle_us=5 * S)
        mark.observe(sources, NOW, NOW - 120 * S)
        assert mark.observe(sources, NOW + 10 * S, NOW - 110 * S) == NOW - 111 * S
    live = Watermark(S)
    live.fed("a", NOW, NOW)
    assert live.observe([("a", True)], NOW, NOW - 120 * S) == NOW - S, "a record is what it says"


def test_a_source_of_a_job_with_an_end_counts_only_once_it_was_read_to_its_end() -> None:
    mark = Watermark()
    mark.until_us = NOW
    mark.fed("a", NOW + 9 * S, NOW)
    assert mark.observe([("a", False), ("b", True)], NOW) == SINCE_EVER
    assert mark.observe([("a", True), ("b", True)], NOW + S) >= NOW
    mark.fed("a", NOW + 9 * S, NOW + 2 * S)
    assert mark.observe([("a", False), ("b", True)], NOW + 2 * S) >= NOW


def test_the_clock_ends_a_job_without_waiting_for_an_idle_source() -> None:
    mark = Watermark(idle_us=60 * S)
    mark.until_us = NOW
    mark.fed("a", OLD, NOW)
    assert mark.observe([("a", True)], NOW - S) == OLD
    assert mark.observe([("a", True)], NOW + S) == NOW + S - WRITING_US


def test_a_job_with_an_end_does_not_wait_twice_for_files_that_are_not_there() -> None:
    mark = Watermark(idle_us=5 * S)
    mark.until_us = NOW
    assert mark.observe([], NOW) == SINCE_EVER
    assert mark.observe([], NOW + 5 * S) == NOW + 5 * S - WRITING_US


def test_of_a_source_that_a_better_clock_stamps_the_clock_of_most_agents_counts() -> None:
    mark = Watermark(0)
    behind = NOW - 3 * HOUR
    mark.fed("a", NOW - S, NOW)
    assert mark.observe([("a", False)], behind, behind, NOW) == NOW - S
    assert mark.observe([("a", True)], behind + S, behind + S, NOW + S) == NOW + S - WRITING_US
    mark.fed("a", NOW + HOUR, NOW + 2 * S)  # one wrong time moves it no further than that clock
    assert mark.observe([("a", False)], behind + 2 * S, behind + 2 * S, NOW + 2 * S) == NOW + 2 * S


def test_own_times_of_a_clock_that_is_behind_count_by_that_clock() -> None:
    mark = Watermark(0)
    behind = NOW - 3 * HOUR
    mark.fed("a", behind - S, NOW)
    for seconds in range(20):
        reached = mark.observe([("a", True)], behind + seconds * S, behind + seconds * S, NOW + seconds * S)
        assert reached == behind + seconds * S - WRITING_US


def test_a_clock_that_is_set_back_makes_no_source_wait_for_the_time_before() -> None:
    mark = Watermark(0)
    mark.fed("a", OLD, NOW)
    mark.observe([("a", True)], NOW)
    back = NOW - 3 * HOUR
    mark.observe([("a", True)], back)
    assert mark.observe([("a", True)], back + IDLE_US) == back + IDLE_US - WRITING_US
