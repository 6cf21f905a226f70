"""The schema, as the steps that led to it.

::

    sessions.head_id ──> messages ──parent_id──> messages ──parent_id──> … root
                             │
                             ├─ generations     how a reply came to be, one row for each run
                             ├─ message_tokens  the ids a message has in a prompt, for each model
                             └─ attachments     files that were sent with it
    sessions ──> folders, presets, drafts, queued
    attachments ──bytes──> documents ──> passages

One truth: a message has one parent, a session has one head. Children, paths and siblings are queries. Every table
that full-text search may index has an explicit integer key (implicit rowids change in VACUUM).
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

from .search_index import rebuild
from .versions import MIGRATION_SET

migrations = Migrations(MIGRATION_SET)

_SESSIONS = """
CREATE TABLE sessions (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    title         TEXT,              -- NULL until the first message
    title_by      TEXT,              -- 'words' (of the first message), 'user' or 'model'
    head_id       TEXT,              -- last message of the branch that is shown
    system_prompt TEXT,              -- NULL: the template's own; '': an empty turn
    preset_id     TEXT,
    model         TEXT,
    params        TEXT NOT NULL DEFAULT '{}',
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL,
    pinned        INTEGER NOT NULL DEFAULT 0,
    archived      INTEGER NOT NULL DEFAULT 0,
    deleted_at    TEXT,
    forked_from   TEXT,              -- message id this session was forked at
    FOREIGN KEY (id, head_id) REFERENCES messages (session_id, id)
)
"""

_MESSAGES = """
CREATE TABLE messages (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    session_id  TEXT NOT NULL REFERENCES sessions (id),
    parent_id   TEXT,
    role        TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    status      TEXT NOT NULL CHECK (status IN ('streaming', 'done', 'stopped', 'interrupted', 'error')),
    error       TEXT,
    hidden      INTEGER NOT NULL DEFAULT 0,   -- a reply that ended without any text
    replaces_id TEXT,                         -- the head before this reply; where it returns to if this stays empty
    shown       INTEGER NOT NULL DEFAULT 0,   -- grows each time the head moves here; decides the last-used leaf
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    deleted_at  TEXT,
    reasoning   TEXT,
    content     TEXT NOT NULL DEFAULT '',     -- last: reading the columns before it touches no overflow page
    UNIQUE (session_id, id),
    FOREIGN KEY (session_id, parent_id) REFERENCES messages (session_id, id)
)
"""

_GENERATIONS = """
CREATE TABLE generations (
    message_id        TEXT NOT NULL REFERENCES messages (id),
    run               INTEGER NOT NULL,      -- 1, then one more for each continuation
    model             TEXT,
    model_fingerprint TEXT,
    params            TEXT NOT NULL,
    seed              INTEGER,
    started_at        TEXT NOT NULL,
    finished_at       TEXT,
    finish_reason     TEXT,
    note              TEXT,
    prompt_tokens     INTEGER,
    cached_tokens     INTEGER,
    computed_tokens   INTEGER,
    completion_tokens INTEGER,
    queue_s           REAL,
    prefill_s         REAL,
    decode_s          REAL,
    ttft_s            REAL,
    blocks_new        INTEGER,
    blocks_shared     INTEGER,
    blocks_copied     INTEGER,
    preemptions       INTEGER,
    PRIMARY KEY (message_id, run)
) WITHOUT ROWID
"""

_MESSAGE_TOKENS = """
CREATE TABLE message_tokens (
    message_id    TEXT NOT NULL REFERENCES messages (id),
    fingerprint   TEXT NOT NULL,             -- of the model the ids belong to
    header_tokens INTEGER NOT NULL DEFAULT 0,-- leading ids of a reply that were its prompt's, not generated
    token_ids     BLOB NOT NULL,             -- int32, little-endian
    PRIMARY KEY (message_id, fingerprint)
)
"""

_SYSTEM_TOKENS = """
CREATE TABLE system_tokens (
    session_id  TEXT NOT NULL REFERENCES sessions (id),
    fingerprint TEXT NOT NULL,
    token_ids   BLOB NOT NULL,
    PRIMARY KEY (session_id, fingerprint)
)
"""

_STATE = "CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"

_INDEXES = (
    "CREATE INDEX messages_by_parent ON messages (session_id, parent_id)",
    "CREATE INDEX messages_streaming ON messages (status) WHERE status = 'streaming'",
    "CREATE INDEX sessions_by_time ON sessions (pinned DESC, updated_at DESC) WHERE deleted_at IS NULL",
)


@migrations()
def m001_sessions(db: Database) -> None:
    """Sessions, the message tree, generations and token ids."""
    for statement in (_SESSIONS, _MESSAGES, _GENERATIONS, _MESSAGE_TOKENS, _SYSTEM_TOKENS, _STATE, *_INDEXES):
        db.execute(statement)


@migrations()
def m002_context(db: Database) -> None:
    """What each reply's prompt left out, because the chat had outgrown the context."""
    for column in (
        "kept_from TEXT",  # id of the first message that was sent; NULL: not known
        "left_out INTEGER",  # messages before it
        "left_out_tokens INTEGER",
    ):
        db.execute(f"ALTER TABLE generations ADD COLUMN {column}")


