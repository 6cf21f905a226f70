"""The engine as pages get it: its status, and what is watched about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .views import View

if TYPE_CHECKING:
    from .hub import Hub


def status_view(hub: Hub) -> View:
    """The engine's status for the page; ``configuration`` tells of a problem and a way back (see ``ui_router``)."""
    status = hub.client.status
    view = {"state": status.state, "progress": status.progress, "message": status.message, "info": status.info}
    return {**view, "configuration": hub.recovery.view()} if hub.recovery else view


def alerts_view(hub: Hub) -> View | None:
    """What is watched and what warns, for the page; None where nothing is watched."""
    return hub.alerts.view() if hub.alerts else None
