"""What the swarm is held to besides its seeds (`seeds/`): open findings, safeguards, the same trace again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import pytest

from tests.agent.runtime.test_compute_threads import (
    test_an_order_makes_each_interval_with_the_groups_that_the_one_before_it_leaves_open as in_turn,
)
from tests.agent.runtime.test_core import (
    test_data_of_a_host_is_sent_to_no_agent_that_its_rule_excludes as stays_inside,
)
from tests.control import test_standby_flows as standby_flows
from tests.control.closing.stores.test_replica_buffers import (
    test_copies_that_overlap_partly_are_no_conflict as no_conflict,
)
from tests.control.closing.test_commit import (
    test_a_change_of_the_roster_waits_until_no_votes_can_close_an_interval as roster_waits,
)
from tests.control.closing.test_eviction import (
    test_a_window_longer_than_the_eviction_names_the_member_that_died_inside_it as died_inside,
)
from tests.control.closing.test_interval_closer import (
    test_a_group_that_may_end_without_records_is_waited_for as waits_for_groups,
)
from tests.control.closing.test_interval_closer import (
    test_an_incomplete_interval_ends_the_grant_before_it_is_decided as grant_ends,
)
from tests.control.master import test_term_state as term_state
from tests.control.master.grants.test_permission import (
    test_only_texts_whose_records_follow_from_the_contributions_are_voted_on as texts_that_vote,
)
from tests.control.master.test_lost_rosters import (
    test_what_a_member_contributed_under_a_number_that_was_lost_is_counted_once as number_lost,
)
from tests.control.master.test_members import (
    test_a_new_master_numbers_a_new_member_when_it_knows_how_far_the_others_are as frontier_first,
)
from tests.control.master.test_members import (
    test_no_interval_expects_an_agent_that_has_left_by_a_second_number as second_number,
)
from tests.control.master.test_ordering import noticed as one_order
from tests.control.master.test_result_service import begins_again
from tests.control.master.test_trees import (
    test_all_trees_of_a_partition_follow_the_one_that_has_begun_another_attempt as follow_each_other,
)
from tests.control.member import test_lost_first_interval as lost_first
from tests.control.member import test_pane_sender as pane_sender
from tests.control.member import test_pane_store as pane_store
from tests.control.member.test_hand_over import ends_when_acknowledged
from tests.control.member.test_member import (
    test_a_new_gateway_gets_everything_that_is_open_again as gets_all,
)
from tests.control.paths.test_idle_paths import (
    test_a_requested_path_is_live_for_a_while_and_then_as_long_as_the_bound_permits as is_live_again,
)
from tests.control.paths.test_inheritance import (
    test_a_part_with_numbers_of_another_roster_does_not_count as other_numbers,
)
from tests.control.paths.test_part_requests import (
    test_requested_bytes_use_up_a_budget_and_one_request_in_a_while_is_free as within_budget,
)
from tests.control.paths.test_site_records import open_until_closed, reads_whole_records
from tests.control.paths.test_site_records import (
    test_a_site_does_not_vote_on_an_interval_with_a_revision as abstains,
)
from tests.control.paths.test_site_records import (
    test_a_site_votes_when_it_has_the_contributions_of_all_members as waits_for_all,
)
from tests.control.paths.test_sites import (
    closes_at_once,
    in_time_before_an_end,
    read_near,
    requested_in_time,
)
from tests.control.register.grants.test_stale_voters import (
    test_a_voter_behind_a_cut_link_gets_the_folded_value_from_the_voter_that_it_reaches as behind_a_cut,
)
from tests.control.register.test_changes import (
    test_a_change_ends_a_grant_and_a_joint_value_gets_none as joint_without,
)
from tests.control.register.test_first_acceptors import (
    test_a_vote_that_a_job_is_over_does_not_end_the_one_that_is_begun_again as begun_again,
)
from tests.control.register.test_first_acceptors import (
    test_those_that_voted_on_the_end_and_are_not_near_any_more_are_asked_too as all_asked,
)
from tests.control.register.test_lost_votes import (
    test_a_voter_that_comes_back_stays_although_the_others_answer_before_it as comes_back,
)
from tests.control.register.test_members import (
    test_a_voter_far_from_the_job_is_settled_after_a_majority_near_it_knows as far_voter,
)
from tests.control.register.test_votes import (
    test_a_voter_that_takes_records_of_another_gets_the_next_ones_with_the_vote as takes_records,
)
from tests.control.register.test_votes import (
    test_the_next_value_has_a_single_vote_too_because_a_majority_may_have_voted_so as single_vote,
)
from tests.control.replicas import test_prefix_store as prefix_store
from tests.control.replicas import test_standby_plans as standby_plans
from tests.control.replicas.test_copy_peers import (
    test_a_peer_that_acknowledges_nothing_is_replaced_although_the_roster_has_it as silent_peer,
)
from tests.control.requests.test_handler import (
    test_a_request_behind_a_cut_link_is_passed_on_by_voters_and_no_agent_takes_over as passed_on_by_voters,
)
from tests.control.requests.test_job_question import (
    test_a_request_for_results_goes_to_the_near_site_and_repeated_to_the_others_too as others_are_asked,
)
from tests.control.test_leaving_flows import every_window
from tests.control.test_second_way_flows import noticed as asked_directly
from tests.control.upstream.test_poller import asked_at_a_site
from tests.exhaustive import few
from tests.ingest import test_early_partitions as early_partitions
from tests.ingest.inputs.test_posts import (
    test_no_post_is_late_because_the_clock_steps_back_over_a_restart as steps_back,
)
from tests.ingest.inputs.test_spool_reader import (
    test_a_source_is_not_at_its_end_while_a_post_waits_for_the_disk as post_waits,
)
from tests.ingest.sources.test_stream_times import (
    test_a_late_record_among_earlier_ones_is_read as late_record,
)
from tests.ingest.sources.test_stream_times import (
    test_the_index_of_a_file_that_begins_in_the_same_way_is_not_followed as other_index,
)
from tests.ingest.test_early_rows import test_the_boot_counts_before_the_number as boot_counts
from tests.ingest.worker.test_late_versions import (
    test_every_record_is_in_one_bucket_whatever_version_evaluates_it as every_record,
)
from tests.ql.plan.test_topics import (
    test_the_order_of_a_topic_follows_from_its_posts as sorts_its_posts,
)
from tests.reliability import PAGE
from tests.sim.swarm.ablations import names, topics
from tests.sim.swarm.ablations.catalog import REGISTRY, without
from tests.sim.swarm.measure import entries, measure
from tests.sim.swarm.regressions import OPEN
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import PAGED
from tests.sim.swarm.soak import one
from tests.sim.test_tree_ablations import ABLATIONS
from tests.srt.test_membership import (
    test_an_agent_with_a_rule_is_a_child_of_the_root_and_not_of_an_agent_without_one as below_the_root,
)
from tests.srt.test_search import (
    test_an_agent_enters_a_tree_at_the_agent_that_it_was_given as enters_there,
)
from tests.storage.test_framelog_rot import (
    test_a_job_that_begins_again_goes_on_with_the_gap_that_it_has_declared as declared_once,
)

pytestmark = pytest.mark.apart

QUICK = (
    "replay-boundary",
    "open-panes",
    "sync-before-send",
    "watermark",
    "lateness",
    "annulled-parts",
    "lost-votes",
    "holes",
    "mending",
    "late-by-version",
    "pages-before-votes",
    "generations",
    "votes-seen",
    "won-too-late",
    "recovered-if-chosen",
    "recovered-roster",
    "open-groups",
    "ended-partitions",
    "all-seals",
    "early-newest",
    "early-withdrawn",
    "assumptions-counted",
    "prefix-once",
)
"""Safeguards whose absence shows within a few seeds of a second each."""

QUICK_SEEDS = 40
"""Ten times what the slowest takes: no new draw needs another number. The first seed that tells ends it."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as processes:
        yield processes


