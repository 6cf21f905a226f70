"""Text to token ids and back.

Runs on the `tokenizers` library alone: importing transformers would cost seconds at every start. Decoding is ours and
works on bytes, so that a reply decoded token by token is the reply decoded at once:

    id -> bytes of the token -> joined -> UTF-8, where bytes that form no character are left out
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .errors import ModelFileError
from .reasoning import CLOSE, OPEN

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend

SPACE_MARK = "▁"
# Ends of a turn or a document under their usual names; they count where the model has them as control tokens.
END_NAMES = frozenset(
    {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<EOT>"}
)
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """One model's tokenizer.

    Attributes:
        end_ids: each of these ids ends a reply.
        bos_id: id of the token that begins a text, or None.
        add_bos: prompts begin with `bos_id` unless they do already.
        num_tokens: ids known; the model may have more rows, which mean nothing.
        special_ids: control tokens.
        hidden_ids: those that are left out of visible text: all but the tags around a model's thinking.
        special_tokens: what chat templates may name (``bos_token``, ``eos_token`` ...), as text.
        chat_template: Jinja source that came with the model, or None.
        warnings: plain sentences about what was odd but bearable.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        end_ids: Iterable[int] = (),
        bos_id: int | None = None,
        add_bos: bool = False,
        special_tokens: Mapping[str, str] | None = None,
        chat_template: str | None = None,
        warnings: Sequence[str] = (),
        num_tokens: int | None = None,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._bytes = _BytesById(self._read_bytes)
        added = backend.get_added_tokens_decoder()
        self.added_tokens: dict[int, str] = {number: token.content for number, token in added.items()}
        self._decoding = _Decoding.of(backend)
        self.num_tokens = num_tokens or 1 + max(backend.get_vocab(with_added_tokens=True).values(), default=-1)
        self.bos_id = bos_id
        self.add_bos = add_bos and bos_id is not None
        self.special_tokens = dict(special_tokens or {})
        self.chat_template = chat_template
        self.warnings = list(warnings)
        special = {number for number, token in added.items() if token.special}
        named = {number for number in special if self.added_tokens[number] in END_NAMES}
        self.end_ids = frozenset(end_ids) | named
        self.special_ids = frozenset(special) | self.end_ids
        self._tag_ids = frozenset(number for number, text in self.added_tokens.items() if text in (OPEN, CLOSE))
        self.hidden_ids = self.special_ids - self._tag_ids

    @property
    def strips_leading_space(self) -> bool:
        """Whether a text's first token carries a space that is not part of the text (SentencePiece)."""
        return self._decoding.strip_first_space

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Ids of a text, without a beginning-of-text token.

        Unless ``allow_special``, the names of control tokens in the text are ordinary characters.
        """
        return self.encoding(text, allow_special=allow_special).ids

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a raw prompt as the model expects it: control tokens count, `bos_id` goes first where it belongs."""
        ids = self.encode(text, allow_special=True)
        if self.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            return [self.bos_id, *ids]
        return ids

    def encoding(self, text: str, *, allow_special: bool = False) -> Encoding:
        """Like `encode`, with the place of each token in the text."""
        split = not allow_special
        if self._backend.encode_special_tokens != split:
            self._backend.encode_special_tokens = split
        return self._backend.encode(text, add_special_tokens=False)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of ids; control tokens are left out unless asked for, and so are bytes that form no character."""
        text = self.join_bytes(ids, skip_special=skip_special).decode("utf-8", "ignore")
        return text[1:] if self.strips_leading_space and text.startswith(" ") else text

    def join_bytes(self, ids: Iterable[int], *, skip_special: bool = False) -> bytes:
        """Bytes of ids, one after another."""
        if skip_special:
            ids = [number for number in ids if number not in self.hidden_ids]
        return b"".join(map(self._bytes.__getitem__, ids))

    def token_bytes(self, number: int) -> bytes:
        """Bytes of one token; empty for an id that means nothing."""
        return self._bytes[number]

    def token_id(self, token: str) -> int | None:
        """Id of a token by its name in the vocabulary."""
        return self._backend.token_to_id(token)

    def add_end_ids(self, ids: Iterable[int]) -> None:
        """Let more ids end a reply, such as the turn end of the chat template."""
        self.end_ids |= frozenset(ids)
        self.special_ids |= self.end_ids
        self.hidden_ids = self.special_ids - self._tag_ids

    def _read_bytes(self, number: int) -> bytes:
        if number in self.added_tokens:
            return self.added_tokens[number].encode()
        token = self._backend.id_to_token(number) if 0 <= number < self.num_tokens else None
        return b"" if token is None else self._decoding.to_bytes(token)


class _BytesById(dict[int, bytes]):
    """Bytes of the tokens asked for so far."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, number: int) -> bytes:
        found = self[number] = self._read(number)
        return found


class _Decoding:
    """How a vocabulary spells bytes: byte-level (GPT-2's alphabet) or SentencePiece (``▁`` and ``<0x0A>``)."""

    def __init__(self, *, byte_level: bool, strip_first_space: bool) -> None:
        self.strip_first_space = strip_first_space
        self._alphabet = _byte_alphabet() if byte_level else None

    @classmethod
    def of(cls, backend: Backend) -> _Decoding:
        if backend.decoder is None:
            raise ModelFileError("The model's tokenizer says nothing about decoding; it is not supported.")
        state = json.loads(backend.decoder.__getstate__())
        steps = {step["type"]: step for step in state.get("decoders", [state])}
        if "ByteLevel" in steps:
            return cls(byte_level=True, strip_first_space=False)
        if "Metaspace" in steps:
            return cls(byte_level=False, strip_first_space=steps["Metaspace"].get("prepend_scheme") != "never")
        if "Replace" in steps or "ByteFallback" in steps:
            return cls(byte_level=False, strip_first_space=steps.get("Strip", {}).get("start", 0) > 0)
        raise ModelFileError(f"The model's tokenizer decodes by {', '.join(steps)}, which is not supported.")

    def to_bytes(self, token: str) -> bytes:
        if self._alphabet is None:
            match = _BYTE_TOKEN.fullmatch(token)
            return bytes([int(match[1], 16)]) if match else token.replace(SPACE_MARK, " ").encode()
        try:
            return bytes([self._alphabet[character] for character in token])
        except KeyError:
            return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else the next character from U+0100 on."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(prints)]
    return {chr(byte): byte for byte in prints} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
