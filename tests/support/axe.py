"""axe-core, the accessibility checker, for browser tests: fetched once with npm and kept in the cache folder.

It is no part of the product and not checked in. Without npm, or without a registry, the tests that need it fail.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from pagedchat.app.folders import find_folders

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async ([tags, off, only, scope]) => {
    const rules = Object.fromEntries(off.map((name) => [name, { enabled: false }]));
    const runOnly = only.length ? { type: 'rule', values: only } : { type: 'tag', values: tags };
    const options = { runOnly, rules, resultTypes: ['violations'], elementRef: false };
    const { violations } = await axe.run(scope, options);
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, any, all }) =>
        `${id}: ${target.join(' ')}: ${[...any, ...all].map((one) => one.message).join('; ').slice(0, 220)}`));
}"""


def axe_script() -> str:
    """The text of axe.min.js.

    Raises:
        AssertionError: it could not be fetched, or is another one than it should be.
    """
    kept = find_folders().cache / "tests" / f"axe-core-{VERSION}.min.js"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            (Path(folder) / kept.name).write_bytes(_fetched(Path(folder)))
            (Path(folder) / kept.name).replace(kept)
    return kept.read_text("utf-8")


def _fetched(folder: Path) -> bytes:
    npm = shutil.which("npm")
    assert npm, "this test needs npm, which fetches axe-core (apt-get install npm)"
    done = subprocess.run(
        [npm, "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )
    assert done.returncode == 0, f"axe-core {VERSION} could not be fetched with npm: {done.stderr.strip()[-300:]}"
    with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as pack:
        member = pack.extractfile("package/axe.min.js")
        assert member is not None, "the package of axe-core has no axe.min.js"
        script = member.read()
    assert hashlib.sha256(script).hexdigest() == SHA256, "the axe-core that was fetched is not the one expected"
    return script


def load_axe(page: Page) -> None:
    """Make ``axe`` known in a page; the page itself loads nothing."""
    page.evaluate(axe_script() + ";0")


def findings(
    page: Page, scope: str | dict[str, Any], off: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> list[str]:
    """What axe finds wrong within a selector, ``rule: element: why`` each; ``off`` are rules left out, and with
    ``only`` no others run."""
    return page.evaluate(RUN, [TAGS, [] if only else list(off), list(only), scope])
