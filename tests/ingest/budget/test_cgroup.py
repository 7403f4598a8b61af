"""Limits in a control group of our own: over a directory that looks like the kernel's tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfmesh.ingest.budget.cgroup import CHILD, apply


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    group = tmp_path / "system.slice/elf.service"
    group.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (group / "cgroup.controllers").write_text("cpu memory\n")
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "own").write_text("1:name=systemd:/old\n0::/system.slice/elf.service\n")
    return tmp_path


def limited(tree: Path, cores: float | None = 0.2, memory_bytes: int = 300_000_000) -> str:
    return apply(cores, memory_bytes, mount=tree, own=tree / "own")


def test_the_agent_moves_into_a_group_below_its_own_and_limits_it(tree: Path) -> None:
    assert limited(tree) == ""
    group = tree / "system.slice/elf.service"
    assert (group / CHILD / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (group / CHILD / "cpu.max").read_text() == "22000 100000"
    assert (group / CHILD / "memory.high").read_text() == "300000000"


def test_only_what_is_limited_is_written(tree: Path) -> None:
    assert limited(tree, cores=None) == ""
    child = tree / "system.slice/elf.service" / CHILD
    assert (child.parent / "cgroup.subtree_control").read_text() == "+memory"
    assert not (child / "cpu.max").exists()
    assert limited(tree, None, 0) == ""


def test_a_group_that_is_shared_is_left_alone(tree: Path) -> None:
    (tree / "system.slice/elf.service/cgroup.procs").write_text(f"{os.getpid()}\n1\n")
    assert "Delegate=yes" in limited(tree)
    assert not (tree / "system.slice/elf.service" / CHILD).exists()


def test_a_controller_that_is_not_delegated_is_named(tree: Path) -> None:
    (tree / "system.slice/elf.service/cgroup.controllers").write_text("memory\n")
    assert "no controller cpu" in limited(tree)


def test_a_restart_within_the_child_group_uses_it_again(tree: Path) -> None:
    assert limited(tree) == ""
    group = tree / "system.slice/elf.service"
    (group / "cgroup.procs").write_text("")
    (tree / "own").write_text(f"0::/system.slice/elf.service/{CHILD}\n")
    assert limited(tree, cores=0.5) == ""
    assert (group / CHILD / "cpu.max").read_text() == "55000 100000"


def test_without_a_v2_tree_the_limits_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/x\n")
    assert "no cgroup v2" in limited(tmp_path)
    assert "No such file" in apply(0.5, 0, mount=tmp_path, own=tmp_path / "gone")


def test_what_the_kernel_refuses_is_undone(tree: Path) -> None:
    group = tree / "system.slice/elf.service"
    (group / "cgroup.subtree_control").mkdir()  # a file that cannot be written, even by root
    assert "subtree_control" in limited(tree)
    assert (group / "cgroup.procs").read_text() == str(os.getpid())
