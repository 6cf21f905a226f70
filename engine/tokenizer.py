"""Loading the tokenizer that belongs to a model, from a GGUF file or a Hugging Face directory."""

from __future__ import annotations

from pathlib import Path

from .errors import ModelFileError
from .gguf_tokenizer import tokenizer_from_gguf
from .hf_tokenizer import tokenizer_from_directory
from .models.checkpoint import Checkpoint, open_checkpoint
from .models.gguf_file import GGUFCheckpoint
from .tokenizer_base import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]


def load_tokenizer(source: Checkpoint | str | Path) -> Tokenizer:
    """The tokenizer that belongs to a model, from the GGUF's own metadata or from the directory's files.

    Raises:
        ModelFileError: there is none, or one of a kind that is not supported.
    """
    checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source)
    if checkpoint.path.is_dir():
        tokenizer = tokenizer_from_directory(checkpoint.path)
    else:
        assert isinstance(checkpoint, GGUFCheckpoint)
        tokenizer = tokenizer_from_gguf(checkpoint.metadata, str(checkpoint.path))
    if tokenizer.num_tokens > checkpoint.spec.vocab_size:
        raise ModelFileError(
            f"{checkpoint.path} has {tokenizer.num_tokens:,} tokens but only {checkpoint.spec.vocab_size:,} rows of "
            "embeddings; the two do not belong together."
        )
    return tokenizer
