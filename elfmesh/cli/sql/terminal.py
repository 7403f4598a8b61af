"""The prompt of `elf sql`: editing, history and Tab, on prompt_toolkit, which the extra `shell` installs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elfmesh.cli.common import say
from elfmesh.cli.sql.completion import ShellNames, completions
from elfmesh.cli.sql.shell import SqlShell
from elfmesh.cli.sql.statements import is_complete
from elfmesh.errors import NotInstalled
from elfmesh.version import VERSION

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings

PROMPT, CONTINUED = "elf> ", "...> "
HISTORY = "elf-sql/history"
"""Path in the directory for the user's state, where `elf/` is the data directory of an agent."""


def run_terminal(shell: SqlShell) -> None:
    """Read inputs from the terminal until Ctrl-D or `.quit`.

    Raises:
        NotInstalled: prompt_toolkit is not installed.
    """
    names = ShellNames(shell.tables)
    prompt = prompt_session(names)
    say(f"elf {VERSION}: .help lists the commands, Ctrl-D leaves")
    while not shell.ended:
        try:
            text = prompt.prompt(PROMPT)
            shell.typed(text)
            names.forget()
        except KeyboardInterrupt:  # Ctrl-C drops what was typed
            continue
        except EOFError:
            return


def prompt_session(names: ShellNames, **streams: Any) -> PromptSession[str]:
    """Return the editor; `streams` are `input` and `output` of a test.

    Raises:
        NotInstalled: prompt_toolkit is not installed.
    """
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
        from prompt_toolkit.document import Document
        from prompt_toolkit.lexers import PygmentsLexer
        from prompt_toolkit.output import create_output
        from pygments.lexers.sql import SqlLexer
    except ImportError:
        hint = "pip install 'elfmesh[shell]', or give statements with -c or on standard input."
        raise NotInstalled("the prompt of elf sql needs prompt_toolkit", hint=hint) from None

    class ShellCompleter(Completer):
        """Completes words, and paths behind `.read`."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            before = document.text_before_cursor
            if before.lstrip().startswith(".read "):
                path = before.lstrip().removeprefix(".read ").lstrip()
                yield from PathCompleter(expanduser=True).get_completions(Document(path), complete_event)
                return
            word, found = completions(before, document.text, names)
            for each in found:
                yield Completion(each, start_position=-len(word))

    given: dict[str, Any] = {"output": create_output(always_prefer_tty=True)} | streams
    return PromptSession(
        multiline=True,
        prompt_continuation=CONTINUED,
        completer=ShellCompleter(),
        complete_while_typing=False,
        complete_in_thread=True,
        history=history(),
        key_bindings=_enter(),
        lexer=None if os.environ.get("NO_COLOR") else PygmentsLexer(SqlLexer),
        **given,
    )


def _enter() -> KeyBindings:
    """Return the meaning of Enter: it ends a complete input, and begins a new line in any other."""
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def history() -> History:
    """Return the inputs of earlier sessions, in a file that only the user can read."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(state).expanduser() / HISTORY
    try:
        _create(path)
    except OSError as error:
        say(f"{path}: {error.strerror}; the history ends with the session")
        return InMemoryHistory()
    return FileHistory(str(path))


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
