"""The text of a PDF, read by pypdf in a process of its own: a hostile file can neither hang the server nor eat its
memory.

::

    bytes ──stdin──> python -m pagedchat.sessions.pdf_text ──stdout──> text, or the name of what is wrong
                     limits: processor time, memory, pages, characters; the parent's clock over all

The limits of the child are the system's own where it has any (not on Windows; there only the clock holds).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import Any

from .extracted import MOST_CHARACTERS, Extract

MOST_PAGES = 2_000
SECONDS = 30.0
"""Longest time that reading may take."""
MEMORY_BYTES = 1 << 30
"""Most address space of the child."""

_PROBLEMS = {
    "password": "This PDF is protected by a password; save it without one and attach that.",
    "scan": "The pages of this PDF are pictures without text, as a scan has them; run text recognition over it first.",
    "pages": f"This PDF has more than {MOST_PAGES:,} pages; attach the part that matters.",
    "slow": f"Reading this PDF took longer than {SECONDS:.0f} s, so it was given up; attach its text instead.",
    "large": "Reading this PDF needs more memory than it may have; attach its text instead.",
    "broken": "This PDF is damaged and cannot be read; open it elsewhere and save it anew.",
}


def is_pdf(data: bytes) -> bool:
    """Whether the bytes are those of a PDF; some programs put a few before its head."""
    return b"%PDF-" in data[:1024]


async def read(data: bytes, *, seconds: float = SECONDS) -> Extract:
    """The text of a PDF, its pages with blank lines between.

    Args:
        seconds: the longest that it may take.
    """
    command = [sys.executable, "-P", "-m", __name__]
    try:
        child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    except OSError:
        return Extract(None, "This PDF cannot be read now, because no program could be started; attach it again.")
    try:
        said, _ = await asyncio.wait_for(child.communicate(data), seconds)
    except TimeoutError:
        return Extract(None, _PROBLEMS["slow"])
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    try:
        answer = json.loads(said)
    except ValueError:  # the system ended it for what it took
        answer = {"problem": "large"}
    return Extract(answer["text"]) if "text" in answer else Extract(None, _PROBLEMS[answer["problem"]])


# -- in the child -------------------------------------------------------------------------------------------------


def _limit() -> None:
    """Have the system end this process when it takes too much."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        seconds = int(SECONDS) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _answer(data: bytes) -> dict[str, Any]:
    import io

    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"problem": "password"}
        if len(reader.pages) > MOST_PAGES:
            return {"problem": "pages"}
        return _text_of(reader)
    except (DependencyError, FileNotDecryptedError):  # a cipher that pypdf does not know by itself
        return {"problem": "password"}
    except MemoryError:
        return {"problem": "large"}
    except Exception:  # whatever a damaged file does to a parser
        return {"problem": "broken"}


def _text_of(reader: Any) -> dict[str, Any]:
    from pypdf.errors import LimitReachedError

    pages: list[str] = []
    size, problem = 0, "scan"
    for page in reader.pages:
        try:
            text = page.extract_text().strip()
        except MemoryError:
            raise
        except Exception as error:  # one bad page does not take the others away
            problem = "large" if isinstance(error, LimitReachedError) else "broken"
            continue
        size += len(text)
        if text:
            pages.append(text)
        if size > MOST_CHARACTERS:
            break
    if not pages:
        return {"problem": problem}
    return {"text": "\n\n".join(pages)}


def _main() -> None:
    logging.disable(logging.CRITICAL)  # pypdf's words quote the file
    data = sys.stdin.buffer.read()
    _limit()
    answer = _answer(data)
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    _main()
