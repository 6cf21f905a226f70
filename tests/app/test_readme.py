"""What the README says is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pagedchat.app.chats.slash import COMMANDS
from pagedchat.app.commands import cli
from pagedchat.app.folders import find_folders
from pagedchat.app.settings import Settings
from pagedchat.app.watch.baseline import LEAST_REPLIES, Baseline
from pagedchat.app.watch.rules import rules_for
from pagedchat.sessions.exchange.formats import WRITTEN

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


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
    assert "`pagedchat chat` and `pagedchat sessions …`" in README
    for name in ("decode", "prefill", "chat", "branch", "serve", "regress", "quality", "scheduling", "sessions"):
        assert name in commands["bench"].commands and f"`pagedchat bench {name}`" in README
    assert set(commands["alerts"].commands) == {"list", "render"}
    assert "`pagedchat alerts list | render`" in README
    for name in ("doctor", "rollback", "check"):
        assert name in commands and f"`pagedchat {name}`" in README


def test_the_terminals_commands_and_options_are_those_of_the_readme():
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    section = README[README.index("### In the terminal") : README.index("### Folders")]
    table = section[section.index("| command |") : section.index("[docs/formats.md]")]
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
    section = README[README.index("### Alerts") : README.index("### As a library")]
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
