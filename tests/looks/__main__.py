"""Pictures of the page in every state, from the root of the repository: ``python -m tests.looks OUTDIR [NAME …]``.

Each state of the table is put on and looked at in light, in dark and on a phone; ``--view`` takes others, as at 200 %
or in the colours of the system. ``--list`` prints the table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import sync_playwright

from looks.stage import Stage, open_stage
from looks.states import STATES, as_table
from looks.table import State
from support.page_driver import CHROMIUM, CHROMIUM_FLAGS

SETTLE_MS = 250
USUAL = ("light", "dark", "phone")


def main() -> int:
    """Take the pictures; 1 when a state could not be reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.looks", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the pictures go")
    parser.add_argument("names", nargs="*", help="states; all without any")
    parser.add_argument("--view", action="append", choices=[*USUAL, "zoom", "forced"], help="only these views")
    parser.add_argument("--list", action="store_true", help="only print the table of states")
    given = parser.parse_args()
    if given.list or given.folder is None:
        print(as_table())
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        with open_stage(browser, Path(folder)) as stage:
            stage.page.emulate_media(reduced_motion="reduce")  # nothing is caught halfway
            missed = [
                one.name for one in STATES if one.name in (given.names or [one.name]) and not _take(stage, one, given)
            ]
            missed += stage.errors
    print("\n".join(missed))
    return 1 if missed else 0


def _take(stage: Stage, state: State, given: argparse.Namespace) -> bool:
    """All pictures of one state; whether it was reached."""
    try:
        for view in state.seen(stage, given.view or USUAL):
            stage.page.wait_for_timeout(SETTLE_MS)
            stage.page.screenshot(path=given.folder / f"{state.name}-{view}.png")
    except Exception as error:
        stage.page.screenshot(path=given.folder / f"{state.name}-failed.png")
        print(f"{state.name}: {str(error)[:400]}", flush=True)
        stage.begin_again()
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
