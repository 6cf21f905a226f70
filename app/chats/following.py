"""One reply in a terminal, from the call that begins it to its last word."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...engine.errors import PagedChatError
from ..chat_calls import LOST
from ..chat_link import ChatLink
from .screen import Screen, stats_line
from .signals import INTERRUPT, Signals

View = dict[str, Any]
LOOK_AGAIN_S = 0.1
WAITING = {
    "fetching": "The model is being fetched.",
    "loading": "The model is being loaded.",
    "starting": "The model is being loaded.",
    "restarting": "The engine starts again.",
}


class Follower:
    """Shows replies while they are written.

    Args:
        stats: say after each reply what it took.
    """

    def __init__(self, link: ChatLink, screen: Screen, signals: Signals, stats: bool) -> None:
        self._link, self._screen, self._signals = link, screen, signals
        self.stats = stats
        self._shown: dict[str, int] = {}

    def run(self, begin: Callable[[], View]) -> View:
        """Wait for the model, call ``begin``, which returns the view of a reply that runs, and show it to its end.

        Ctrl+C stops the reply; a second one leaves it to itself.

        Returns:
            The reply as it is stored.

        Raises:
            BrokenPipeError: nobody reads it any more; it was stopped, and what there is of it is kept.
            PagedChatError: it cannot begin, or the server is gone.
            KeyboardInterrupt: Ctrl+C while it is being stopped.
        """
        wait_ready(self._link, self._screen)
        with self._link.events() as events, self._signals.into(events):
            reply = begin()
            try:
                end = self._follow(events.get, reply)
                self._screen.end()
            except BrokenPipeError:
                with suppress(PagedChatError):
                    self._link.call("stop", message_id=reply["id"])
                raise
        self._tell(end)
        return end

    def attach(self, look: Callable[[], View]) -> View:
        """Show a reply that somebody else began, from its beginning to its end. See ``run``.

        Args:
            look: returns its view as it is now.
        """

        def begin() -> View:
            reply = look()
            for kind, part in (("reasoning", "reasoning"), ("delta", "content")):
                self._shown[kind] = len(reply[part] or "")
                if reply[part]:
                    self._screen.text(kind, reply[part])
            return reply

        self._shown = {}
        return self.run(begin)

    def _follow(self, next_event: Callable[[], View], reply: View) -> View:
        message_id, shown = reply["id"], self._shown
        self._shown = {}
        if reply["status"] != "streaming":
            return reply
        stopping, trouble = False, None
        while True:
            event = next_event()
            kind = event["type"]
            if kind == INTERRUPT:
                if stopping:
                    self._screen.end()
                    raise KeyboardInterrupt
                stopping = True
                self._link.call("stop", message_id=message_id)
            elif kind == LOST:
                self._screen.end()
                raise PagedChatError(event["message"])
            elif kind in ("delta", "reasoning") and event["message_id"] == message_id:
                self._screen.text(kind, event["text"][max(0, shown.get(kind, 0) - event["offset"]) :])
            elif kind == "message" and event["message"]["id"] == message_id:
                message = event["message"]
                if message["status"] != "streaming":
                    return message
                if message["error"] and message["error"] != trouble:
                    trouble = message["error"]
                    self._screen.say(f"pagedchat: {trouble}")

    def _tell(self, reply: View) -> None:
        status, reason = reply["status"], (reply.get("generation") or {}).get("finish_reason")
        if status == "stopped":
            kept = "what there is of it is kept" if reply["content"] or reply["reasoning"] else "there was no text yet"
            self._screen.hint(f"(stopped; {kept})")
        elif reason == "length":
            self._screen.hint("(the reply met its limit)")
        if reply["error"]:
            self._screen.say(f"pagedchat: {reply['error']}")
        if self.stats:
            self._screen.hint(stats_line(reply))


def wait_ready(link: ChatLink, screen: Screen) -> View:
    """Wait until the model answers, saying what it waits for.

    Returns:
        The engine's status (see `chat_calls.status_view`).

    Raises:
        PagedChatError: it cannot be loaded.
    """
    told = ""
    while (status := link.call("status"))["state"] != "ready":
        if status["state"] == "failed":
            raise PagedChatError(status["message"] or "The engine could not start.")
        line = WAITING.get(status["state"], "The engine is not ready yet.")
        if line != told:
            told = line
            screen.hint(line)
        time.sleep(LOOK_AGAIN_S)
    for warning in status["warnings"]:
        screen.once(f"pagedchat: {warning}")
    if status["compiling"]:
        screen.once("Compiled kernels are being made; until they are ready, replies are slow.")
    return status
