"""A chat in a terminal from the first word to the last: find the chats, answer once or talk, let go."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from ...engine.errors import PagedChatError
from ...sessions.errors import there_are
from ...sessions.lookup import find_session
from ...sessions.reading import reading
from ..background import leave_after
from ..chat_link import ChatLink, ChatsHere, open_link
from ..operate.recovery import load_or_way_back
from ..settings import Configuration
from .conversation import Conversation, NewChat
from .following import Follower
from .loading import begin_loading, ignored_flags
from .once import answer_once, whole_input
from .prompt import talk_at_prompt
from .screen import Screen
from .signals import Ended, Signals

STOP_S = 4.5


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for.

    Attributes:
        message: the words that are no options.
        flags: serve's, by name; None where not given.
    """

    message: str
    go_on: bool
    session: str | None
    system: str | None
    preset: str | None
    temporary: bool
    stats: bool
    flags: dict[str, Any]


def talk(wishes: Wishes) -> int:
    """Chat as ``wishes`` say.

    Returns:
        The exit code.

    Raises:
        PagedChatError: it cannot begin, or the server is gone.
        BrokenPipeError: nobody reads stdout any more; the reply was stopped and kept.
    """
    screen = Screen(sys.stdout, sys.stderr)
    configuration = load_or_way_back(wishes.flags)
    configuration.settings.engine_config("")
    _refuse_contradictions(wishes)
    people = sys.stdin.isatty() and screen.people and not wishes.message
    text = "" if people else whole_input(wishes.message, screen)
    signals = Signals()
    status, link, conversation = 1, None, None
    try:
        link = open_link(configuration.folders, configuration.settings.titles)
        conversation = _conversation(wishes, configuration, link, screen, signals)
        if people:
            status = talk_at_prompt(link, conversation, configuration.folders, screen)
        else:
            status = answer_once(conversation, text)
    except Ended:
        status = 0 if people else 1
    finally:
        leave_after(STOP_S, status)
        if link is not None:
            if conversation is not None:
                conversation.forget_temporary()
            link.close()
    return status


def _refuse_contradictions(wishes: Wishes) -> None:
    """Raises: PagedChatError: two options that cannot both be meant."""
    old = [name for name, given in (("--continue", wishes.go_on), ("--session", wishes.session is not None)) if given]
    new = [
        name for name, given in (("--preset", wishes.preset is not None), ("--temporary", wishes.temporary)) if given
    ]
    if len(old) == 2:
        raise PagedChatError("--continue and --session name two chats; give one of them.")
    if old and new:
        raise PagedChatError(f"{new[0]} begins a new chat, and {old[0]} goes on with an old one; give one of them.")


def _preset_id(link: ChatLink, name: str) -> str:
    presets = link.call("library.presets")
    found = [one["id"] for one in presets if name in (one["id"], one["name"])]
    if not found:
        raise PagedChatError(f'There is no preset "{name}"; {there_are(one["name"] for one in presets)}.')
    return found[0]


def _conversation(
    wishes: Wishes, configuration: Configuration, link: ChatLink, screen: Screen, signals: Signals
) -> Conversation:
    """The chat that is meant, opened, with a model that is being loaded."""
    preset = None if wishes.preset is None else _preset_id(link, wishes.preset)
    new = NewChat(wishes.system, preset, wishes.temporary)
    conversation = Conversation(link, Follower(link, screen, signals, wishes.stats), new)
    if wishes.session is not None:
        with reading(configuration.folders.database) as connection:
            conversation.open(find_session(connection, wishes.session).id)
    elif wishes.go_on:
        last = link.call("last_session")
        if last is None:
            raise PagedChatError("There is no chat yet to go on with; leave out --continue.")
        conversation.open(last["id"])
    if wishes.system is not None and conversation.session_id is not None:
        link.call("update_settings", session_id=conversation.session_id, system_prompt=wishes.system)
    if isinstance(link, ChatsHere):
        for warning in configuration.warnings:
            screen.say(f"pagedchat: {warning}")
        begin_loading(link, configuration)
    else:
        ignored = ignored_flags(configuration)
        if ignored:
            screen.say(f"pagedchat: the server at {link.url} answers, so {ignored} of this start is ignored.")
    return conversation
