"""The chat that a terminal shows: which one it is, where its branch ends, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...engine.errors import PagedChatError
from ..chat_link import ChatLink
from .following import Follower

View = dict[str, Any]
NOTHING = "There is no reply yet; write something first."


@dataclass
class NewChat:
    """What a chat that has not begun shall begin with; None leaves it to the service."""

    system_prompt: str | None = None
    preset_id: str | None = None
    temporary: bool = False

    def arguments(self) -> dict[str, Any]:
        """For ``create_session``: only what was chosen."""
        return {name: value for name, value in vars(self).items() if value}


class Conversation:
    """One chat, begun or not.

    Attributes:
        session: its view; None while it has not begun.
        head_id: the message that the next one follows.
    """

    def __init__(self, link: ChatLink, follower: Follower, new: NewChat) -> None:
        self._link, self._follower = link, follower
        self.new = new
        self.session: View | None = None
        self.head_id: str | None = None

    @property
    def session_id(self) -> str | None:
        """Its id; None while it has not begun."""
        return self.session["id"] if self.session else None

    @property
    def title(self) -> str:
        """What it is called."""
        return self.session["title"] if self.session else "New chat"

    def begin(self) -> None:
        """A new chat from now on; it is stored with its first message."""
        self.forget_temporary()
        self.session, self.head_id = None, None

    def forget_temporary(self) -> None:
        """A temporary chat ends with the terminal that began it, also where a server has it."""
        if self.session and self.session.get("temporary"):
            session_id, self.session = self.session["id"], None
            with suppress(PagedChatError):
                self._link.call("end_temporary", session_id=session_id)

    def open(self, session_id: str) -> list[View]:
        """Go on with a stored chat; the messages of its shown branch."""
        found = self._link.call("open", session_id=session_id)
        self.session, self.head_id = found["session"], found["session"]["head_id"]
        return found["messages"]

    def branch(self) -> list[View]:
        """The messages of the shown branch, as they are now."""
        return self.open(self.session["id"]) if self.session else []

    def news(self) -> list[View]:
        """Messages of the shown branch that came from another window meanwhile; shown from now on.

        Empty while nothing of the branch changed.
        """
        if self.session is None:
            return []
        known = self.head_id
        messages = self.branch()
        ids = [one["id"] for one in messages]
        if known == self.head_id:
            return []
        return messages[ids.index(known) + 1 :] if known in ids else messages

    # -- replies ----------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> View:
        """Send a message and follow its reply. See `Follower.run`."""

        def send() -> View:
            if self.session is None and self.new.arguments():
                self.session = self._link.call("create_session", **self.new.arguments())
            sent = self._link.call("send", session_id=self.session_id, parent_id=self.head_id, text=text)
            if self.session is None:
                self.open(sent["reply"]["session_id"])
            return sent["reply"]

        return self._run(send)

    def regenerate(self) -> View:
        """Another reply in place of the last one."""
        message = self.last()
        return self._run(lambda: self._link.call("regenerate", message_id=message["id"]))

    def go_on(self) -> View:
        """Continue the last reply."""
        message = self.last()
        return self._run(lambda: self._link.call("continue_reply", message_id=message["id"]))

    def edit(self, text: str) -> View:
        """Ask the last question in other words; the old one stays beside it."""
        question = self.last("user")
        return self._run(lambda: self._link.call("edit", message_id=question["id"], text=text)["reply"])

    def attach(self, message_id: str) -> None:
        """Follow the reply that ends the branch, which somebody else began."""

        def look() -> View:
            return next(one for one in self.branch() if one["id"] == message_id)

        self._follower.attach(look)
        self._catch_up()

    def last(self, role: str | None = None) -> View:
        """The last message of the branch, or the last one of a role.

        Raises:
            PagedChatError: there is none.
        """
        found = [one for one in self.branch() if role in (None, one["role"])]
        if not found:
            raise PagedChatError(NOTHING)
        return found[-1]

    def _run(self, begin: Callable[[], View]) -> View:
        try:
            reply = self._follower.run(begin)
        except (PagedChatError, KeyboardInterrupt):
            self._catch_up()
            raise
        self.head_id = reply["id"]
        if reply["hidden"]:
            self.branch()
        return reply

    def _catch_up(self) -> None:
        """After a reply that could not be followed to its end: the head is where the service left it."""
        try:
            self.branch()
        except PagedChatError:
            return

    # -- branches ---------------------------------------------------------------------------------------------------

    def step(self, by: int) -> list[View]:
        """Show the sibling before (-1) or after (1) of the last message that has any; that sibling and what follows.

        Raises:
            PagedChatError: there is none.
        """
        forks = [one for one in self.branch() if len(one["siblings"]) > 1]
        if not forks:
            raise PagedChatError("This chat has only one branch; /regenerate and /edit make others.")
        fork = forks[-1]
        place = fork["sibling_index"] - 1 + by
        if not 0 <= place < len(fork["siblings"]):
            raise PagedChatError(
                f"This is the {'last' if by > 0 else 'first'} of {len(fork['siblings'])} siblings already."
            )
        return self.select(fork["siblings"][place])

    def select(self, message_id: str) -> list[View]:
        """Show the branch through a message; that message and what follows."""
        self._link.call("select", message_id=message_id)
        messages = self.branch()
        return messages[[one["id"] for one in messages].index(message_id) :]
