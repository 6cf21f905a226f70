"""Branches of one chat side by side: what they share, and what each has after that."""

from __future__ import annotations

from .errors import SessionError
from .rows import Message
from .service_core import ServiceCore
from .views import View

FEWEST, MOST = 2, 4
"""Branches that can be compared at once."""
_MOST_MESSAGES = 60  # of a branch
_FACTS = ("seed", "params")


class ComparisonService:
    """Compares versions of a message, and whole branches."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core
        self._store = core.store

    async def compare(self, message_ids: list[str], *, follow: bool = False) -> View:
        """{"common", "branches"}: how many messages the branches share, and each one's messages after them.

        A branch is {"id", "messages", "more"}: the message that was named, and how many further ones are left out.

        Args:
            message_ids: 2 to 4 messages of one chat; their branches end there.
            follow: the branches go on to the message that was shown last below each.

        Raises:
            SessionError: too few or too many, there is no such message, they are of several chats, or one of the
                branches is the beginning of another.
        """
        if not FEWEST <= len(message_ids) <= MOST or len(set(message_ids)) < len(message_ids):
            raise SessionError(f"Choose {FEWEST} to {MOST} different messages to compare.")
        ends = message_ids
        if follow:
            ends = [await self._core.read(self._store.leaf, one) for one in message_ids]
        paths = await self._core.read(self._store.paths, *ends)
        if len({path[-1].session_id for path in paths}) > 1:
            raise SessionError("Only branches of one chat can be compared; these messages are of several chats.")
        common = shared(paths)
        if any(len(path) == common for path in paths):
            raise SessionError("One of these branches is the beginning of another, so there is nothing to compare.")
        branches = [self._branch(one, path[common:]) for one, path in zip(message_ids, paths, strict=True)]
        return {"common": common, "branches": branches}

    def _branch(self, named: str, messages: list[Message]) -> View:
        shown = messages[:_MOST_MESSAGES]
        return {"id": named, "messages": [self._seen(one) for one in shown], "more": len(messages) - len(shown)}

    def _seen(self, message: Message) -> View:
        view = self._core.seen(message)
        if message.generation is not None and view["generation"]:
            view["generation"] = {**view["generation"], **{name: getattr(message.generation, name) for name in _FACTS}}
        return view


def shared(paths: list[list[Message]]) -> int:
    """How many messages all of these paths begin with."""
    common = 0
    while all(common < len(path) and path[common].id == paths[0][common].id for path in paths):
        common += 1
    return common
