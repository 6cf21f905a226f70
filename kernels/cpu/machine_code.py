"""Turns the tiles into machine code for this processor and gives their addresses.

The tiles are built with LLVM directly: they are called through addresses, so Numba compiles the code around them once
and small, instead of copying every tile into every caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import binding, ir

from .attention_tiles import attention_tile_names, define_attention_tiles
from .matrix_tiles import NAMES as MATRIX_NAMES
from .matrix_tiles import define_matrix_tiles, is_permitted
from .prefill_tiles import define_prefill_tiles, prefill_tile_names
from .processor import processor
from .tiles import define_product_tiles, product_tile_names


@dataclass
class TileCode:
    """Loaded tiles.

    Attributes:
        addresses: int64, in the order of `tile_names`; 0 for those that this processor has not.
        engine: owns the memory the addresses point into.
    """

    addresses: np.ndarray
    engine: Any


def target_machine() -> binding.TargetMachine:
    """LLVM's view of the processor that code is built for."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = processor()
    return target.create_target_machine(
        cpu=name,
        features=features,
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def tile_names() -> list[str]:
    """Names of the tiles in the order of their addresses."""
    return [*product_tile_names(), *attention_tile_names(), *prefill_tile_names(), *MATRIX_NAMES]


def tile_module() -> ir.Module:
    """All tiles as LLVM code."""
    module = ir.Module("pagedchat_tiles")
    define_product_tiles(module)
    define_attention_tiles(module)
    define_prefill_tiles(module)
    define_matrix_tiles(module)
    return module


def build_object() -> bytes:
    """Machine code of all tiles, for `load_object` on a machine with the same processor."""
    machine = target_machine()
    module = tile_module()
    module.triple = binding.get_process_triple()
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return machine.emit_object(parsed)


def load_object(code: bytes) -> TileCode:
    """Puts machine code of `build_object` into memory."""
    empty = binding.parse_assembly(f'target triple = "{binding.get_process_triple()}"')
    engine = binding.create_mcjit_compiler(empty, target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    names = tile_names() if is_permitted() else tile_names()[: -len(MATRIX_NAMES)]
    addresses = [engine.get_function_address(name) for name in names]
    assert all(addresses)
    addresses += [0] * (len(tile_names()) - len(names))
    return TileCode(np.array(addresses, np.int64), engine)
