"""The web application: security around everything, then health, API, chat routes, and the page at "/"."""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import FastAPI

from ..engine.client import EngineClient
from ..sessions.chat_service import ChatService
from ..ui.block_text import why_no_text
from ..ui.page import mount_page
from ..ui.routes import ui_router
from .api_health import health_router
from .api_kv import kv_router
from .api_v1 import v1_router
from .chat_socket import chat_router
from .exchange_api import exchange_router
from .installation import Installation
from .operate.api import operate_router
from .operate.recovery import Recovery
from .ports import page_url
from .security import OnlyOurPage, allowed_hosts
from .settings import Settings
from .watch.alerts_api import alerts_router
from .watch.metrics import metrics_router
from .watch.sampler import AlertWatch


def create_app(
    settings: Settings,
    client: EngineClient,
    service: ChatService,
    recovery: Recovery | None = None,
    alerts: AlertWatch | None = None,
    installation: Installation | None = None,
) -> FastAPI:
    """Compose the application. Importing this module loads Gradio, which takes seconds.

    Args:
        settings: ``port`` is the port that is really bound.
        recovery: the way back to a known good configuration; without it none is offered.
        alerts: what warns; without it there are no alerts.
        installation: folders, models and caches, for the settings of the page.

    Returns:
        The application; answers that would go on for ever end when ``state.shutting_down`` is set.
    """
    assert settings.port is not None, "the port is bound before the application is made"
    app = FastAPI(title="pagedchat", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.shutting_down = asyncio.Event()
    own = page_url(settings.host, settings.port).removeprefix("http://")
    app.add_middleware(OnlyOurPage, hosts=allowed_hosts(settings.port, [own, *settings.allowed_host]))
    app.include_router(health_router(client, settings, recovery))
    app.include_router(metrics_router(client))
    app.include_router(v1_router(client))
    app.include_router(kv_router(client, service.branch_tokens, service.salt, partial(why_no_text, service)))
    app.include_router(exchange_router(service.library))
    app.include_router(chat_router(service, client))
    if recovery is not None:
        app.include_router(operate_router(recovery))
    if alerts is not None:
        app.include_router(alerts_router(alerts))
    app.include_router(ui_router(service, client, recovery, alerts, installation))
    return mount_page(app)
