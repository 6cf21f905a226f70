"""Thread counts follow affinity and control groups; a team runs a function on every thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pagedchat.kernels.cpu import threads


def test_the_default_is_at_most_the_processors_this_process_may_use(monkeypatch):
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: None)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6}, raising=False)
    assert threads.default_threads() == 3


def test_two_threads_of_one_core_count_once(monkeypatch):
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: None)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu % 2)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert threads.default_threads() == 2


@pytest.mark.parametrize(("limit", "expected"), [(2.5, 2), (0.5, 1), (64.0, 8)])
def test_a_control_group_limits_the_threads(monkeypatch, limit, expected):
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: limit)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert threads.default_threads() == expected


QUOTA = {"cpu.cfs_quota_us": "250000\n", "cpu.cfs_period_us": "100000\n"}
CPU_GROUPS = [
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
    ("0::/a/b\n", {"a/b/cpu.max": "50000 100000\n", "a/cpu.max": "300000 100000\n"}, 0.5),
    ("0::/\n", {"a/cpu.max": "150000 100000\n"}, None),
    ("0::/\n", {"cpu.max": "max 100000\n"}, None),
    ("0::/\n1:cpu:/\n", {"unified/cpu.max": "400000 100000\n"}, 4.0),
    (
        "3:cpu,cpuacct:/docker/x\n",
        {"cpu,cpuacct/cpu.cfs_quota_us": "250000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
        2.5,
    ),
    ("3:cpuacct,cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, 2.0),
    ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
    ("3:cpuset:/a\n", {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, None),
    ("0::/a\n", {"a/cpu.max": "nonsense\n"}, None),
]


@pytest.mark.parametrize(("own", "files", "expected"), CPU_GROUPS)
def test_the_tightest_limit_on_the_way_up_counts_in_either_version_of_control_groups(
    tmp_path: Path, own: str, files: dict[str, str], expected: float | None
) -> None:
    root = tmp_path / "root"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert threads.cgroup_cpus(root, tmp_path / "own") == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert threads.cgroup_cpus(tmp_path, tmp_path / "missing") is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux's")
def test_a_process_tied_to_one_processor_computes_with_one_thread() -> None:
    script = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from pagedchat.kernels.cpu.threads import default_threads
assert default_threads() == 1
import torch
from pagedchat.kernels.choose import choose_kernels
for threads in (None, 3):
    print(choose_kernels("cpu", torch.float32, threads).threads, torch.get_num_threads())
"""
    environment = {name: value for name, value in os.environ.items() if name not in threads.LIBRARY_VARIABLES}
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["1", "1", "3", "3"], done.stderr


def test_libraries_start_no_more_threads_than_the_engine_unless_the_user_says_so(monkeypatch) -> None:
    for name in threads.LIBRARY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    threads.limit_libraries(2)
    assert {name: os.environ.pop(name) for name in threads.LIBRARY_VARIABLES} == {
        **dict.fromkeys(threads.LIBRARY_VARIABLES, "2"),
        "OMP_NUM_THREADS": "5",
    }


def test_the_engine_process_limits_libraries_before_it_loads_any() -> None:
    script = "import sys; import pagedchat.engine.worker; print({'numpy', 'torch', 'tokenizers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stdout + done.stderr


def test_every_thread_of_a_team_takes_part():
    team = threads.Team(4)
    meeting, seen = threading.Barrier(4, timeout=20), set()

    def work(thread: int, count: int, token: str) -> None:
        assert count == 4
        meeting.wait()
        seen.add((thread, token, threading.get_ident()))
        meeting.wait()

    for token in ("first", "second"):
        team.run(work, token)
        assert {(thread, name) for thread, name, _ in seen if name == token} == {(i, token) for i in range(4)}
    assert len({ident for _, _, ident in seen}) == 4
    team.close()
