"""The last lines of refusals: what the user does next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.zygote import elf


@pytest.mark.parametrize(
    ("arguments", "exit_code", "remedy"),
    [
        (("run", "-f", "binary", "log"), 65, "Save the text as UTF-8."),
        (("explain", "-f", "binary"), 65, "Save the text as UTF-8."),
        (("blazes", "binary.elfql"), 65, "Save the text as UTF-8."),
        (("blazes", "binary.json"), 65, "Save the text as UTF-8."),
        (("blazes", "bad.json"), 65, "Write the file as JSON"),
        (("blazes", "."), 65, "Save the text as UTF-8."),
        (("blazes", "nothing"), 2, "Name annotation files one by one."),
        (("blazes", "wires.json", "--seal", "q=k"), 2, "There are a, b."),
        (("plan", "--topology", "bad.json", "--budget", "1"), 65, "Write the file as JSON"),
        (("plan", "--topology", "list.json", "--budget", "1"), 65, 'Write {"operators": [...]}'),
        (("run", "SELECT 1 AS n FROM log", "log", "--format", "grok:%{X:y}"), 2, "--pattern X=REGEX"),
        (("run", "SELECT 1 AS n FROM log", "log", "--from", "2 h", "--to", "3 h"), 2, "Exchange"),
        (("agent", "-c", "kind.toml"), 78, "`elf schema` has the type of each key."),
        (("agent", "--data-dir", "/proc/x"), 78, "Name a directory that the agent may write"),
        (("check", "nothing"), 78, "Name the data_dir of an agent."),
        (("dead-letters", "none"), 1, "Check the path."),
        (("init", "none"), 2, "Check the path."),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_a_refusal_ends_with_a_remedy(
    arguments: tuple[str, ...], exit_code: int, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("binary", "binary.elfql", "binary.json"):
        (tmp_path / name).write_bytes(b"\xff")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "wires.json").write_text('{"C": {"annotation": {"from": "a", "to": "b", "label": "CR"}}}')
    (tmp_path / "kind.toml").write_text('[limits]\ncpu_percent = "many"\n')
    (tmp_path / "log").write_text("a\n")
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path)
    done = elf(*arguments)
    assert done.returncode == exit_code, done.stderr
    assert f"\n  {remedy}" in done.stderr or remedy in done.stderr.split("\n  ")[-1]
