"""A chat at a prompt: read a line, do it or answer it, until the user has had enough."""

from __future__ import annotations

import sys
from contextlib import suppress

from ...engine.errors import PagedChatError
from ..chat_link import ChatLink
from ..folders import Folders
from .conversation import Conversation
from .line_input import LineInput
from .screen import Screen
from .slash import COMMANDS, Leave, Room, run_command, show_again, show_open

HISTORY = "chat_history"


def talk_at_prompt(link: ChatLink, conversation: Conversation, folders: Folders, screen: Screen) -> int:
    """Talk until Ctrl+D or /quit; the exit code.

    Raises:
        PagedChatError: the server is gone before the first prompt.
    """
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    lines = LineInput(None if conversation.new.temporary else folders.state / HISTORY, list(COMMANDS))
    room = Room(link, conversation, screen, folders.database)
    _greet(room)
    hinted = False
    while True:
        try:
            text = lines.read()
            hinted = False
        except EOFError:
            screen.say()
            return 0
        except KeyboardInterrupt:
            screen.say()
            if not hinted:
                screen.hint("(Ctrl+D or /quit leaves; /help shows what else there is)")
            hinted = True
            continue
        if not text.strip():
            continue
        try:
            _do(room, text)
        except Leave:
            return 0
        except KeyboardInterrupt:
            screen.say()
        except PagedChatError as error:
            screen.say(f"pagedchat: {error}")
            if link.lost:
                return 1


def _greet(room: Room) -> None:
    status = room.link.call("status")
    where = f"the server at {room.link.url}" if room.link.url else "no server; the model runs for this terminal"
    room.screen.hint(f"{status['model'] or 'pagedchat'} ({where}). /help shows the commands, Ctrl+D leaves.")
    if room.conversation.session_id is not None:
        room.screen.hint(f"({room.conversation.title})")
        with suppress(KeyboardInterrupt):
            show_open(room, room.conversation.branch())


def _do(room: Room, text: str) -> None:
    """Do what was typed."""
    if text.startswith("/") and not text.startswith("//"):
        run_command(room, text)
        return
    news = room.conversation.news()
    if news:
        show_again(room, news)
        room.screen.hint("(the chat went on in another window; send again to answer what is shown now)")
        return
    room.conversation.ask(text[1:] if text.startswith("//") else text)