_LIBRARY = (
    """
CREATE TABLE folders (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT                      -- chats keep naming a deleted folder: undoing brings them back
)
""",
    """
CREATE TABLE presets (                   -- columns in the order in which a prompt has them
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    system_prompt TEXT NOT NULL DEFAULT '',
    policy        TEXT NOT NULL DEFAULT '',
    tools         TEXT NOT NULL DEFAULT '',   -- JSON, always the same bytes for the same tools
    examples      TEXT NOT NULL DEFAULT '[]', -- JSON: [{"role", "content"}, …]
    retrieval     TEXT NOT NULL DEFAULT '',   -- how found passages are quoted at the end of a question
    model         TEXT,
    params        TEXT NOT NULL DEFAULT '{}',
    created_at    TEXT NOT NULL,
    updated_at    TEXT NOT NULL,
    version       INTEGER NOT NULL DEFAULT 1,
    deleted_at    TEXT
)
""",
    """
CREATE TABLE attachments (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    message_id TEXT,                     -- NULL: of a draft
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size       INTEGER NOT NULL,         -- bytes
    sha256     TEXT NOT NULL,            -- names its file
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    FOREIGN KEY (session_id, message_id) REFERENCES messages (session_id, id)
)
""",
    """
CREATE TABLE drafts (
    session_id TEXT PRIMARY KEY,         -- '': the chat that has not begun
    text       TEXT NOT NULL,
    parent_id  TEXT,                     -- where it would be sent
    edits_id   TEXT,                     -- the message it would replace
    version    INTEGER NOT NULL DEFAULT 1,
    updated_at TEXT NOT NULL
) WITHOUT ROWID
""",
    "ALTER TABLE sessions ADD COLUMN folder_id TEXT REFERENCES folders (id)",
    "ALTER TABLE sessions ADD COLUMN version INTEGER NOT NULL DEFAULT 1",  # grows with every change but messages
    "ALTER TABLE sessions ADD COLUMN source TEXT",  # JSON: where an imported chat came from
    "ALTER TABLE sessions ADD COLUMN begun_at TEXT",  # the date in its prompts, if that is not created_at
    "ALTER TABLE messages ADD COLUMN deleted_root TEXT",  # the message whose deletion took this one away
    "ALTER TABLE messages ADD COLUMN copied_from TEXT",  # the message this one is a copy of
    "ALTER TABLE generations ADD COLUMN engine TEXT",  # JSON: what computed it
    "ALTER TABLE generations ADD COLUMN prompt_hash TEXT",  # of the prompt's token ids
    "CREATE UNIQUE INDEX folders_by_name ON folders (name COLLATE NOCASE) WHERE deleted_at IS NULL",
    "CREATE INDEX sessions_by_folder ON sessions (folder_id) WHERE folder_id IS NOT NULL",
    "CREATE INDEX sessions_deleted ON sessions (deleted_at) WHERE deleted_at IS NOT NULL",
    "CREATE INDEX messages_deleted ON messages (deleted_root) WHERE deleted_root IS NOT NULL",
    "CREATE INDEX attachments_by_session ON attachments (session_id, message_id)",
    "CREATE INDEX attachments_by_content ON attachments (sha256)",
)


