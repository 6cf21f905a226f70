"""Errors meant for users: one plain sentence that says what, why and what to do."""

from __future__ import annotations


class PagedChatError(Exception):
    """Base of every error whose text is shown to the user as it is."""


class ModelFileError(PagedChatError):
    """A model file or folder is missing, cut, damaged or of a kind that cannot run here."""


class RequestError(PagedChatError):
    """A request that can never be served as it is: bad parameters, or longer than the context or the pool."""


class EngineError(PagedChatError):
    """The engine could not start, or stopped while it was needed."""


class ConfigError(PagedChatError):
    """A setting has a value that cannot work."""
