"""Compiled code on disk is found by those that it was compiled for, and by nobody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pagedchat.kernels.cpu import compiled

TOLD_FOLDER = "from pagedchat.kernels.cpu import compiled; print(compiled.cache_folder(compiled.Path('x'), '1').name)"


def test_code_for_another_processor_or_from_another_place_has_a_folder_of_its_own(tmp_path: Path, monkeypatch):
    def name_of_folder(**environment: str) -> str:
        command = [sys.executable, "-P", "-c", TOLD_FOLDER]
        told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=True)
        return told.stdout.strip()

    usual = name_of_folder()
    assert usual == compiled.cache_folder(tmp_path, "1").name
    assert name_of_folder(NUMBA_CPU_NAME="generic") != usual
    copy = tmp_path / "copy"
    shutil.copytree(Path(compiled.__file__).parent, copy)
    monkeypatch.setattr(compiled, "__file__", str(copy / "compiled.py"))
    assert compiled.cache_folder(tmp_path, "1").name != usual
