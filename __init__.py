"""pagedchat: a local chat app on its own PagedAttention engine."""

__version__ = "0.1.0"
