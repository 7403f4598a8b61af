"""`elf page`: the file that leads a browser to a page of this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.cli.host.page import leading_to


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("http://127.0.0.1:7/#token", "http://127.0.0.1:7/#token"),
        ('http://h/?a=1&b="2"', "http://h/?a=1&amp;b=&quot;2&quot;"),
    ],
)
def test_the_browser_is_not_given_the_token_as_an_argument(url: str, written: str, tmp_path: Path) -> None:
    page = leading_to(url, tmp_path)
    assert page.stat().st_mode & 0o777 == 0o600
    assert f'content="0; url={written}"' in page.read_text()
    assert f'href="{written}"' in page.read_text()
    assert url not in page.as_uri()
