"""What other programs put where we have text: lists of parts, thoughts in markup, calls of tools, data addresses."""

from __future__ import annotations

import html
import re
from typing import Any

from ..rows import Generation
from .report import Mends
from .tree import Attached
from .values import as_count, as_dict, as_list, as_name, as_number, as_text, data_of_url, json_text

_OPEN, _CLOSE, _SUMMARY = '<details type="reasoning"', "</details>", "</summary>"
_ADDRESS = 300  # characters of one that is named
_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def text_of(content: Any, mends: Mends, files: list[Attached] | None = None) -> str:
    """The text of a message's ``content``: a text, or OpenAI's list of parts, whose pictures go to ``files``."""
    if isinstance(content, str) or content is None:
        return as_text(content)
    if isinstance(content, list):
        parts = [_part(one, mends, files) for one in content]
        return "\n\n".join(one for one in parts if one)
    mends["text"] += 1
    return as_text(content)


def _part(part: Any, mends: Mends, files: list[Attached] | None) -> str:
    if isinstance(part, str):
        return as_text(part)
    found = as_dict(part)
    if isinstance(found.get("text"), str):
        return as_text(found["text"])
    address = found.get("image_url")
    url = as_dict(address).get("url") if isinstance(address, dict) else address
    if url is not None:
        return picture(url, "image", mends, files)
    mends["kind"] += 1
    return as_text(part)


def picture(url: Any, name: str, mends: Mends, files: list[Attached] | None) -> str:
    """Attach the file that a ``data:`` address holds and return "", or return a line that names what is missing."""
    found = data_of_url(url)
    if found is None or files is None:
        mends["attachment"] += 1
        return missing(as_text(url)[:_ADDRESS] if isinstance(url, str) and not found else name)
    files.append(Attached(name, *found))
    return ""


def missing(name: str) -> str:
    """The line that stands for a file which did not come along."""
    return f"[attachment: {name}]"


def thoughts_of(text: str) -> tuple[str, str | None]:
    """(answer, thoughts): takes thoughts out that were kept in the text as markup, at its beginning or between."""
    match = _THINK.match(text)
    if match:
        return text[match.end() :], match[1].strip() or None
    answer, thoughts, place = [], [], 0
    while (start := text.find(_OPEN, place)) >= 0:
        head, end = text.find(">", start), text.find(_CLOSE, start)
        if not 0 <= head < end:
            break
        block = text[head + 1 : end]
        if block.lstrip().startswith("<summary>"):
            block = block.partition(_SUMMARY)[2]
        answer.append(text[place:start])
        thoughts.append(_unquoted(block))
        place = end + len(_CLOSE)
        while text[place : place + 1].isspace():
            place += 1
    return "".join([*answer, text[place:]]), joined(*thoughts) or None


def _unquoted(block: str) -> str:
    lines = (re.sub(r"^>\s?", "", html.unescape(line)) for line in block.strip().split("\n"))
    return "\n".join(lines).strip()


def calls_text(calls: Any, mends: Mends) -> str:
    """Calls of tools as a block of JSON; "" where there are none."""
    if isinstance(calls, str):
        shown = as_text(calls).strip()
    else:
        shown = json_text(calls) if as_list(calls) or as_dict(calls) else ""
    if not shown:
        return ""
    mends["tools"] += 1
    return f"```json\n{shown}\n```"


def joined(*texts: str) -> str:
    """Texts one under the other, without the empty ones."""
    return "\n\n".join(one for one in texts if one)


def model_run(model: Any, started_at: str, finished_at: str = "") -> list[Generation]:
    """The run of a reply whose model is known, so that lists and search find it; else none."""
    name = as_name(model)
    if name is None:
        return []
    return [Generation("", model=name, started_at=started_at, finished_at=finished_at or started_at or None)]


def count_tokens(runs: list[Generation], prompt: Any, completion: Any) -> None:
    """Note how many tokens a reply had and its prompt."""
    for run in runs:
        run.prompt_tokens, run.completion_tokens = as_count(prompt), as_count(completion)


def seconds(milliseconds: Any) -> float | None:
    """Milliseconds as seconds, None for what is no number."""
    number = as_number(milliseconds)
    return None if number is None else number / 1000
