"""Sessions and DataFrames for users of Spark.

The module owns the entry points of the bridge and the errors for missing pyspark or Java.
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
from elfmesh.spark_bridge.quiet import quiet_start, reason_of


def require_pyspark() -> None:
    """Raise RuntimeFailure with a message of one line unless pyspark is installed.

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
"""Modules that PySpark imports for Spark Connect, and the packages that contain them."""


def require_connect() -> None:
    """Raise RuntimeFailure with a message of one line unless Spark Connect's packages are installed."""
    missing = [package for module, package in CONNECT_PACKAGES.items() if not _is_there(module)]
    if missing:
        raise RuntimeFailure(
            f"Spark Connect needs {', '.join(missing)}: pip install 'elfmesh[spark-connect]'."
        )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


JAVA_MIN = 17
"""Minimum Java version of Spark 4."""


def require_java() -> None:
    """Raise RuntimeFailure with a message of one line unless Spark can find a recent Java runtime.

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
    """Return the major version that a Java runtime reports; None if its output has no version."""
    try:
        reported = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', reported.stderr + reported.stdout)
    return int(found[1]) if found else None


def local_session(app_name: str = "elfmesh", *, cores: int = 2, **conf: str) -> Any:
    """Return a local SparkSession whose Python workers run this interpreter and find this package.

    Args:
        app_name: name that Spark shows.
        cores: number of threads of the local master.
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

    # Workers run `python3` from the PATH by default, which may be another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Everything is local; without this, Spark looks up the address of the host and prints a warning.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The workers' path does not contain a checkout or an editable install.
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
    with quiet_start(launches=_launches()):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _launches() -> bool:
    """Return whether the next session of this process starts a JVM."""
    from pyspark import SparkContext

    return SparkContext._gateway is None


@contextmanager
def any_session(master: str | None = None) -> Iterator[Any]:
    """Provide a session for a command: on this machine, on a cluster, or on a Spark Connect server.

    Args:
        master: "local[4]", "spark://host:port", "yarn", ..., or "sc://host:port"; None: this machine.

    Raises:
        RuntimeFailure: pyspark or Java is missing, no server answers, or Spark fails inside.
    """
    require_pyspark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    session = _session(master)
    if before is None and not str(master).startswith("sc://"):
        session.sparkContext.setLogLevel("OFF")  # the error of the command has the reason
    try:
        yield session
    except (Py4JError, PySparkException) as error:
        raise RuntimeFailure(f"Spark: {reason_of(error)}") from error
    finally:
        if before is None:  # otherwise the session belongs to the caller
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
        with quiet_start(launches=_launches()):
            session = builder.master(master).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    except ElfError:
        raise
    except Exception as error:  # Spark raises many types of errors, some of them from Java
        raise RuntimeFailure(f"no Spark session at {master}: {reason_of(error)}") from None
    session.sparkContext.setLogLevel("ERROR")
    return session


def register(spark: Any) -> None:
    """Register `format("elf")` in a session that does not find `pyspark_elf` by itself.

    Example:
        >>> spark_bridge.register(spark)
    """
    require_pyspark()
    from pyspark.errors import AnalysisException

    from elfmesh.spark_bridge.source import ElfDataSource

    try:
        spark.dataSource.register(ElfDataSource)
    except AnalysisException as error:
        # PySpark before 4.1 refuses a data source that it has already found, which is this class.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def publish(
    df: Any, name: str, *, api: str | None = None, jobs: Sequence[str] = (), dry_run: bool = False
) -> list[dict[str, Any]]:
    """Publish a DataFrame to running jobs that declare `TABLE name(...)`, from one interval boundary on.

    Args:
        df: DataFrame of Spark or pandas, or pyarrow Table. It must be small, because it is collected in the
            driver and sent to every agent with the job's text.
        name: name of the table; queries use it as `lookup.name`.
        api: as in `results`; the first address is used.
        jobs: names of jobs; none: all jobs that declare the table.
        dry_run: only report what would happen.

    Returns:
        The answer of the update of each job (version, effective_interval, ...), with rows, bytes and digest.

    Raises:
        ElfError: no agent answers, no job declares the table, or the rows do not fit or are too many.

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
    """Return the final results of a job as a DataFrame.

    Columns: interval_index, interval_start, interval_end, state, rev, completeness, then those of the query.

    Args:
        spark: a SparkSession.
        job: "namespace/name".
        api: "host:port" of any agent, or several with commas; ELF_API when None.
        schema_wait_s: how long to wait for the first result of a new job.
        **options: further options of the source, such as startingInterval=57 or numPartitions=4.

    Raises:
        ElfError: pyspark is missing, no agent answers, or the job is unknown or has no result. These errors
            are raised before Spark is called.

    Example:
        >>> likes = spark_bridge.results(spark, "shop/likes", api="127.0.0.1:7401")
        >>> [(row.product, row.n) for row in likes.collect()]
        [('lamp', 3)]
    """
    require_pyspark()
    from elfmesh.spark_bridge.source import FORMAT
    from elfmesh.spark_bridge.source_options import check_names

    check_names(options)
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
