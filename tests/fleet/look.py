"""A look at the live page from one host: `python -m tests.fleet.look URL JOB` prints what it shows of a job.

Run where the page is reachable, which the test itself is not.
"""

from __future__ import annotations

import json
import sys

from tests.e2e.browser import Browser

ROWS = "[aria-label='Rows of the interval'] tbody tr"
SHOWN = f"""JSON.stringify({{
  rows: [...document.querySelectorAll("{ROWS}")].map((row) =>
    [...row.children].map((each) => each.textContent))
}})"""


def main() -> None:
    url, job = sys.argv[1:]
    with Browser() as browser:
        browser.open(url)
        browser.until("document.getElementById('pulse').className.includes('good')")
        browser.run(f"location.hash = '#/job/{job}'")
        browser.until(f"""document.querySelectorAll("{ROWS}").length > 0""")
        shown = json.loads(browser.run(SHOWN))
    print(json.dumps(shown | {"errors": browser.errors}))


if __name__ == "__main__":
    main()
