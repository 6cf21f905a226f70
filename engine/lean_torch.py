"""Imports torch without what only its own compiler needs: a third of the import's time, and 18 MiB.

Torch registers here what its operators give for tensors without data, by decomposing them in Python. No kernel of ours
runs on such tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

FOR_COMPILERS = ("torch._meta_registrations",)


@contextmanager
def without_compiler_parts() -> Iterator[None]:
    """Where torch is first imported within, the modules of `FOR_COMPILERS` are left out; they can be imported after it.

    Does nothing for a torch that is loaded already.
    """
    blanks = {} if "torch" in sys.modules else {name: ModuleType(name) for name in FOR_COMPILERS}
    sys.modules.update(blanks)
    try:
        yield
    finally:
        for name, blank in blanks.items():
            _take_out(name, blank)


def _take_out(name: str, blank: ModuleType) -> None:
    if sys.modules.get(name) is blank:
        del sys.modules[name]
    parent, _, last = name.rpartition(".")
    if getattr(sys.modules.get(parent), last, None) is blank:
        delattr(sys.modules[parent], last)
