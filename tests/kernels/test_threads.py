"""Thread counts follow affinity and control groups; a team runs a function on every thread."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pagedchat.kernels.cpu import threads


def test_the_default_is_at_most_the_processors_this_process_may_use(monkeypatch):
    monkeypatch.delenv("PAGEDCHAT_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: None)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6}, raising=False)
    assert threads.default_threads() == 3


def test_two_threads_of_one_core_count_once(monkeypatch):
    monkeypatch.delenv("PAGEDCHAT_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: None)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu % 2)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert threads.default_threads() == 2


@pytest.mark.parametrize(("limit", "expected"), [(2.5, 2), (0.5, 1), (64.0, 8)])
def test_a_control_group_limits_the_threads(monkeypatch, limit, expected):
    monkeypatch.delenv("PAGEDCHAT_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cgroup_cpus", lambda: limit)
    monkeypatch.setattr(threads, "core_of", lambda cpu: ("0", str(cpu)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert threads.default_threads() == expected


def test_a_named_number_of_threads_wins(monkeypatch):
    monkeypatch.setenv("PAGEDCHAT_NUM_THREADS", "7")
    assert threads.default_threads() == 7


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    assert threads.cgroup_cpus(tmp_path, own) == 1.5
    own.write_text("0::/\n")
    assert threads.cgroup_cpus(tmp_path, own) is None


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