@pytest.mark.slow
def test_open_findings_are_still_open(pool: ProcessPoolExecutor) -> None:
    for name, found in zip(OPEN, pool.map(one, OPEN), strict=True):
        assert found["wrong"], f"{name} holds now: move it to REGRESSIONS"


@pytest.mark.parametrize("safeguard", few(QUICK, 1))
def test_without_a_safeguard_an_invariant_fails(safeguard: str, tmp_path: Path) -> None:
    """One that holds in the same seed with the safeguard."""
    measure(tmp_path / "journal", [safeguard], QUICK_SEEDS)
    (found,) = entries(tmp_path / "journal")
    assert found["invariant"], f"{safeguard} is not missed in {found['seeds']} seeds"


NOTICED_BY = {
    "voters-of-the-end": begun_again,
    "end-asks-all": all_asked,
    "counted-before-the-start": lost_first.test_what_is_counted_as_expired_never_goes_up_nor_is_covered,
    "damage-once": declared_once,
    "decided-by-its-number": lost_first.test_what_went_up_before_a_roster_was_lost_is_counted_once,
    "number-of-its-epoch": number_lost,
    "one-number-at-a-time": second_number,
    "voters-by-domain": far_voter,
    "settled-when-the-terms-are-known": far_voter,
    "frontier-before-numbers": frontier_first,
    "lowered-first": lost_first.test_a_number_that_starts_earlier_than_the_one_before_decides_from_there_on,
    "refused-again": lost_first.test_what_was_refused_goes_up_again_although_the_next_term_begins_behind_it,
    "outside-when-closed": lost_first.test_what_no_record_can_have_is_open_until_its_interval_is_closed,
    "annulled-corrections": (
        lost_first.test_what_went_up_with_an_annulled_interval_is_pending_again_when_that_was_closed
    ),
    "annulled-below-the-first": (
        lost_first.test_a_worker_that_missed_a_change_does_not_repeat_intervals_that_it_annuls
    ),
    "returned-voters": comes_back,
    "post-awaited": post_waits,
    "greatest-time": late_record,
    "index-of-this-file": other_index,
    **dict.fromkeys(topics.SAFEGUARDS, one_order),
    "post-times": steps_back,
    "canonical-order": sorts_its_posts,
    "early-partition-newest": (
        early_partitions.test_a_state_of_an_earlier_boot_does_not_count_beside_a_later_one
    ),
    "early-stated-records": (
        early_partitions.test_a_partition_waits_for_the_records_that_its_producer_states
    ),
    "early-first-interval": (early_partitions.test_an_interval_behind_one_that_is_open_has_no_early_rows),
    "early-boot": boot_counts,
    "new-gateway-gets-all": gets_all,
    "kept-in": stays_inside,
    "relays-its-own-rule": below_the_root,
    "inside-its-group": enters_there,
    "one-attempt-for-all-groups": follow_each_other,
    "copies-are-kept-apart": no_conflict,
    "idle-paths-revive": is_live_again,
    "part-requests": closes_at_once,
    "late-groups-are-requested": requested_in_time,
    "part-budget": within_budget,
    "sites-are-asked-before-an-end": in_time_before_an_end,
    "votes-are-folded": single_vote,
    "records-on-request": takes_records,
    "no-grant-while-joint": joint_without,
    "texts-that-may-vote": texts_that_vote,
    "site-waits-for-all": waits_for_all,
    "site-abstains": abstains,
    "whole-records-are-voted-on": reads_whole_records,
    "sites-are-read-too": asked_at_a_site,
    "complete-is-not-closed": open_until_closed,
    "revisions-of-one-site": begins_again,
    "grant-ends-first": grant_ends,
    "groups-in-making": waits_for_groups,
    "groups-in-turn": in_turn,
    "roster-waits-for-votes": roster_waits,
    "inherits-known-numbers": other_numbers,
    "stale-voters-get-the-value": behind_a_cut,
    "spare-sites-are-asked": others_are_asked,
    "reached-through-others": passed_on_by_voters,
    "readable-when-chosen": read_near,
    "sealed-ahead-is-not-due": every_window,
    "handed-over-before-the-end": ends_when_acknowledged,
    "second-way": asked_directly,
    "standby-elsewhere": pane_sender.in_another_rack,
    "earlier-chain-stays": pane_store.test_the_earlier_chain_stays_until_the_new_one_has_reached_its_time,
    "chains-of-the-epoch": pane_store.test_numbers_of_another_epoch_and_of_other_members_get_nothing,
    "deltas-of-the-version": prefix_store.test_deltas_of_another_version_do_not_count,
    "prefix-ends-with-its-seal": (
        prefix_store.test_a_window_has_only_what_was_read_before_its_member_sealed_it
    ),
    "eviction-after-windows": died_inside,
    "silent-peer-is-replaced": silent_peer,
    "plan-changes-for-a-gain": standby_plans.test_noise_of_the_rates_moves_no_chain,
    "plan-of-settled-rates": (standby_plans.test_while_the_load_moves_the_plan_waits_and_then_changes_once),
    "standbys-within-their-rate": (
        standby_plans.test_a_plan_above_its_rate_is_replaced_at_once_and_the_dear_member_stays_out
    ),
    "prefix-is-no-coverage": standby_flows.test_a_host_that_never_returns_costs_a_second_of_its_records,
    "plan-with-a-new-roster": (
        standby_plans.test_a_plan_is_made_for_the_roster_and_improved_when_rates_are_known
    ),
    "plan-is-inherited": term_state.test_the_next_master_begins_with_the_plan_of_standbys,
}


