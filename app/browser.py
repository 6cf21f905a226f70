"""Opening the page in the user's browser, where there is one."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Mapping


def has_browser(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser can appear before the user: not over SSH, and with a display where one is needed."""
    if any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return False
    if platform in ("win32", "darwin"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def open_page(url: str) -> threading.Thread:
    """Open ``url`` in a thread, as some browsers keep whoever starts them waiting."""
    thread = threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True)
    thread.start()
    return thread
