"""Every float16 is widened exactly, with the processor's instruction and without."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import binding, ir

from pagedchat.kernels.cpu import halves
from pagedchat.kernels.cpu.machine_code import target_machine

LANES = 8


def widened(monkeypatch: pytest.MonkeyPatch, has_halves: bool, lanes: int) -> tuple[np.ndarray, str]:
    """All float16 as float32, and the code that did it; ``lanes`` at a time (0: a single one)."""
    monkeypatch.setattr(halves, "HAS_HALVES", has_halves)
    module = ir.Module("halves")
    module.triple = binding.get_process_triple()
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 2)
    function = ir.Function(module, kind, "widen")
    builder = ir.IRBuilder(function.append_basic_block())
    source, target = (ir.VectorType(one, lanes) if lanes else one for one in (ir.HalfType(), ir.FloatType()))
    value = builder.load(builder.inttoptr(function.args[0], source.as_pointer()), align=2)
    builder.store(halves.widen(builder, value), builder.inttoptr(function.args[1], target.as_pointer()), align=4)
    builder.ret_void()
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    code = str(parsed)
    engine = binding.create_mcjit_compiler(parsed, target_machine())
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(engine.get_function_address("widen"))
    every, found = np.arange(1 << 16, dtype=np.uint16), np.zeros(1 << 16, np.float32)
    for first in range(0, 1 << 16, max(1, lanes)):
        call(every.ctypes.data + 2 * first, found.ctypes.data + 4 * first)
    return found, code


@pytest.mark.parametrize("lanes", [0, LANES])
@pytest.mark.parametrize("has_halves", [True, False])
def test_every_half_is_widened_exactly(monkeypatch: pytest.MonkeyPatch, has_halves: bool, lanes: int) -> None:
    if has_halves and not halves.HAS_HALVES:
        pytest.skip("this processor has no instruction for it")
    found, code = widened(monkeypatch, has_halves, lanes)
    expected = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    assert ("fpext" in code) == has_halves
