"""A tokenizer from a GGUF file's own metadata, pre-tokenizer included.

GGUF stores vocabulary, merges and token types, and only the *name* of the rule that splits text before merging
(`tokenizer.ggml.pre`). The rules are llama.cpp's; with the wrong one the same text gets other ids and quality drops
without a sign, so an unknown name is a warning that people see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ModelFileError
from .tokenizer_base import SPACE_MARK, Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4

_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _SYMBOLS
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _SYMBOLS


class PreRule(NamedTuple):
    """How text is split before merging: patterns applied one after another, each isolating its matches.

    Attributes:
        whole_words: a piece that is a token by itself is not merged (`ignore_merges`).
        add_bos: whether the beginning-of-text token is added when the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


_DIGITS_THEN_GPT2 = PreRule((r"\p{N}", _GPT2))
_DEFAULT = PreRule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))
_LLAMA3_RULE = PreRule((_LLAMA3,), whole_words=True, add_bos=True)

PRE_RULES: dict[str, PreRule] = {
    "default": _DEFAULT,
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "roberta-bpe"), PreRule((_GPT2,))),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _DIGITS_THEN_GPT2
    ),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3"), _LLAMA3_RULE),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), PreRule((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"), PreRule((_QWEN2,))),
    "falcon": PreRule((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
}


def tokenizer_from_gguf(metadata: Mapping[str, Any], origin: str = "The file") -> Tokenizer:
    """Build the tokenizer that a GGUF's metadata describes.

    Args:
        metadata: key-value pairs as `GGUFReader` gives them.
        origin: name of the file, for messages.

    Raises:
        ModelFileError: no tokenizer in the file, or one of a kind that is not supported.
    """
    kind = metadata.get("tokenizer.ggml.model")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if kind is None or not tokens:
        raise ModelFileError(f"{origin} carries no tokenizer.")
    types = metadata.get("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    if len(types) != len(tokens):
        raise ModelFileError(f"{origin} is damaged: {len(tokens):,} tokens but {len(types):,} token types.")
    if kind not in ("gpt2", "llama"):
        raise ModelFileError(f"{origin} is sound, but its tokenizer is of the kind {kind!r}, which is not supported.")
    warnings: list[str] = []
    try:
        if kind == "gpt2":
            rule = _rule(metadata.get("tokenizer.ggml.pre"), origin, warnings)
            backend = _byte_level_backend(tokens, metadata.get("tokenizer.ggml.merges") or [], rule)
        else:
            rule = PreRule((), add_bos=True)
            backend = _sentencepiece_backend(metadata, tokens, types)
        return _finish(backend, metadata, tokens, types, rule.add_bos, warnings)
    except Exception as error:  # the library raises bare Exception
        raise ModelFileError(f"{origin} is damaged: its tokenizer makes no sense ({error}). Fetch it again.") from None


def _finish(
    backend: Backend, metadata: Mapping[str, Any], tokens: list[str], types: list[int], add_bos: bool, warnings: list
) -> Tokenizer:
    named = {
        name: metadata[f"tokenizer.ggml.{name}_token_id"]
        for name in ("bos", "eos", "eot", "eom", "unknown", "padding")
        if 0 <= metadata.get(f"tokenizer.ggml.{name}_token_id", -1) < len(tokens)
    }
    ends = {named[name] for name in ("eos", "eot", "eom") if name in named}
    _add_tokens(backend, tokens, types, ends | {named.get("bos", -1)})
    if len(set(tokens)) < len(tokens):
        warnings.append("Some tokens of this model share one spelling; text never gets the later ids.")
    return Tokenizer(
        backend,
        end_ids=ends,
        bos_id=named.get("bos"),
        add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", add_bos)),
        special_tokens={
            label: tokens[named[name]]
            for name, label in (("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"),
                                ("padding", "pad_token"))
            if name in named
        },
        chat_template=metadata.get("tokenizer.chat_template"),
        warnings=warnings,
        num_tokens=len(tokens),
    )  # fmt: skip


def _rule(name: str | None, origin: str, warnings: list[str]) -> PreRule:
    if name in PRE_RULES:
        return PRE_RULES[name]
    what = f"names a pre-tokenizer that is not known here ({name!r})" if name else "names no pre-tokenizer"
    warnings.append(f"{origin} {what}; the default one is used, so answers may be worse than they should be.")
    return _DEFAULT


def _byte_level_backend(tokens: list[str], merges: list[str], rule: PreRule) -> Backend:
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    vocabulary = {token: number for number, token in reversed(list(enumerate(tokens)))}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    backend = Backend(models.BPE(vocabulary, pairs, ignore_merges=rule.whole_words))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_bytes])  # pyright: ignore[reportAttributeAccessIssue]
    backend.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return backend


def _sentencepiece_backend(metadata: Mapping[str, Any], tokens: list[str], types: list[int]) -> Backend:
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers

    vocabulary = {token: number for number, token in reversed(list(enumerate(tokens)))}
    scores = metadata.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
    unknown = next((token for token, kind in zip(tokens, types, strict=True) if kind == UNKNOWN), None)
    normal = {token: number for token, number in vocabulary.items() if types[number] == NORMAL}
    merges = _merges_by_score(scores, normal)
    model = models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    backend = Backend(model)
    prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    spaces = normalizers.Replace(" ", SPACE_MARK)
    steps = [normalizers.Prepend(SPACE_MARK), spaces] if prefix else [spaces]
    backend.normalizer = normalizers.Sequence(steps)  # pyright: ignore[reportAttributeAccessIssue]
    parts = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        parts.append(decoders.Strip(" ", 1, 0))
    backend.decoder = decoders.Sequence(parts)  # pyright: ignore[reportAttributeAccessIssue]
    return backend


def _merges_by_score(scores: list[float], normal: Mapping[str, int]) -> list[tuple[str, str]]:
    """SentencePiece joins the pair whose union scores best: the same as merges ordered by the union's score."""
    found = []
    for token, number in normal.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in normal and right in normal:
                found.append((-scores[number], normal[left], normal[right], left, right))
    found.sort(key=lambda row: row[:3])
    return [(left, right) for *_, left, right in found]


def _add_tokens(backend: Backend, tokens: list[str], types: list[int], always: set[int]) -> None:
    """Control tokens are matched only where special tokens are allowed; user-defined ones always."""
    from tokenizers import AddedToken

    control, user_defined = [], []
    for number, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        if not token:
            continue
        if kind == CONTROL or number in always:
            control.append(AddedToken(token, special=True, normalized=False))
        elif kind == USER_DEFINED and SPACE_MARK not in token:
            user_defined.append(AddedToken(token, special=False, normalized=False))
    backend.add_special_tokens(control)
    backend.add_tokens(user_defined)
