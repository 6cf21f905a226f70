"""Errors meant for users: one plain sentence that says what, why and what to do."""

from __future__ import annotations


class PagedChatError(Exception):
    """Base of every error whose text is shown to the user as it is."""


class ModelFileError(PagedChatError):
    """A model file or folder is missing, cut, damaged or of a kind that cannot run here."""


class RequestError(PagedChatError):
    """A request that can never be served as it is: bad parameters, or longer than the context or the pool.

    Attributes:
        param: the field to blame, where it is one.
    """

    def __init__(self, sentence: str, param: str | None = None) -> None:
        super().__init__(sentence)
        self.param = param


class ContextLengthError(RequestError):
    """A prompt that is too long for the context or the pool."""


class EngineError(PagedChatError):
    """The engine could not start, or stopped while it was needed."""


class ConfigError(PagedChatError):
    """A setting has a value that cannot work."""


OUT_OF_MEMORY = (
    "Memory ran out in this step, so its requests were ended; the engine goes on. Close other programs, or start with "
    "smaller --max-num-batched-tokens, --max-num-seqs or --max-model-len."
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception of Python, numpy or torch says that memory ran out."""
    kind = type(error).__name__
    return isinstance(error, MemoryError) or kind == "OutOfMemoryError" or "can't allocate memory" in str(error)
