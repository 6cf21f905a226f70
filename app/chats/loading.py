"""The model for chats that are open in this process: fetched where it is missing, then loaded in the background."""

from __future__ import annotations

from ..chat_link import ChatsHere
from ..model_store import ModelStore
from ..operate.recovery import resolve_model
from ..settings import KEPT_FIELDS, Configuration


def begin_loading(link: ChatsHere, configuration: Configuration) -> None:
    """Fetch the default model if it is wanted and not here, then begin to load.

    Raises:
        PagedChatError: there is no such model, or it cannot be fetched.
    """
    settings, models = configuration.settings, ModelStore(configuration.folders.models)
    path = resolve_model(configuration, models)
    if path is None:
        from ..model_fetch import ModelFetch
        from ..terminal import fetch_display

        with fetch_display() as show:
            path = ModelFetch(models, show).run()
    link.warnings_of = settings.warnings
    link.start_engine(settings.engine_config(path))


def ignored_flags(configuration: Configuration) -> str:
    """The flags of this start that a server that runs does not follow; "" if there are none."""
    return ", ".join(
        f"--{name.replace('_', '-')}"
        for name, origin in configuration.origins.items()
        if origin == "flag" and name in KEPT_FIELDS
    )
