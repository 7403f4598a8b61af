"""Settings of Python functions in agent.toml: whose functions may run here, and the limits of a worker."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from elfmesh.control.jobs.signing import read_key
from elfmesh.errors import ConfigError
from elfmesh.ingest.functions import confinement
from elfmesh.units import parse_duration_us, parse_size

TIME_S_MIN = 0.01
MEMORY_BYTES_MIN = 16_000_000
"""Minimum memory; with less, no batch would fit together with its values."""


class FunctionsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permission and limits of Python functions.

    Attributes:
        python: "off": none run. "signed": functions of jobs with enough signatures by the keys.
        keys: public keys, as `elf key create` prints them.
        signatures: number of required signatures.
        time: processor time for one batch of at most 8192 records. A worker that takes more, or ten times as
            long by the clock, is killed.
        memory: limit of each worker, beyond about 60 MB of its interpreter.
        dangerously_without_sandbox: evaluate them even if the kernel lacks Landlock or seccomp. A function
            then has the rights of the agent's user.
    """

    python: Literal["off", "signed"] = "off"
    keys: tuple[str, ...] = ()
    signatures: Annotated[int, msgspec.Meta(ge=1)] = 1
    time: str = "1 s"
    memory: str = "256 MB"
    dangerously_without_sandbox: bool = False

    @property
    def time_s(self) -> float:
        return parse_duration_us(self.time) / 1e6

    @property
    def memory_bytes(self) -> int:
        return parse_size(self.memory)


def check_functions(functions: FunctionsConfig, where: str) -> None:
    keys = {read_key(key, where=f"{where}.keys") for key in functions.keys}
    if functions.python == "signed" and len(keys) < functions.signatures:
        raise ConfigError(
            f"{functions.signatures} of {len(keys)} keys must sign, which is impossible",
            where=f"{where}.signatures",
            hint='Name the keys: keys = ["ed25519:..."]',
        )
    for key, value, parse in (
        ("time", functions.time, parse_duration_us),
        ("memory", functions.memory, parse_size),
    ):
        try:
            parse(value)
        except ConfigError as error:
            raise ConfigError(error.message, where=f"{where}.{key}", hint=error.hint) from None
    if functions.time_s < TIME_S_MIN:
        raise ConfigError(f"is less than {TIME_S_MIN * 1000:g} ms", where=f"{where}.time")
    if functions.memory_bytes < MEMORY_BYTES_MIN:
        raise ConfigError(f"is less than {MEMORY_BYTES_MIN // 10**6} MB", where=f"{where}.memory")


def check_host(functions: FunctionsConfig, where: str) -> None:
    """Check that the functions that a configuration allows can run on this host.

    Raises:
        ConfigError: The functions would be off, because the kernel cannot confine them.
    """
    if functions.python == "off" or functions.dangerously_without_sandbox:
        return
    if absent := confinement.absent():
        raise ConfigError(
            f"would be unavailable on this host: {absent}",
            where=f"{where}.python",
            hint="Use a kernel with Landlock (5.13 or later) and seccomp, or accept by [functions]"
            " dangerously_without_sandbox = true that a function can do what the agent's user can.",
        )
