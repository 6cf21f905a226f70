"""Why a prompt is not found in the cache from some token on, as one plain sentence."""

from __future__ import annotations

from .views import View

_REASONS = {
    "caching_off": "prefix caching is off, so nothing is kept",
    "evicted": "it was computed before, and its block made room for others",
    "other_text": "what is before it was computed here, but always with another text behind it",
    "not_computed": "it was never computed here",
    "trimmed": "the oldest turns were left out, so that all that follows has moved",
    "template": "the chat template writes an earlier message in another way than it was sent",
}
_ALONE = "it was not computed in this chat, and a temporary chat shares blocks with no other one"


def sentence(found: View, *, where: str | None, begins: str, temporary: bool = False, token: str | None = None) -> str:
    """What a probe found.

    Args:
        found: "prompt_tokens", "cached_tokens", "first_difference" and "reason", see ``Prompting.probe``.
        where: the message that the first token not found is in, in words; None for the header of the reply to come.
        begins: what is told of, for the beginning of the sentence: "This branch".
        token: what the first token not found stands for.
    """
    total, first = found["prompt_tokens"], found.get("first_difference")
    if not total:
        return f"{begins} has no tokens yet."
    if first is None or first >= total:
        return f"{begins} is found whole in the cache: {_tokens(total)}."
    reason = found.get("reason")
    if reason == "new":
        return f"{begins}: {first:,} of {_tokens(total)} are cached; the rest is new."
    if reason in ("not_computed", "other_text") and temporary:
        why = _ALONE
    else:
        why = _REASONS.get(reason or "", "nobody can say why")
    spelled = f" (“{token}”)" if token else ""
    place = f"in {where}" if where else "where the reply begins"
    return f"{begins}: {first:,} of {_tokens(total)} are cached. Token {first + 1:,}{spelled}, {place}, is not: {why}."


def newest_not_fed(total: int, growing: bool) -> str:
    """Of a branch whose last token was chosen, but not fed yet; ``growing``: its reply is being written."""
    if growing:
        return "This branch is found in the cache, but for its newest token, which the next step computes."
    return (
        f"This branch is found in the cache: {_tokens(total - 1)}; its last token was written, but is only computed "
        "when something follows."
    )


def in_prompt(messages: list[View], found: View) -> str | None:
    """Where the first token that a probe of these messages did not find is, in words; None for the reply's header."""
    index, role = found.get("message_index"), found.get("message_role")
    if index is None:
        return None
    if index == len(messages) - 1:
        return "your new message"
    if role == "system":
        return "the system prompt"
    asked = sum(one["role"] == "user" for one in messages[: index + 1])
    if not asked or any("carried" in one for one in messages):  # behind a summary nobody counts from the beginning
        return "an earlier message"
    return f"reply {asked}" if role == "assistant" else f"your message {asked}"


def differs(found: View, spelled: bool) -> str:
    """How a chat begins otherwise than another one of its preset; see ``PresetService.differs``."""
    words = (
        f": “{found['ours']}” here, “{found['theirs']}” there" if spelled and found["ours"] and found["theirs"] else ""
    )
    return (
        f"“{found['title']}” began with the same preset, but token {found['token']:,} differs{words}. From there on "
        "the two chats share no blocks."
    )


def _tokens(count: int) -> str:
    return f"{count:,} token" + ("" if count == 1 else "s")
