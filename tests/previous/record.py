"""`python -m tests.previous.record`: record what the release before writes, from its code in the history.

agent.tar.zst   a data directory, logs, archive and Parquet files of an agent that had some jobs
messages.json   of each kind of message one example that its code has encoded, and the fields that it requires
"""

from __future__ import annotations

import io
import json
import shutil
import socket
import tarfile
import tempfile
import time
from pathlib import Path

import zstandard

from tests.e2e.fleet import eventually
from tests.ports import reserve
from tests.previous import release

SCRIPT = """
import base64, json, random, sys
import msgspec
sys.path.insert(1, sys.argv[1])
from elfmesh.agent.core import MESSAGES, codec
from tests.fuzz.examples import examples
found = {}
for kind in MESSAGES:
    values = [msgspec.convert(value, kind) for value in examples(random.Random(1), [kind], 8)]
    message = max(values, key=lambda each: len(msgspec.msgpack.encode(each)))
    fields = {each.encode_name: each.required for each in msgspec.structs.fields(kind)}
    frame = base64.b64encode(codec().encode(message, b"payload")).decode()
    found[kind.__struct_config__.tag] = {"name": kind.__name__, "fields": fields, "frame": frame}
print(json.dumps(found, indent=1, sort_keys=True))
"""


def messages(place: Path) -> None:
    """Record the messages. Examples are made by this tree's dice, from that tree's annotations."""
    shutil.copytree(release.HERE.parent / "fuzz", place / "tests" / "fuzz")
    (place / "tests" / "__init__.py").touch()
    release.MESSAGES.write_text(release.run(place, SCRIPT, str(place)))


def directory(place: Path, root: Path) -> None:
    """Record a directory: jobs begin, one is updated, one deleted, the agent is killed and starts again."""
    port = reserve()
    (root / "a.log").touch()
    with release.running(root, port, place) as agent:
        for job, text in {**release.JOBS, "old/gone": release.JOBS["old/top"]}.items():
            agent.apply(f"CREATE JOB {job.replace('/', '.')} AS {text}")
        release.append(root, range(60))
        eventually(lambda: len(agent.results("old/top")) >= 4, what="results")
        agent.ask("DELETE", "/v1/jobs/old/gone")
        known = agent.get("/v1/jobs/old/top")
        text = f"CREATE JOB old.top AS {release.UPDATED}"
        agent.ask("POST", "/v1/jobs", {"text": text, "job": "old/top", "creator": known["creator"]})
        with socket.create_connection(("127.0.0.1", port)) as sender:
            sender.sendall("".join(f"{release.line(second, 0)}\n" for second in range(60)).encode())
        release.append(root, range(60, 120))
        eventually(lambda: len(agent.results("old/sent")) >= 4, what="results of what was sent")
        eventually(lambda: len(agent.results("old/top")) >= 9, what="results of the new version")
        agent.kill()
        agent.start()
        agent.wait_ready()
        release.append(root, range(120, 180))
        eventually(lambda: len(agent.results("old/top")) >= 15, what="results after a restart")
        eventually(lambda: len(agent.results("old/wide")) >= 15, what="results of long windows")
        eventually(lambda: next(root.glob("archive/log/host=*/_state.json"), None), what="an archive")
        time.sleep(5)  # sinks and archive are done with it
        recorded = {"jobs": release.jobs(agent), "results": release.answered(agent)}
    (root / "recorded.json").write_text(json.dumps(recorded))


def pack(root: Path) -> None:
    """What was recorded, without what each start makes again."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.name not in ("stderr", "agent.toml", "lock", "api.token", "elf.sock"):
                info = archive.gettarinfo(path, str(path.relative_to(root)))
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                with path.open("rb") as file:
                    archive.addfile(info, file)
    release.AGENT.write_bytes(zstandard.ZstdCompressor(19).compress(raw.getvalue()))


def main() -> None:
    """Record both."""
    with tempfile.TemporaryDirectory() as directories:
        place, root = Path(directories) / "code", Path(directories) / "agent"
        place.mkdir()
        root.mkdir()
        release.code(place)
        messages(place)
        directory(place, root)
        pack(root)


if __name__ == "__main__":
    main()
