"""The commands of a chat in a terminal: one function each, found by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...engine.errors import PagedChatError
from ...sessions.lookup import find_session, list_sessions, whole_tree
from ...sessions.reading import reading
from ..chat_link import ChatLink
from ..terminal import local_time
from .conversation import Conversation
from .file_commands import trees_of, write_file
from .list_commands import hit_lines, hits_counted
from .screen import Screen
from .tree_text import beginning, tree_lines

LISTED, HITS = 20, 10
SHOWN_AT_OPEN = 6
"""Messages of a chat that is opened that are shown again."""


@dataclass
class Room:
    """What a command can use.

    Attributes:
        undo: what ``/undo`` does, the latest deletion last: a sentence's beginning and the call.
    """

    link: ChatLink
    conversation: Conversation
    screen: Screen
    database: Path
    undo: list[tuple[str, Callable[[], Any]]] = field(default_factory=list)


Command = Callable[[Room, str], None]
COMMANDS: dict[str, tuple[str, str, Command]] = {}


class Leave(Exception):
    """The user wants to go."""


def command(usage: str, what: str) -> Callable[[Command], Command]:
    """Register a command under the first word of ``usage``."""

    def register(function: Command) -> Command:
        COMMANDS[usage.split()[0]] = (usage, what, function)
        return function

    return register


def run_command(room: Room, line: str) -> None:
    """Do what a line that begins with / says.

    Raises:
        PagedChatError: there is no such command, or it cannot be done.
        Leave: ``/quit``.
    """
    name, _, rest = line.strip().partition(" ")
    known = COMMANDS.get(name)
    if known is None:
        raise PagedChatError(
            f"There is no command {name}; /help shows those there are. A message that begins with / is written //."
        )
    known[2](room, rest.strip())


@command("/help", "this list")
def _help(room: Room, rest: str) -> None:
    for usage, what, _ in COMMANDS.values():
        room.screen.say(f"  {usage:<22} {what}")
    room.screen.say('A line that ends in \\ goes on in the next one; """ begins and ends a block of lines.')
    room.screen.say("Ctrl+C stops a reply, Ctrl+D leaves.")


@command("/new", "begin a new chat")
def _new(room: Room, rest: str) -> None:
    room.conversation.begin()
    room.screen.hint("(a new chat)")


@command("/list [FOLDER]", "the latest chats")
def _list(room: Room, rest: str) -> None:
    with reading(room.database) as connection:
        found = list_sessions(connection, folder=rest or None, limit=LISTED)
    for one in found:
        mark = "*" if one.session.id == room.conversation.session_id else " "
        title = beginning(one.session.title or "New chat", 50)
        room.screen.say(f"{mark} {one.session.id[:12]}  {local_time(one.session.updated_at)}  {title}")
    if not found:
        room.screen.say("There are no chats here yet.")


@command("/open CHAT", "go on with another chat: its id, the beginning of its id, or its title")
def _open(room: Room, rest: str) -> None:
    with reading(room.database) as connection:
        found = find_session(connection, needed(rest, "/open CHAT"))
    show_open(room, room.conversation.open(found.id))


@command("/tree", "the messages of this chat with all branches")
def _tree(room: Room, rest: str) -> None:
    session_id = stored(room)
    with reading(room.database) as connection:
        roots = whole_tree(connection, session_id)
    for line in tree_lines(roots, room.conversation.head_id):
        room.screen.say(line)


@command("/regenerate", "regenerate: another reply in place of the last one")
def _regenerate(room: Room, rest: str) -> None:
    room.conversation.regenerate()


@command("/edit TEXT", "ask the last question in other words")
def _edit(room: Room, rest: str) -> None:
    if not rest:
        room.screen.hint(room.conversation.last("user")["content"])
    room.conversation.edit(needed(rest, "/edit TEXT"))


@command("/continue", "continue a reply that was stopped or cut off")
def _continue(room: Room, rest: str) -> None:
    room.conversation.go_on()


@command("/branch [N]", "the branches of this chat; with a number, go to one of them")
def _branch(room: Room, rest: str) -> None:
    session_id = stored(room)
    with reading(room.database) as connection:
        leaves = _leaves(whole_tree(connection, session_id))
    if not rest:
        for place, leaf in enumerate(leaves, 1):
            mark = "*" if leaf.id == room.conversation.head_id else " "
            room.screen.say(f"{mark} {place:>3}  {leaf.role:<9} {beginning(leaf.content, 60) or '(no text)'}")
        return
    if not rest.isdigit() or not 1 <= int(rest) <= len(leaves):
        raise PagedChatError(f"There is no branch {rest!r}; /branch shows them with their numbers.")
    room.conversation.select(leaves[int(rest) - 1].id)
    show_again(room, room.conversation.branch())


@command("/prev", "the version before this one, of the last message that has several")
def _prev(room: Room, rest: str) -> None:
    show_again(room, room.conversation.step(-1))


@command("/next", "the version after this one")
def _next(room: Room, rest: str) -> None:
    show_again(room, room.conversation.step(1))


@command("/fork", "go on in a new chat that begins with this branch")
def _fork(room: Room, rest: str) -> None:
    made = room.link.call("fork", message_id=room.conversation.last()["id"], mode="branch")
    room.conversation.open(made["id"])
    room.screen.hint(f"(a new chat: {room.conversation.title})")


@command("/title [TITLE]", "say or change what this chat is called")
def _title(room: Room, rest: str) -> None:
    session_id = begun(room)
    if rest:
        room.link.call("rename", session_id=session_id, title=rest)
    room.conversation.branch()
    room.screen.say(room.conversation.title)


