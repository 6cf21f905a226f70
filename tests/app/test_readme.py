"""What the README says, and the pages it leads to, is true."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import typer

from pagedchat.app.chats.slash import COMMANDS
from pagedchat.app.commands import cli
from pagedchat.app.folders import find_folders
from pagedchat.app.settings import Settings
from pagedchat.app.watch.baseline import LEAST_REPLIES, Baseline
from pagedchat.app.watch.rules import rules_for
from pagedchat.engine.models.hf_dir import _FAMILIES as FAMILIES
from pagedchat.engine.models.quantized import SUPPORTED_KINDS
from pagedchat.sessions.exchange.formats import WRITTEN

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "docs").glob("*.md")}
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def test_the_library_snippet_runs(default_model_path, tmp_path):
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(snippets) == 1
    script = tmp_path / "snippet.py"
    script.write_text(snippets[0], encoding="utf-8")

    result = subprocess.run(
        [sys.executable, "-P", str(script)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=default_model_path.parent,
        timeout=240,
    )

    assert result.returncode == 0, result.stderr
    assert len(result.stdout.strip()) > 20


def test_every_flag_and_command_of_the_readme_exists_and_every_flag_of_serve_is_in_it():
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    serve_flags = {name for option in commands["serve"].params for name in [*option.opts, *option.secondary_opts]}
    table = README[README.index("| flag |") : README.index("Each flag may also be")]
    named = set(re.findall(r"--[a-z][a-z-]+", table))

    assert named <= serve_flags
    assert serve_flags - named - {"--enable-prefix-caching"} == set()
    assert set(commands["models"].commands) == {"list", "pull", "rm"}
    assert set(commands["config"].commands) == {"path", "show", "diff"}
    assert "`pagedchat chat`" in README and "`pagedchat sessions …`" in README
    assert set(re.findall(r"`pagedchat bench ([a-z-]+)", PAGES["measure"])) == set(commands["bench"].commands)
    assert set(commands["alerts"].commands) == {"list", "render"}
    assert r"`pagedchat alerts list \| render`" in README
    for name in ("doctor", "rollback", "check"):
        assert name in commands and f"`pagedchat {name}`" in README and f"`pagedchat {name}`" in PAGES["operate"]


def test_every_flag_of_the_page_about_benches_exists():
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    of_benches, of_checkout = re.split(
        r"^- `python -m tests\.trials eq", PAGES["measure"], maxsplit=1, flags=re.MULTILINE
    )
    options = [option for one in commands["bench"].commands.values() for option in one.params]
    known = {name for option in options for name in [*option.opts, *option.secondary_opts]} | {"--load-profile"}

    assert set(re.findall(r"--[a-z][a-z-]+", of_benches)) <= known
    for name, flags in (("trials", {"--n", "--seed"}), ("looks", {"--list", "--view"})):
        said = subprocess.run(
            [sys.executable, "-m", f"tests.{name}", "--help"], capture_output=True, text=True, cwd=ROOT
        )
        assert f"python -m tests.{name}" in of_checkout and flags <= set(re.findall(r"--[a-z]+", said.stdout)), (
            said.stderr
        )
        if name == "looks":
            views = re.search(r"--view \{([a-z,]+)\}", said.stdout)
            assert views and all(f"`{view}`" in of_checkout for view in views[1].split(","))


def test_every_link_leads_somewhere_and_every_page_is_linked_from_the_readme():
    assert {path.removeprefix("docs/").removesuffix(".md") for path, _ in LINK.findall(README) if path} == set(PAGES)
    for page, text, folder in [
        ("README", README, ROOT),
        *((page, text, ROOT / "docs") for page, text in PAGES.items()),
    ]:
        for path, place in LINK.findall(text):
            assert not path or (folder / path).is_file(), (page, path)
            target = (folder / path).read_text(encoding="utf-8") if path else text
            heads = {head.lower().replace(" ", "-") for head in re.findall(r"^#+ (.+)$", target, re.MULTILINE)}
            assert not place or place in heads, (page, place)


def test_the_summary_of_the_claims_is_that_of_their_table():
    table = PAGES["benchmarks"].split("| claim |")[1].split("\n\n")[0]
    verdicts = Counter(row.strip("|").split("|")[-1].strip() for row in table.splitlines()[2:])

    assert verdicts == {"holds": 6, "partly": 3, "does not": 2, "corrected": 1}
    summary = " ".join(README[README.index("takes twelve") : README.index("[The tables]")].split())
    for words in ("six hold (", "three hold partly (", "two do not, and one is corrected", "88 % of the prompt tokens"):
        assert words in summary, words
    assert "88 % of the prompt tokens" in " ".join(PAGES["benchmarks"].split())


def test_the_readme_asks_for_the_pytorch_that_pagedchat_needs_and_for_formats_it_reads():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (asked,) = re.findall(r"pip install '(torch[^']+)'", README)
    section = README[README.index("### Models") : README.index("## Test")]
    quantized, folders = section.split("- a folder in Hugging Face's format")

    assert asked in needed
    named = set(re.findall(r"\b(?:B?F\d+|I?Q\d_\w+)\b", quantized)) | {"Q3_K", "Q4_K", "Q5_K"}  # "Q2_K to Q6_K"
    assert named == set(SUPPORTED_KINDS)
    assert set(re.findall(r"`(\w+ForCausalLM)`", folders)) == set(FAMILIES)
    assert {name.lower() for name in re.findall(r"GGUF file of the (\w+), (\w+) or (\w+) family", section)[0]} == set(
        FAMILIES.values()
    )


def test_the_terminals_commands_and_options_are_those_of_the_readme():
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    section = PAGES["terminal"]
    table = section[section.index("| command |") : section.index("[Chats as files]")]
    named = set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))
    group = commands["sessions"].commands

    assert named == set(group)
    assert all("--json" in option_names(one) for one in group.values())
    options = set().union(*(option_names(one) for one in group.values()))
    assert set(re.findall(r"--[a-z][a-z-]+", table)) <= options
    above = section[: section.index("`pagedchat sessions` works")]
    assert set(re.findall(r"--[a-z][a-z-]+", above)) == option_names(commands["chat"]) - {"-c", "--help", "-h"}
    assert set(re.findall(r"(?<!\S)`?(/[a-z]+)", above)) <= set(COMMANDS)
    assert set(re.findall(r"`(\w+)`", table)) >= set(WRITTEN)


def option_names(command) -> set[str]:
    """All names of a command's options."""
    return {name for option in command.params for name in option.opts if name.startswith("-")}


def test_the_alerts_of_the_readme_are_those_that_there_are_with_their_settings():
    section = PAGES["alerts"]
    rules = rules_for(Settings(), Baseline("none"))

    assert all(rule.name in section for rule in rules)
    assert {name for name in re.findall(r"`(\w+)`", section) if name.startswith("alert_")} == {
        name for name in Settings.model_fields if name.startswith("alert_")
    }
    assert f"once they have {LEAST_REPLIES} replies" in section


@pytest.mark.skipif(sys.platform != "linux", reason="the README names Linux's folders")
def test_the_folders_of_the_readme_are_those_that_are_used(monkeypatch, tmp_path):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folders = find_folders()

    for folder in (folders.data, folders.models, folders.config, folders.state, folders.cache):
        assert f"`~/{folder.relative_to(tmp_path)}`" in README
