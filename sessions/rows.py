"""What the store hands out: sessions, messages and how replies came to be, as plain values."""

from __future__ import annotations

import json
import sqlite3
import sys
from array import array
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Status = Literal["streaming", "done", "stopped", "interrupted", "error"]

INTERRUPTED = "This reply was cut off because pagedchat ended while it was being written."


@dataclass(slots=True)
class Session:
    """One chat. ``system_prompt`` None is the template's own, "" a real empty turn; ``params`` holds overrides only.

    Attributes:
        forked_from: id of the message (of another chat) that this one was forked at.
        folder_id: None where its folder is deleted.
        version: grows with every change of the chat itself, not with its messages.
        source: JSON, where an imported chat came from.
        begun_at: when the chat began that this one continues, a fork say; None if that is ``created_at``.
    """

    id: str
    title: str | None
    title_by: str | None
    head_id: str | None
    system_prompt: str | None
    model: str | None
    params: dict[str, Any]
    created_at: str
    updated_at: str
    pinned: bool
    archived: bool
    deleted_at: str | None
    preset_id: str | None
    forked_from: str | None
    folder_id: str | None
    version: int
    source: str | None
    begun_at: str | None

    @property
    def prompt_date(self) -> str:
        """The moment whose date stands in its prompts: a fork keeps it, so that its prompts begin with the same ids."""
        return self.begun_at or self.created_at

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Session:
        """Read ``SESSION_COLUMNS`` of a row; parameters that are not an object read as none."""
        found = cls(*row)
        found.params = json_object(row["params"])
        found.pinned, found.archived = bool(found.pinned), bool(found.archived)
        return found


@dataclass(slots=True)
class Generation:
    """One run of the model for a reply. Times in seconds, sizes in tokens or blocks.

    Attributes:
        kept_from: id of the first message that the prompt had; None where it is not known.
        left_out, left_out_tokens: messages before it, which did not fit into the context.
        engine: JSON, what computed it.
        prompt_hash: names the token ids of its prompt.
        own: JSON, those of its parameters that were chosen for this reply alone; None if none were.
        given_tokens: leading ids of the reply that were given, not sampled: those of another version down to a token,
            and the one that was chosen in its place. None for a reply that began by itself.
    """

    message_id: str
    run: int = 1
    model: str | None = None
    model_fingerprint: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    started_at: str = ""
    finished_at: str | None = None
    finish_reason: str | None = None
    note: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    computed_tokens: int | None = None
    completion_tokens: int | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    ttft_s: float | None = None
    blocks_new: int | None = None
    blocks_shared: int | None = None
    blocks_copied: int | None = None
    preemptions: int | None = None
    kept_from: str | None = None
    left_out: int | None = None
    left_out_tokens: int | None = None
    engine: str | None = None
    prompt_hash: str | None = None
    own: str | None = None
    given_tokens: int | None = None

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Generation:
        """Read ``GENERATION_COLUMNS`` of a row."""
        found = cls(*row)
        found.params = json_object(row["params"])
        return found


@dataclass(slots=True)
class MessageFile:
    """A file that was sent with a message. ``size`` in bytes."""

    id: str
    name: str
    media_type: str
    size: int
    sha256: str


@dataclass(slots=True)
class Message:
    """One node of a session's tree.

    Attributes:
        content: what was written; of a reply, the answer.
        reasoning: what a model that marks its thinking thought before its answer; None if nothing.
        hidden: a reply that ended without any text; no path or sibling list names it.
        deleted_at, deleted_root: it is in the trash, since that message was deleted.
        copied_from: id of the message that it is a copy of.
        kind: "summary" for one that stands for all that is above it; None for a turn.
        sent_before, sent_after: what its prompt has around the content: texts of its files.
        sources: JSON, what of which file that is.
        siblings: ids of the visible messages under the same parent, in the order they were made.
        files: those that were sent with it.
        generation: the last run, of a reply that has been started by a model.
    """

    id: str
    session_id: str
    parent_id: str | None
    role: Role
    content: str
    status: Status
    error: str | None
    hidden: bool
    replaces_id: str | None
    created_at: str
    deleted_at: str | None
    deleted_root: str | None
    copied_from: str | None
    reasoning: str | None
    kind: str | None = None
    sent_before: str | None = None
    sent_after: str | None = None
    sources: str | None = None
    siblings: list[str] = field(default_factory=list)
    generation: Generation | None = None
    files: list[MessageFile] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether it has neither content nor reasoning."""
        return not self.content and not self.reasoning

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Message:
        """Read ``MESSAGE_COLUMNS`` of a row."""
        found = cls(*row)
        found.hidden = bool(found.hidden)
        return found


@dataclass(slots=True)
class ReplyTokens:
    """Token ids that a run brought, to be stored with what it wrote.

    Attributes:
        fingerprint: the model they belong to.
        header_tokens: leading ids of ``token_ids`` that are the reply's header, not generated.
        token_ids: the reply in a prompt: header and generated ids; empty to store none.
        segments: message id -> ids it had in the prompt, for messages that came without.
            A message that the template does not show apart has none.
        system_prompt, system_ids: the system turn of that prompt, if it had one.
    """

    fingerprint: str
    header_tokens: int = 0
    token_ids: bytes = b""
    segments: dict[str, bytes] = field(default_factory=dict)
    system_prompt: str | None = None
    system_ids: bytes | None = None


@dataclass(slots=True)
class PromptPath:
    """A branch as a prompt needs it: the session's settings, the messages from the root or the last summary down, and
    their known ids.

    Ids are an empty list where the template does not show a message apart.

    Attributes:
        summary: what stands for all that is above the messages; None where they begin at the root.
        kept_from: for each reply, the id of the first message that its own prompt had.
        far: messages at the beginning that come without text and ids because no prompt can hold them, and how many
            tokens they have.
    """

    session: Session
    messages: list[Message]
    token_ids: dict[str, list[int]]
    system_ids: list[int] | None
    kept_from: dict[str, str] = field(default_factory=dict)
    far: dict[str, int] = field(default_factory=dict)
    summary: Message | None = None


GENERATION_FIELDS = tuple(one.name for one in fields(Generation))
GENERATION_COLUMNS = ", ".join("g." + name for name in GENERATION_FIELDS)
_FOLDER = "(SELECT f.id FROM folders f WHERE f.id = s.folder_id AND f.deleted_at IS NULL) AS folder_id"
SESSION_COLUMNS = ", ".join(_FOLDER if one.name == "folder_id" else "s." + one.name for one in fields(Session))
_NOT_ROWS = ("siblings", "generation", "files")
MESSAGE_COLUMNS = ", ".join("m." + one.name for one in fields(Message) if one.name not in _NOT_ROWS)


def pack(token_ids: array[int] | list[int]) -> bytes:
    """Token ids as int32, little-endian."""
    values = array("i", token_ids)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def unpack(blob: bytes) -> list[int]:
    """The inverse of ``pack``."""
    values = array("i")
    values.frombytes(blob[: len(blob) - len(blob) % values.itemsize])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def json_object(text: str | None) -> dict[str, Any]:
    """What a column of JSON spells; empty if that is no object."""
    if text == "{}":
        return {}
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
