"""Tiles for processors other than this one: the plain code gives the same numbers, the wide code compiles."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import binding, ir
from numba import njit

from pagedchat.kernels.cpu import machine_code, tiles
from pagedchat.kernels.cpu.primitives import call_9


def compile_tiles(define, machine: binding.TargetMachine) -> binding.ModuleRef:
    module = ir.Module("tiles_under_test")
    module.triple = binding.get_process_triple()
    define(module)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(parsed, passes)
    return parsed


def quantized_tiles(module: ir.Module) -> None:
    tiles.quantized_tile(module, "q4", 2, tiles.Q4_BLOCK_BYTES, tiles.emit_q4_block)
    tiles.quantized_tile(module, "q8", 2, tiles.Q8_BLOCK_BYTES, tiles.emit_q8_block)


@njit
def call_tile(address, weights, x, scales, blocks, out):
    call_9(address, (weights, x, blocks * 64, scales, blocks * 8, blocks, out, 64, 0))  # pyright: ignore[reportCallIssue]


def run_tile(engine: binding.ExecutionEngine, name: str, block_bytes: int) -> np.ndarray:
    random = np.random.default_rng(1)
    weights = random.integers(0, 60, 3 * block_bytes, dtype=np.uint8)
    x = random.integers(-32767, 32768, (2, 96), dtype=np.int16)
    scales = random.random((2, 3, 2)).astype(np.float32)
    out = np.zeros((2, 16), np.float32)
    address = engine.get_function_address(name)
    call_tile(address, weights.ctypes.data, x.ctypes.data, scales.ctypes.data, 3, out.ctypes.data)
    return out


def test_code_without_vector_extensions_gives_the_same_numbers(monkeypatch):
    results = []
    for features in (tiles.FEATURES, frozenset()):
        monkeypatch.setattr(tiles, "FEATURES", features)
        machine = machine_code.target_machine()
        parsed = compile_tiles(quantized_tiles, machine)
        assert ("pmadd" in str(parsed)) == bool({"avx2", "avx512bw"} & features)
        engine = binding.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        results.append([run_tile(engine, "q4", 320), run_tile(engine, "q8", 544)])
    for own, plain in zip(*results, strict=True):
        assert np.abs(own).max() > 0
        np.testing.assert_array_equal(own, plain)


@pytest.mark.skipif(not tiles.IS_X86, reason="compiles for processors of the x86 family")
@pytest.mark.parametrize("processor", ["skylake-avx512", "sapphirerapids", "znver4"])
def test_the_wide_tiles_compile_for_processors_with_512_bit_vectors(monkeypatch, processor):
    monkeypatch.setattr(tiles, "FEATURES", frozenset({"avx512bw"}))
    monkeypatch.setattr(tiles, "LANES", 16)
    monkeypatch.setattr(tiles, "VECTORS", 1)
    machine_code.target_machine()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(cpu=processor, features="", opt=3, codemodel="jitdefault", jit=True)
    assembly = machine.emit_assembly(compile_tiles(quantized_tiles, machine))
    assert assembly.count("zmm") > 100 and "ymm" not in assembly


def test_every_tile_has_an_address():
    code = machine_code.load_object(machine_code.build_object())
    assert len(code.addresses) == len(machine_code.tile_names()) and (code.addresses != 0).all()
