"""All states of the page, in the order in which they are put on."""

from __future__ import annotations

from looks import (
    states_around,
    states_branches,
    states_chat,
    states_engine,
    states_files,
    states_panel,
    states_settings,
    states_writing,
)
from looks.table import STATES, as_table

__all__ = [
    "STATES",
    "as_table",
    "states_around",
    "states_branches",
    "states_chat",
    "states_engine",
    "states_files",
    "states_panel",
    "states_settings",
    "states_writing",
]