@command("/system [TEXT]", "say or change the system prompt; - for none")
def _system(room: Room, rest: str) -> None:
    conversation = room.conversation
    prompt = None if rest == "-" else rest
    if rest and conversation.session_id is None:
        conversation.new.system_prompt = prompt
    elif rest:
        room.link.call("update_settings", session_id=conversation.session_id, system_prompt=prompt)
        conversation.branch()
    now = conversation.session["system_prompt"] if conversation.session else conversation.new.system_prompt
    room.screen.say(now if now else "(none of this chat's own)" if now is None else "(empty)")


@command("/search QUERY", "search all chats")
def _search(room: Room, rest: str) -> None:
    from ...sessions.reading import open_reader
    from ...sessions.search import Search
    from ...sessions.views import found_view

    with open_reader(room.database) as reader:
        found = found_view(Search(reader, reader).find(needed(rest, "/search QUERY"), HITS))
    for hit in found["hits"]:
        for line in hit_lines(hit):
            room.screen.say(line)
    room.screen.hint(hits_counted(found))


@command("/export FILE [FORMAT]", "write this chat to a new file; FORMAT as in pagedchat sessions export")
def _export(room: Room, rest: str) -> None:
    from ...sessions.exchange.formats import WRITTEN, export

    stored(room)
    file, _, last = needed(rest, "/export FILE [FORMAT]").rpartition(" ")
    name, format_name = (file, last) if file and last in WRITTEN else (rest, "pagedchat")
    made = export(trees_of(room.database, [begun(room)]), format_name)
    target = Path(name).expanduser()
    target = target / made.name if target.is_dir() else target
    if target.exists():
        raise PagedChatError(f"{target} exists already; name another file.")
    write_file(target, made.data, force=False)
    room.screen.hint(f"(wrote {target})")


@command("/delete [branch]", "put this chat in the trash, or only the last question and what follows")
def _delete(room: Room, rest: str) -> None:
    session_id = begun(room)
    if rest == "branch":
        gone = room.link.call("delete_branch", message_id=room.conversation.last("user")["id"])
        room.undo.append(("The branch", lambda: _restored(room, gone["undo"])))
        show_again(room, room.conversation.branch()[-2:])
        room.screen.hint("(the branch is in the trash; /undo brings it back)")
        return
    if rest:
        raise PagedChatError("Write /delete for this chat, or /delete branch for its last question and what follows.")
    temporary = bool(room.conversation.session and room.conversation.session.get("temporary"))
    room.link.call("delete", session_id=session_id)
    room.conversation.begin()
    if temporary:
        room.screen.hint("(the temporary chat is forgotten)")
        return
    room.undo.append(("The chat", lambda: _undeleted(room, session_id)))
    room.screen.hint("(the chat is in the trash; /undo brings it back)")


@command("/undo", "take back the last /delete")
def _undo(room: Room, rest: str) -> None:
    if not room.undo:
        raise PagedChatError("Nothing was deleted here that could be brought back; `pagedchat sessions list --trash`.")
    what, bring_back = room.undo[-1]
    bring_back()
    room.undo.pop()
    room.screen.hint(f"({what.lower()} is back)")


@command("/quit", "leave; Ctrl+D does it too")
def _quit(room: Room, rest: str) -> None:
    raise Leave


def show_open(room: Room, messages: list[dict[str, Any]]) -> None:
    """The end of the branch of a chat that was opened; a reply that is being written is followed."""
    running = bool(messages) and messages[-1]["status"] == "streaming"
    show_again(room, messages[:-1] if running else messages)
    if running:
        room.conversation.attach(messages[-1]["id"])


def show_again(room: Room, messages: list[dict[str, Any]]) -> None:
    """The end of a branch that was written before."""
    if len(messages) > SHOWN_AT_OPEN:
        room.screen.hint(f"({len(messages) - SHOWN_AT_OPEN} earlier messages)")
    for one in messages[-SHOWN_AT_OPEN:]:
        if one["role"] == "user":
            room.screen.say("> " + one["content"].replace("\n", "\n… "))
        elif one["content"]:
            room.screen.text("delta", one["content"])
            room.screen.end()
        if one["role"] == "assistant" and one["status"] not in ("done", "streaming"):
            room.screen.hint(f"({one['status']})")
        elif (one["generation"] or {}).get("finish_reason") == "length":
            room.screen.hint("(the reply met its limit)")


def needed(rest: str, usage: str) -> str:
    """What follows a command's name.

    Raises:
        PagedChatError: nothing does.
    """
    if not rest:
        raise PagedChatError(f"Write {usage}.")
    return rest


def begun(room: Room) -> str:
    """The id of the chat.

    Raises:
        PagedChatError: it has not begun.
    """
    if room.conversation.session_id is None:
        raise PagedChatError("This chat has not begun yet; write something first.")
    return room.conversation.session_id


def stored(room: Room) -> str:
    """The id of the chat, for what asks the database.

    Raises:
        PagedChatError: it has not begun, or is a temporary one.
    """
    session_id = begun(room)
    if room.conversation.session and room.conversation.session.get("temporary"):
        raise PagedChatError("A temporary chat is in no database; /prev and /next go through its versions.")
    return session_id


def _leaves(roots: list[Any]) -> list[Any]:
    found, stack = [], roots[::-1]
    while stack:
        one = stack.pop()
        stack += one.children[::-1]
        if not one.children:
            found.append(one)
    return found


def _undeleted(room: Room, session_id: str) -> None:
    room.link.call("undelete", session_id=session_id)
    room.conversation.open(session_id)


def _restored(room: Room, deletion: str) -> None:
    room.link.call("restore_branch", deletion=deletion)
    room.conversation.branch()