LONG = {
    "prefix-is-no-coverage",
    "part-requests",
    "late-groups-are-requested",
    "second-way",
    "readable-when-chosen",
}
"""Noticed by tests that take ten seconds or more, once with the safeguard and once without it."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name in LONG else [])
        for name, ablation in REGISTRY.items()
        if ablation.elsewhere
    ],
)
def test_what_no_seed_notices_is_noticed_elsewhere(name: str, tmp_path: Path) -> None:
    if name in NOTICED_BY:
        notices = NOTICED_BY[name]
        assert REGISTRY[name].elsewhere == f"{notices.__module__.replace('.', '/')}.py"
        notices()
        with without(name), pytest.raises(AssertionError):
            notices()
        mock.patch.stopall()  # the fixtures of borrowed tests do not run here
        return
    assert REGISTRY[name].elsewhere == "tests/ingest/worker/test_late_versions.py"
    with without(name):
        for seed in (16, *range(16)):
            (folder := tmp_path / str(seed)).mkdir()
            try:
                every_record(seed, folder)
            except AssertionError:
                return
    pytest.fail(f"{name} is not missed")


@pytest.mark.parametrize("seed", range(2))
def test_records_whose_rows_are_pages_hold_every_invariant(seed: int) -> None:
    outcome = run(PAGED(draw(seed)))
    assert outcome.history.pages.published > 20
    assert len(outcome.history.pages.data) > outcome.history.pages.published
    assert check(outcome) == {}


def test_each_declared_safeguard_has_an_ablation_and_each_ablation_is_declared() -> None:
    trees_only = {name.partition(":")[0] for name in ABLATIONS}
    assert names.safeguards() == {*REGISTRY, *trees_only}


def test_the_page_has_a_row_for_each_ablation_and_no_other() -> None:
    section = PAGE.read_text().partition("<!-- ablations: begin -->")[2].partition("<!-- ablations: end")[0]
    rows = re.findall(r"^\| (.+) \(`([^`]+)`\) \| (D-\d+) \|", section, re.MULTILINE)
    assert rows == [(each.what, name, each.promise) for name, each in REGISTRY.items()], (
        "write them: python -m tests.sim.swarm --ablations NAME, then --report"
    )


def test_an_ablation_replaces_every_place_of_its_safeguard_and_nothing_else() -> None:
    for name, ablation in REGISTRY.items():
        replaced = [getattr(owner, attribute) for owner, attribute, _ in ablation.patches()]
        places = [names.original(each) for each in names.declared() if each.partition(":")[0] == name]
        stands = [vars(each).get("__init__", each) if isinstance(each, type) else each for each in places]
        assert all(any(each is other for other in replaced) for each in stands), name
        assert all(any(each is other for other in stands) for each in replaced), name


def test_every_safeguard_can_be_removed_and_comes_back() -> None:
    for name, ablation in REGISTRY.items():
        before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in ablation.patches()]
        with without(name):
            assert all(getattr(owner, attribute) is not value for owner, attribute, value in before), name
        assert all(getattr(owner, attribute) is value for owner, attribute, value in before), name


def test_the_same_seed_gives_the_same_trace_under_two_hash_seeds() -> None:
    """I15."""
    notified = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", "from tests.sim.swarm.soak import one; print(one(2)['trace'])"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        notified.add(done.stdout)
    assert len(notified) == 1
