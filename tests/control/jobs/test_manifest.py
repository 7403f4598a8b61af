"""The names of a job, and the bytes of its manifest, which are the same on every agent."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import (
    Manifest,
    canary_of,
    split_name,
    updated,
)
from tests.control.register.support import MANIFEST

CANONICAL = "1ee328126f910d7a3f74d750f771e28f60d4b94e28637c0e2c1db0432efdcc91"


def decoded(data: bytes) -> Manifest:
    """The manifest in a message."""
    return msgspec.msgpack.decode(data, type=Manifest)


def test_the_canonical_bytes_do_not_change_with_the_release() -> None:
    """Registers hold their digest: a register of an earlier release refuses other bytes."""
    manifest = Manifest(
        namespace="shop", name="top", creator="local", text="CREATE JOB", version=3, job_id=b"j" * 20
    )
    assert hashlib.sha256(manifest.canonical()).hexdigest() == CANONICAL


@pytest.mark.parametrize("change", [{"asked": (b"a",)}, {"resumed": True}])
def test_a_field_that_was_added_later_is_written_where_it_differs_from_its_default(
    change: dict[str, object],
) -> None:
    changed = replace(MANIFEST, **change)
    assert msgspec.msgpack.decode(MANIFEST.canonical()).keys().isdisjoint(change)
    assert change.keys() <= msgspec.msgpack.decode(changed.canonical()).keys()
    assert decoded(changed.canonical()) == changed


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = replace(MANIFEST, version=7, since_us=-5, narrowed=(("zone", "a"),), signed=b"s", partitions=4)
    assert decoded(manifest.canonical()) == manifest


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a b"},
        {"name": ""},
        {"name": "top\n"},
        {"namespace": "shop/x"},
        {"job_id": b"short"},
        {"incarnation": "a/b"},
        {"incarnation": "x" * 65},
        {"creator": "c" * 1025},
        {"text": "x" * ((128 << 10) + 1)},
        {"version": -1},
    ],
)
def test_a_manifest_that_no_agent_writes_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(replace(MANIFEST, **change).canonical())


@pytest.mark.parametrize("data", [b"", b"\xc1", msgspec.msgpack.encode({"name": "top"}), b"\x90"])
def test_other_bytes_are_no_manifest(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded(data)


def test_a_job_has_a_tree_for_each_partition_and_the_first_is_its_own() -> None:
    trees = replace(MANIFEST, partitions=3).trees
    assert trees[0] == MANIFEST.job_id
    assert len(set(trees)) == 3
    assert MANIFEST.trees == trees[:1]


def test_the_id_of_a_job_is_of_its_name_and_its_creator() -> None:
    assert MANIFEST.qualified == "shop/top"
    assert MANIFEST.job_id == ids.job_id("shop/top", "local") != ids.job_id("shop/top", "ann")


def test_a_canary_is_another_job_with_the_same_text_for_some_agents() -> None:
    canary = canary_of(replace(MANIFEST, version=5), {"zone": "a", "disk": "ssd"})
    assert (canary.qualified, canary.text, canary.version) == ("shop/top-canary", MANIFEST.text, 5)
    assert canary.narrowed == (("disk", "ssd"), ("zone", "a"))
    assert canary.job_id == ids.job_id("shop/top-canary", "local")
    assert canary == canary_of(replace(MANIFEST, version=5), {"disk": "ssd", "zone": "a"})


def test_the_next_version_keeps_the_age_of_the_job() -> None:
    new = updated(
        replace(MANIFEST, version=4, created=11), replace(MANIFEST, text="other", created=99, incarnation="j")
    )
    assert (new.version, new.created, new.text, new.incarnation) == (5, 11, "other", "j")


def test_the_text_of_another_job_is_no_version_of_this_one() -> None:
    with pytest.raises(ValueError, match="shop/top of local is not a version of shop/top"):
        updated(MANIFEST, replace(MANIFEST, job_id=b"o" * 20))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("shop/top", ("shop", "top")),
        ("shop.top", ("shop", "top")),
        ("top", ("default", "top")),
        (" shop/top ", ("shop", "top")),
        ("shop/top-canary", ("shop", "top-canary")),
    ],
)
def test_a_job_is_named_with_or_without_its_namespace(text: str, names: tuple[str, str]) -> None:
    assert split_name(text) == names


@pytest.mark.parametrize("text", ["", "/", "shop/", "a/b/c", "a.b.c", "a b", "shop/1x", "shop top", "é"])
def test_what_is_no_name_of_a_job_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a job"):
        split_name(text)
