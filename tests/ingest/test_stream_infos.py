"""What is announced of streams, made in a child process."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from elfmesh.control.protocol import events as ctl
from elfmesh.errors import ConfigError
from elfmesh.ingest.stream_infos import in_a_child

CHILD = """
import os, sys
from elfmesh.ingest.stream_infos import in_a_child
from elfmesh.errors import ConfigError
def fails():
    raise ConfigError("no", where="here")
print(in_a_child(os.getpid, int) != os.getpid())
try:
    in_a_child(fails, int)
except ConfigError as error:
    print(error)
"""


def test_a_child_gives_the_result_and_errors_come_from_here() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", str(ConfigError("no", where="here"))]
    import pyarrow  # noqa: F401 - where it is loaded nothing is saved

    assert in_a_child(os.getpid, int) == os.getpid()


def test_what_is_announced_can_be_sent_from_a_child() -> None:
    import pyarrow as pa

    info = ctl.StreamInfo.of("log", "json", pa.schema([("a", pa.int64())]))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(info), type=ctl.StreamInfo)
    assert again == info
    assert again.schema is not None
    assert again.schema.equals(info.schema)
    assert ctl.StreamInfo.of("log", "json", None).schema is None