@migrations()
def m003_library(db: Database) -> None:
    """Folders, presets, attachments, drafts, the trash for branches, and what a reply takes to be made again."""
    for statement in _LIBRARY:
        db.execute(statement)


_SEARCH = (
    "CREATE INDEX messages_by_time ON messages (created_at)",
    "CREATE INDEX messages_with_error ON messages (status) WHERE status = 'error'",
    "CREATE INDEX messages_with_reasoning ON messages (role) WHERE reasoning IS NOT NULL",
    "CREATE INDEX messages_of_other_roles ON messages (role) WHERE role NOT IN ('user', 'assistant')",
    "CREATE INDEX generations_by_model ON generations (model)",
)


@migrations()
def m004_search(db: Database) -> None:
    """The full-text index, where this Python has FTS5, and what the filters of a search ask for."""
    for statement in _SEARCH:
        db.execute(statement)
    rebuild(db.conn)


_PAGE = (
    "ALTER TABLE messages ADD COLUMN kind TEXT",  # NULL: a turn; 'summary': what stands for all that is above it
    "ALTER TABLE messages ADD COLUMN sent_before TEXT",  # what its prompt has before the content: whole files
    "ALTER TABLE messages ADD COLUMN sent_after TEXT",  # and after it: passages of larger ones
    "ALTER TABLE messages ADD COLUMN sources TEXT",  # JSON: what of which file that is
    "ALTER TABLE generations ADD COLUMN own TEXT",  # JSON: parameters chosen for this reply alone
    "ALTER TABLE generations ADD COLUMN given_tokens INTEGER",  # ids of the reply that it was given to begin with
    "CREATE INDEX messages_summaries ON messages (session_id, id) WHERE kind = 'summary'",
    """
CREATE TABLE queued (                    -- messages that wait for the end of a reply
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    after_id   TEXT NOT NULL,            -- the reply it goes under
    place      INTEGER NOT NULL,         -- its turn among those of the reply
    text       TEXT NOT NULL,
    files      TEXT NOT NULL DEFAULT '[]', -- JSON: ids of attachments
    created_at TEXT NOT NULL,
    FOREIGN KEY (session_id, after_id) REFERENCES messages (session_id, id)
)
""",
    """
CREATE TABLE documents (                 -- what a file says, by the SHA-256 of its bytes
    sha256  TEXT PRIMARY KEY,
    text    TEXT,                        -- NULL: it could not be read
    problem TEXT,                        -- why not
    made_at TEXT NOT NULL
)
""",
    """
CREATE TABLE passages (
    key    INTEGER PRIMARY KEY AUTOINCREMENT,
    sha256 TEXT NOT NULL REFERENCES documents (sha256),
    number INTEGER NOT NULL,             -- its place in the document, from 1
    start  INTEGER NOT NULL,             -- characters of the document's text: start to end
    "end"  INTEGER NOT NULL,
    UNIQUE (sha256, number)
)
""",
    "CREATE INDEX queued_by_reply ON queued (session_id, after_id, place)",
)


@migrations()
def m005_page(db: Database) -> None:
    """Summaries that later turns go on from, texts of files in prompts, and messages that wait."""
    for statement in _PAGE:
        db.execute(statement)
