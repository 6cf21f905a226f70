"""What is typed at the prompt: editing and history by readline, several lines where they are wanted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PROMPT, MORE = "> ", "… "
BLOCK = '"""'
KEPT_LINES = 2000


class LineInput:
    """Reads messages from the terminal.

    Args:
        history: file that keeps the lines, mode 0600; None keeps none.
        words: that Tab completes at the beginning of a line.
    """

    def __init__(self, history: Path | None, words: Sequence[str] = ()) -> None:
        self._readline: Any = None
        self._history = history
        with suppress(ImportError):
            import readline

            self._readline = readline
            readline.set_auto_history(history is not None)
            readline.set_completer_delims("\n")
            readline.set_completer(lambda text, place: _completion(words, text, place))
            readline.parse_and_bind("tab: complete")
            self._load()

    def read(self) -> str:
        """One message; its lines are those that were typed, without the marks that asked for more.

        Raises:
            EOFError: Ctrl+D.
            KeyboardInterrupt: Ctrl+C.
        """
        line = self._line(PROMPT)
        if line.lstrip().startswith(BLOCK):
            return self._block(line.lstrip()[len(BLOCK) :])
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._line(MORE))
        return "\n".join(lines)

    def _block(self, first: str) -> str:
        lines = [first] if first else []
        while not (lines and lines[-1].rstrip().endswith(BLOCK)):
            lines.append(self._line(MORE))
        lines[-1] = lines[-1].rstrip().removesuffix(BLOCK)
        return "\n".join(lines).strip("\n")

    def _line(self, prompt: str) -> str:
        line = input(prompt)
        if self._history is not None and line.strip() and self._readline is not None:
            with suppress(OSError, AttributeError):
                self._readline.append_history_file(1, self._history)
        return line

    def _load(self) -> None:
        if self._history is None:
            return
        self._readline.set_history_length(KEPT_LINES)
        try:
            self._history.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_RDWR | os.O_CREAT, 0o600))
            self._history.chmod(0o600)
            self._readline.read_history_file(self._history)
            if self._readline.get_current_history_length() >= KEPT_LINES:
                self._readline.write_history_file(self._history)
        except (OSError, UnicodeError):
            self._history = None


def _completion(words: Sequence[str], text: str, place: int) -> str | None:
    found = [word for word in words if text.startswith("/") and word.startswith(text)]
    return found[place] if place < len(found) else None
