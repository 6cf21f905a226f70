"""What a log may say of an error: its place and kind, and its words only where they cannot quote a chat.

Python's own traceback ends with the error's text, and a parser's or a codec's text quotes what it was given. Logs of
this program never hold text of chats, so such words are left out; the place in the code says what went wrong.
"""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

LONGEST_WORDS = 500
SPEAKING = (
    RuntimeError,
    NotImplementedError,
    RecursionError,
    MemoryError,
    ImportError,
    ModuleNotFoundError,
    AttributeError,
    NameError,
    UnboundLocalError,
    TypeError,
    IndexError,
    ZeroDivisionError,
    SystemExit,
)
"""Kinds whose words come from the interpreter and from numeric libraries, and speak of code. Their subclasses are other
kinds: jinja's errors are RuntimeErrors, say."""


def fault_text(error: BaseException) -> str:
    """The traceback of ``error`` and of what led to it, without words that could quote a text."""
    parts = [_one(error)]
    seen = {id(error)}
    while True:
        caused = error.__cause__ is not None
        earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if earlier is None or id(earlier) in seen:
            return "\n".join(reversed(parts))
        parts += [f"which {'caused' if caused else 'was being handled when there was'}:", _one(earlier)]
        seen.add(id(earlier))
        error = earlier


def print_fault(error: BaseException) -> None:
    """`fault_text` to stderr."""
    print(fault_text(error), file=sys.stderr, flush=True)


def print_faults_without_words() -> None:
    """From now on, errors that nobody catches are printed so, in all threads of this process."""

    def uncaught(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
        print_fault(error.with_traceback(place))

    def uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            print_fault(arguments.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread


def _one(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    kind = type(error).__qualname__
    name = kind if type(error).__module__ == "builtins" else f"{type(error).__module__}.{kind}"
    words = _words(error)
    return "\n".join(filter(None, (frames, f"{name}: {words}" if words else name)))


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        return " ".join(str(part) for part in (error.strerror, error.filename) if part)
    if type(error) in SPEAKING or type(error).__name__ == "OutOfMemoryError":
        return str(error)[:LONGEST_WORDS]
    return ""
