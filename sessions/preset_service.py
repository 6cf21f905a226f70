"""What the editor of presets asks: how a prompt begins and how long its parts are, what breaks sharing, and since when.

::

    │<------------ stable: the same ids in every chat ------------->│
    system prompt │ policy │ tools │ example messages               │ question, passages … reply
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .errors import SessionError
from .ids import now
from .preset_beginnings import Beginning
from .preset_checks import unstable
from .presets import Preset, canonical_tools, checked_examples
from .sent_files import RETRIEVAL
from .service_core import ServiceCore
from .views import View

LOOKED_AT = 30
"""Chats of a preset that are compared with it."""
OFFERED_PAIRS = 10
_SHOWN_IDS = 2_000
_WORD_IDS = 8
_TEXTS = ("system_prompt", "policy")
_MARKS = ".,;:!?()[]\"'“”‘’"


class PresetService:
    """Looks at presets and their chats; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def preview(self, draft: View) -> View:
        """How a prompt of a preset that is being edited begins.

        Returns:
            "problems": a sentence for each part that cannot be saved; "warnings": {"part", "text", "sentence"} of what
            keeps chats from sharing; "tools": their canonical bytes; "retrieval": what quotes passages where the preset
            has no template; "tokens" of each part, of the template's "marks" around them and of "stable", all that
            chats have in common (None while no model is loaded); "begins": [text, whether it is a control token] of
            that, as far as it is worth showing.
        """
        preset, problems = _read(draft)
        view: View = {
            "problems": problems,
            "warnings": _warnings(preset),
            "tools": preset.tools,
            "retrieval": RETRIEVAL,
        }
        if self._core.engine.status.state != "ready":
            return {**view, "tokens": None, "begins": []}
        stable = await self._stable_ids(preset)
        tokens = await self._lengths(preset)
        tokens["marks"] = max(0, len(stable) - sum(tokens.values()))
        return {**view, "tokens": {**tokens, "stable": len(stable)}, "begins": await self._spell(stable[:_SHOWN_IDS])}

    async def drift(self, preset_id: str) -> View:
        """Whether the latest chats of a preset begin with what it renders to now.

        Returns:
            "chats": how many were compared, those that the loaded model was sent; "stable": tokens of the preset's
            beginning; "groups": {"since", "chats", "token", "theirs", "ours"} of those that differ, the latest first:
            since when, how many, from which token on (counted from 1), and the words that stand there.
        """
        core = self._core
        if core.engine.status.state != "ready":
            return {"chats": 0, "stable": 0, "groups": []}
        preset = await core.read(core.store.presets.preset, preset_id)
        ours = await self._stable_ids(preset)
        number = len(preset.examples) + 1
        found = await core.read(core.store.presets.beginnings, preset_id, core.fingerprint(), number, LOOKED_AT)
        groups: dict[tuple[int, tuple[int, ...]], list[Beginning]] = {}
        for one in found:
            place = _first_difference(one.token_ids, ours)
            if place is not None:
                groups.setdefault((place, tuple(one.token_ids[place : place + 1])), []).append(one)
        told = [await self._group(place, chats, ours) for (place, _), chats in groups.items()]
        return {"chats": len(found), "stable": len(ours), "groups": told}

    async def differs(self, session_id: str, ours: list[int]) -> View | None:
        """The latest chat of the same preset that begins otherwise than this one, within what comes from the preset.

        Args:
            ours: the ids that this chat begins with.

        Returns:
            "session" and "title" of the other chat, "token" (counted from 1) from which on they differ, and the words
            that stand there, "theirs" and "ours"; None if there is none, or this chat began without a preset.
        """
        core = self._core
        preset_id = (await core.session(session_id)).preset_id
        if preset_id is None or core.is_temporary(session_id):
            return None
        try:
            preset = await core.read(core.store.presets.preset, preset_id)
        except SessionError:
            return None
        number = len(preset.examples)
        found = await core.read(core.store.presets.beginnings, preset_id, core.fingerprint(), number, LOOKED_AT)
        for one in found:
            place = None if one.session_id == session_id else _first_difference(one.token_ids, ours)
            if place is not None:
                title = (await core.session(one.session_id)).title
                words = {"theirs": await self._word(one.token_ids, place), "ours": await self._word(ours, place)}
                return {"session": one.session_id, "title": title, "token": place + 1, **words}
        return None

    async def of_chat(self, session_id: str) -> View:
        """A preset, not stored yet, with what a chat has: system prompt, sampling, and in "pairs" the questions and
        answers that may become its examples."""
        opened = await self._core.read(self._core.store.shown_branch, session_id, lambda ids: 0)
        session, messages = opened[0], opened[1]
        pairs: list[list[str]] = []
        for question, answer in pairwise(messages):
            if question.role == "user" and answer.role == "assistant" and answer.content and answer.status == "done":
                pairs.append([question.content, answer.content])
        return {
            "name": session.title or "New preset",
            "system_prompt": session.system_prompt or "",
            "params": session.params,
            "pairs": pairs[:OFFERED_PAIRS],
        }

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _stable_ids(self, preset: Preset) -> list[int]:
        """The ids that every chat of a preset begins with: what two different questions have in common."""
        messages: list[dict[str, Any]] = list(preset.examples)
        if preset.system_turn is not None:
            messages = [{"role": "system", "content": preset.system_turn}, *messages]
        first, second = [
            (await self._core.engine.build_prompt([*messages, {"role": "user", "content": text}], True, now()))
            for text in ("A", "1")
        ]
        return first.prompt_token_ids[: _first_difference(first.prompt_token_ids, second.prompt_token_ids)]

    async def _lengths(self, preset: Preset) -> dict[str, int]:
        tokenize = self._core.engine.tokenize
        examples = [one["content"] for one in preset.examples]
        parts = {name: [getattr(preset, name)] for name in (*_TEXTS, "tools")} | {"examples": examples}
        return {name: sum([len(await tokenize(text)) for text in texts if text]) for name, texts in parts.items()}

    async def _spell(self, ids: list[int]) -> list[list[Any]]:
        return [[text, control] for text, control in await self._core.engine.spell(ids)]

    async def _group(self, place: int, chats: list[Beginning], ours: list[int]) -> View:
        return {
            "since": min(one.created_at for one in chats),
            "chats": len(chats),
            "token": place + 1,
            "theirs": await self._word(chats[0].token_ids, place),
            "ours": await self._word(ours, place),
        }

    async def _word(self, ids: list[int], place: int) -> str:
        """The whole word that the token at ``place`` is in; "" at the end of the ids."""
        if place >= len(ids):
            return ""
        before = await self._core.engine.spell(ids[max(0, place - _WORD_IDS) : place])
        (text, control), *_ = await self._core.engine.spell(ids[place : place + _WORD_IDS])
        if control:
            return text
        begun = before[-1][0] if before and not before[-1][1] and not text[:1].isspace() else ""
        begun = "" if begun[-1:].isspace() else (begun.split() or [""])[-1]
        word = begun + (text.split() or [text])[0]
        return word.strip(_MARKS) or word


def _first_difference(theirs: list[int], ours: list[int]) -> int | None:
    """Index of the first id that differs; None if there is none as far as both go: a chat is known no further."""
    for place, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return place
    return None


def _warnings(preset: Preset) -> list[View]:
    texts = [(name, getattr(preset, name)) for name in (*_TEXTS, "tools")]
    texts += [("examples", one["content"]) for one in preset.examples]
    return [
        {"part": part, "text": one.text, "sentence": one.sentence}
        for part, text in texts
        for one in unstable(text, is_json=part == "tools")
    ]


def _read(draft: View) -> tuple[Preset, dict[str, str]]:
    """A preset of what is typed so far, and a sentence for each part that cannot be one."""
    preset, problems = Preset("", ""), {}
    for name in _TEXTS:
        setattr(preset, name, draft.get(name) if isinstance(draft.get(name), str) else "")
    for name, check in (("tools", canonical_tools), ("examples", checked_examples)):
        try:
            setattr(preset, name, check(draft.get(name)))
        except SessionError as error:
            problems[name] = str(error)
    return preset, problems
