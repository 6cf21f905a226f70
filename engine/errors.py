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


class EngineError(PagedChatError):
    """The engine could not start, or stopped while it was needed."""


class ConfigError(PagedChatError):
    """A setting has a value that cannot work."""
