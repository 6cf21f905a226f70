"""Pictures of the page in every state, from the root of the repository: ``python -m tests.looks OUTDIR [NAME …]``.

Each state of the table is put on once and looked at in light, in dark and on a phone. ``--list`` prints the table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import sync_playwright

from looks.stage import PHONE, WIDE, Stage, open_stage
from looks.states import STATES, as_table
from looks.table import State
from support.page_driver import CHROMIUM, CHROMIUM_FLAGS

VIEWS = (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE))
SETTLE_MS = 250


def main() -> int:
    """Take the pictures; 1 when a state could not be reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.looks", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the pictures go")
    parser.add_argument("names", nargs="*", help="states; all without any")
    parser.add_argument("--list", action="store_true", help="only print the table of states")
    given = parser.parse_args()
    if given.list or given.folder is None:
        print(as_table())
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        with open_stage(browser, Path(folder)) as stage:
            missed = [
                one.name
                for one in STATES
                if one.name in (given.names or [one.name]) and not _take(stage, one, given.folder)
            ]
            missed += stage.errors
    print("\n".join(missed))
    return 1 if missed else 0


def _take(stage: Stage, state: State, folder: Path) -> bool:
    """All pictures of one state; whether it was reached."""
    try:
        with state.on(stage):
            narrow = stage.page.viewport_size != WIDE
            for name, scheme, size in VIEWS:
                if not narrow:
                    stage.page.set_viewport_size(size)  # type: ignore[arg-type]
                stage.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                stage.page.wait_for_timeout(SETTLE_MS)
                stage.page.screenshot(path=folder / f"{state.name}-{name}.png")
            if not narrow:
                stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
            stage.page.emulate_media(color_scheme="light")
    except Exception as error:
        stage.page.screenshot(path=folder / f"{state.name}-failed.png")
        print(f"{state.name}: {str(error)[:400]}", flush=True)
        stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        stage.put_back()
        stage.goto("?session=")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
