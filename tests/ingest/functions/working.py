"""What functions are for, in a worker that is held in: `python -m tests.ingest.functions.working`."""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from elfmesh.ingest.functions.process import Limits, WorkerProcess
from tests.ingest.functions.declared import function

SOURCES = {
    "re": "re.sub(r'(\\d)', r'<\\1>', 'a1')",
    "json": "json.loads('{\"a\": [1]}')['a'][0]",
    "math": "math.gcd(12, 18)",
    "datetime": "datetime.datetime(2024, 7, 1, tzinfo=datetime.timezone.utc).isoformat()",
    "zoneinfo": "zoneinfo.ZoneInfo('Europe/Berlin').key",
    "hashlib": "hashlib.sha256(b'a').hexdigest()[:4] + hashlib.md5(b'a').hexdigest()[:4]"
    " + hashlib.sha3_256(b'a').hexdigest()[:4]",
    "decimal": "decimal.Decimal('1.10') + 1",
    "urllib.parse": "urllib.parse.urlsplit('http://a/b?c').query",
    "ipaddress": "ipaddress.ip_address('10.0.0.1').is_private",
    "unicodedata": "unicodedata.normalize('NFC', 'u\\u0308') == chr(252)",
    "random": "random.Random(1).randint(1, 9)",
    "sqlite3": "sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0]",
    "asyncio": "asyncio.__name__",
    "socket": "socket.inet_aton('1.2.3.4')[3]",
    "numpy": "numpy.arange(5).sum()",
    "pyarrow.compute": "pyarrow.compute.sum([1, 2]).as_py()",
    "time": "time.gmtime(0).tm_year",
}


def main() -> None:
    """Say what each gives when it is imported with the source, and by the first call."""
    early = [f"import {name}" for name in SOURCES]
    cases = ", ".join(f"{name!r}: lambda: {text}" for name, text in SOURCES.items())
    lazily = ["def f(x):", *(f"    import {name}" for name in SOURCES)]
    end = f"    return ';'.join(name + '=' + str(act()) for name, act in {{{cases}}}.items())"
    found = []
    for lines in ([*early, "def f(x):", end], [*lazily, end]):
        process = WorkerProcess([function("\n".join(lines), gives="STRING")], Limits(60.0, 512 << 20))
        answer = process.call(0, [pa.array([1], pa.int64())], 1)
        found.append(answer.error or answer.values.to_pylist()[0])
        process.kill()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
