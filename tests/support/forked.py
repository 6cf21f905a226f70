"""Work in a forked process, which may be killed at any moment."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

DIED = 9


def in_fork(work: Callable[[], object]) -> int:
    """Run ``work`` in a process of its own; its exit code, negative for a signal: 0 done, 1 with a traceback."""
    child = start_fork(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start_fork(work: Callable[[], object]) -> int:
    """The id of a process that runs ``work``, and ends without any of the clean-up of this one."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def kill(child: int) -> int:
    """End a fork at once; its exit code, in case it was quicker."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die() -> None:
    """End this process as a kill would."""
    os._exit(DIED)
