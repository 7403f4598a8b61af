"""Where real logs and the cases of other systems lie: beside the checkout, and not in it."""

from pathlib import Path

DATA = Path(__file__).parents[3] / "shared/data"
