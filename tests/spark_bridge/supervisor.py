"""Streaming queries that are started again when Spark's Python worker was too slow to start.

Spark waits 10 s for the process that runs a streaming source, and no setting changes that. On a loaded
machine the process takes longer, and the query ends before the source has run. A supervisor starts such a
query again from its checkpoint. It leaves any other failure to the test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TOO_SLOW = ("Python worker failed to connect back", "Python worker to connect back")
"""What Spark's `PythonWorkerFactory` reports."""

RESTARTS_MAX = 30


class Supervised:
    """A query with the part of `StreamingQuery` that tests use.

    Args:
        start: starts the query, the first time and from its checkpoint.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._query = start()
        self.restarts = 0

    def _restarted(self, error: object) -> bool:
        """Start the query again if this error is that of a slow worker."""
        slow = any(words in str(error) for words in TOO_SLOW)
        if not slow or self.restarts >= RESTARTS_MAX:
            return False
        self.restarts += 1
        self._query = self._start()
        return True

    def exception(self) -> Any:
        """What has ended the query for good, or None."""
        found = self._query.exception()
        return None if found is None or self._restarted(found) else found

    def awaitTermination(self, timeout_s: float) -> bool:  # noqa: N802 - the name that Spark gives it
        """Wait for the end; the time is that of one run.

        Raises:
            Exception: what has ended the query for good.
        """
        while True:
            try:
                ended: bool = self._query.awaitTermination(timeout_s)
                return ended
            except Exception as error:
                if not self._restarted(error):
                    raise

    def stop(self) -> None:
        """End the query."""
        self._query.stop()

    @property
    def status(self) -> Any:
        """What the query does."""
        return self._query.status

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - the name that Spark gives it
        """The newest batch."""
        return self._query.lastProgress
