"""Sessions and DataFrames: what a user of Spark calls.

Owns the entry points of the bridge and the one-line reasons where pyspark or Java is missing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from elfmesh.api.client.client import Client
from elfmesh.api.publish import publish_table
from elfmesh.errors import ElfError, RuntimeFailure
from elfmesh.spark_bridge.joblog import SCHEMA_WAIT_S, JobLog


def require_pyspark() -> None:
    """Raise RuntimeFailure, in one line, unless pyspark is installed.

    Example:
        >>> spark_bridge.require_pyspark()
    """
    if importlib.util.find_spec("pyspark") is None:
        raise RuntimeFailure("Spark needs the package pyspark: pip install 'elfmesh[spark]'.")


CONNECT_PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
}
"""What PySpark imports of others for a Spark Connect server, and where it comes from."""


def require_connect() -> None:
    """Raise RuntimeFailure, in one line, unless the packages of Spark Connect's client are installed."""
    missing = [package for module, package in CONNECT_PACKAGES.items() if not _is_there(module)]
    if missing:
        raise RuntimeFailure(
            f"Spark Connect needs {', '.join(missing)}: pip install 'elfmesh[spark-connect]'."
        )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is in
        return False


JAVA_MIN = 17
"""What Spark 4 needs."""


def require_java() -> None:
    """Raise RuntimeFailure, in one line, unless a Java runtime, new enough, is where Spark looks for one.

    Example:
        >>> spark_bridge.require_java()
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH and JAVA_HOME is not set"
        raise RuntimeFailure(f"Spark needs Java {JAVA_MIN} or later: no java {place}.")
    version = java_version(found)
    if version is not None and version < JAVA_MIN:
        raise RuntimeFailure(f"Spark needs Java {JAVA_MIN} or later: {found} is Java {version}.")


@lru_cache(maxsize=8)
def java_version(java: str) -> int | None:
    """The major version that a Java runtime says it is; None if it says nothing of the kind."""
    try:
        reported = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', reported.stderr + reported.stdout)
    return int(found[1]) if found else None


def local_session(app_name: str = "elfmesh", *, cores: int = 2, **conf: str) -> Any:
    """A local SparkSession whose Python workers run this interpreter and find this package.

    Args:
        app_name: shown in Spark's own page.
        cores: threads of the local master.
        **conf: further Spark settings, with `__` for each dot (`spark__sql__shuffle__partitions="2"`).

    Raises:
        RuntimeFailure: pyspark or Java is missing.

    Example:
        >>> from elfmesh import spark_bridge
        >>> spark = spark_bridge.local_session()
        >>> spark.range(3).count()
        3
    """
    require_pyspark()
    require_java()
    from pyspark.sql import SparkSession

    # Workers run `python3` from the PATH unless told otherwise, which need not be the Python we live in.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Everything here is local; without this, Spark looks for the host's address and warns about it.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A checkout or an editable install is not on the workers' path.
    home = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *(path for path in paths if path)])
    builder = (
        SparkSession.builder.appName(app_name)
        .master(f"local[{cores}]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def any_session(master: str | None = None) -> Iterator[Any]:
    """A session for a command: of this machine, of a cluster's master, or of a Spark Connect server.

    Args:
        master: "local[4]", "spark://host:port", "yarn", ..., or "sc://host:port"; None: this machine.

    Raises:
        RuntimeFailure: pyspark or Java is missing, or no server answers there.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    session = _session(master)
    try:
        yield session
    finally:
        if before is None:  # else it is another's
            session.stop()


def _session(master: str | None) -> Any:
    if master is None or master.startswith("local"):
        return local_session("elf") if master is None else local_session("elf", spark__master=master)
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):
        require_connect()
    builder = SparkSession.builder.appName("elf")
    try:
        if master.startswith("sc://"):
            return builder.remote(master).getOrCreate()
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = builder.master(master).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except ElfError:
        raise
    except Exception as error:  # Spark's own kinds are many, and some are Java's
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RuntimeFailure(f"no Spark session at {master}: {text}") from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def register(spark: Any) -> None:
    """Make `format("elf")` known to a session that does not find `pyspark_elf` by itself.

    Example:
        >>> spark_bridge.register(spark)
    """
    require_pyspark()
    from pyspark.errors import AnalysisException

    from elfmesh.spark_bridge.source import ElfDataSource

    try:
        spark.dataSource.register(ElfDataSource)
    except AnalysisException as error:
        # PySpark before 4.1 refuses what it has found by itself, which then is this same class.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def publish(
    df: Any, name: str, *, api: str | None = None, jobs: Sequence[str] = (), dry_run: bool = False
) -> list[dict[str, Any]]:
    """Give running jobs that declare `TABLE name(...)` the rows of a DataFrame, from one boundary on.

    Args:
        df: a DataFrame of Spark or pandas, or a pyarrow Table; small: it comes to the driver, and goes to
            every agent with the job's text.
        name: of the table; `lookup.name` in the jobs' queries.
        api: as `results`; the first address is asked.
        jobs: which; none: all that declare the table.
        dry_run: only say what would happen.

    Returns:
        Per job the answer of its update (version, effective_interval, ...), with rows, bytes and digest.

    Raises:
        ElfError: no agent answers, no job declares the table, the rows do not fit or are too many.

    Example:
        >>> prices = spark.createDataFrame([("lamp", 5.0)], "product STRING, price DOUBLE")
        >>> [told["rows"] for told in spark_bridge.publish(prices, "prices", api="127.0.0.1:7401")]
        [1]
    """
    client = Client(api.split(",")[0].strip() if api else None)
    return publish_table(_arrow(df), name, client=client, jobs=jobs, dry_run=dry_run)


def _arrow(df: Any) -> pa.Table:
    if isinstance(df, pa.Table):
        return df
    if hasattr(df, "toArrow"):
        return df.toArrow()
    return pa.Table.from_pandas(df, preserve_index=False)


def results(
    spark: Any, job: str, *, api: str | None = None, schema_wait_s: float = SCHEMA_WAIT_S, **options: object
) -> Any:
    """The final results of a job as a DataFrame.

    Columns: interval_index, interval_start, interval_end, state, rev, completeness, then the query's.

    Args:
        spark: a SparkSession.
        job: "namespace/name".
        api: "host:port" of any agent, or several with commas; ELF_API when None.
        schema_wait_s: how long to wait for a new job's first result.
        **options: further options of the source, such as startingInterval=57 or numPartitions=4.

    Raises:
        ElfError: pyspark is missing, no agent answers, the job is unknown or has no result. Spark is then not
            bothered.

    Example:
        >>> likes = spark_bridge.results(spark, "shop/likes", api="127.0.0.1:7401")
        >>> [(row.product, row.n) for row in likes.collect()]
        [('lamp', 3)]
    """
    require_pyspark()
    from elfmesh.spark_bridge.source import FORMAT

    view = str(options.get("view", "")).removeprefix("rows")
    log = JobLog.of(job, api, view=view)
    ddl = log.ddl(wait_s=schema_wait_s)
    register(spark)
    reader = (
        spark.read.format(FORMAT).schema(ddl).option("job", log.job).option("api", ",".join(log.addresses))
    )
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()
