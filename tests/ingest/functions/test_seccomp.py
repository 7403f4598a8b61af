"""The filter of system calls on both architectures: run by an interpreter of the kernel's instructions."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from elfmesh.ingest.functions import seccomp
from elfmesh.ingest.functions.seccomp import ALLOW, ARCHITECTURES, KILL, REFUSE

PID = 4711
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
EPERM, ENOSYS = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS


def answer(machine: str, number: int, *arguments: int, convention: int | None = None) -> int:
    """What the filter says of one call."""
    here = ARCHITECTURES[machine]
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, here.convention if convention is None else convention, 0, *given)
    steps = list(struct.iter_unpack("HBBI", seccomp.program_of(here, PID)))
    assert len(steps) <= 4096
    value, at = 0, 0
    while True:
        code, then, otherwise, operand = steps[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        else:
            holds = {0x15: value == operand, 0x45: bool(value & operand), 0x35: value >= operand}[code]
            at += then if holds else otherwise


def numbers(machine: str) -> dict[str, int]:
    """Names and numbers of all calls, by the kernel's own headers."""
    if not HEADERS[machine].exists():
        pytest.skip("needs the kernel's headers")
    text = HEADERS[machine].read_text()
    own = {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+)\s+(\d+)", text, re.M)}
    both = dict(re.findall(r"^#define __NR3264_(\w+)\s+(\d+)", text, re.M))
    alias = {
        name: int(both[of])
        for name, of in re.findall(r"^#define __NR_(\w+) __NR3264_(\w+)", text, re.M)
        if of in both
    }
    return alias | own


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_the_kernels_and_no_other_call_passes(machine: str) -> None:
    here, known = ARCHITECTURES[machine], numbers(machine)
    listed = {
        name: each[here.column] for name, each in seccomp.CALLS.items() if each[here.column] is not None
    }
    assert {name: known.get(name) for name in listed} == listed
    assert {name: known[name] for name in here.checked} == here.checked
    assert known["seccomp"] == here.seccomp
    passed = {number for number in known.values() if answer(machine, number) == ALLOW}
    free = {"open", "openat", "fcntl", "prlimit64"} & set(here.checked)  # with arguments that are all 0
    assert passed == {*listed.values(), *(here.checked[name] for name in free)}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_with_arguments_reach_this_process_only(machine: str) -> None:
    checked = ARCHITECTURES[machine].checked
    cases: dict[str, list[tuple[tuple[int, ...], int]]] = {
        "kill": [((PID, 9), ALLOW), ((PID + 1, 9), EPERM), ((0, 9), EPERM), ((2**64 - 1, 9), EPERM)],
        "tgkill": [((PID, PID, 6), ALLOW), ((1, PID, 6), EPERM)],
        "prlimit64": [((0, 7), ALLOW), ((1, 7), EPERM)],
        "fcntl": [((3, 1), ALLOW), ((3, 8, 1), EPERM), ((3, 4, 0o20000), EPERM), ((3, 1024), EPERM)],
        "ioctl": [((3, 0x5401), ALLOW), ((3, 0x5412), EPERM), ((3, 0x8901), EPERM)],
        "openat": [
            ((0, 0, 0o2000000), ALLOW),
            *(((0, 0, flag), EPERM) for flag in (1, 2, 0o100, 0o1000, 0o2000)),
        ],
        "open": [((0, 0), ALLOW), *(((0, flag), EPERM) for flag in (1, 2, 0o100, 0o20000000, 0o10000000))],
    }
    for name, number in checked.items():
        for arguments, reported in cases[name]:
            assert answer(machine, number, *arguments) == reported, (name, arguments)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_other_conventions_and_newer_calls_do_not_pass(machine: str) -> None:
    assert answer(machine, 1, convention=0x4000_0003) == KILL
    assert answer(machine, 435) == ENOSYS
    assert answer(machine, 9999) == ENOSYS
    assert answer(machine, 0x4000_0001) == ENOSYS  # 32-bit pointers on x86_64
