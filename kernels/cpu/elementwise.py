"""Row operations of a decoder on float32 activations: norms, rotary positions, 16-bit inputs, cache writes.

All run without the interpreter's lock. Caches are given as addresses, with a flag for bfloat16.
"""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]

from .primitives import fast_exp, from_bf16, pointer, to_bf16

# Sums may be reordered; NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "arcp", "nsz"}


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def rms_norm_row(x, weight, eps, out):
    """``out = x / sqrt(mean(x ** 2) + eps) * weight`` for one row."""
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[0]) + eps)
    for i in range(x.shape[0]):
        out[i] = x[i] * scale * weight[i]


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def add_row(delta, residual):
    """``residual += delta`` for one row."""
    for i in range(residual.shape[0]):
        residual[i] += delta[i]


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def silu_mul_row(gate, up, out):
    """``out = silu(gate) * up`` for one row."""
    for i in range(out.shape[0]):
        out[i] = gate[i] / (np.float32(1) + fast_exp(-gate[i])) * up[i]


@njit(nogil=True, fastmath=REORDER, error_model="numpy")
def rotate_head(x, cos, sin):
    """Turns one head in place; its second half pairs with its first."""
    half = cos.shape[0]
    for i in range(half):
        first, second = x[i], x[half + i]
        x[i] = first * cos[i] - second * sin[i]
        x[half + i] = second * cos[i] + first * sin[i]


@njit(nogil=True, error_model="numpy")
def store_row(row, address, bf16):
    """Writes a float32 row to an address, as bfloat16 or as it is."""
    if bf16:
        bits = carray(pointer(address), row.shape[0], np.uint16)
        for i in range(row.shape[0]):
            bits[i] = to_bf16(row[i])
    else:
        plain = carray(pointer(address), row.shape[0], np.float32)
        for i in range(row.shape[0]):
            plain[i] = row[i]


@njit(nogil=True, error_model="numpy")
def load_run(address, count, bf16, out):
    """Reads ``count`` numbers from an address as float32 into ``out``."""
    if bf16:
        bits = carray(pointer(address), count, np.uint16)
        for i in range(count):
            out[i] = from_bf16(bits[i])
    else:
        plain = carray(pointer(address), count, np.float32)
        for i in range(count):
            out[i] = plain[i]


@njit(nogil=True, error_model="numpy")
def quantize_row(x, codes, factors):
    """A row as 16-bit integers with one scale for each 32 columns.

    ``factors`` float32 [columns / 32, 2] takes the scale and the sum of the block's numbers as they are then read.
    """
    for block in range(factors.shape[0]):
        first = block * 32
        peak = np.float32(0)
        for i in range(first, first + 32):
            peak = max(peak, abs(x[i]))
        scale = peak / np.float32(32767)
        inverse = np.float32(32767) / peak if peak > 0 else np.float32(0)
        total = np.int32(0)
        for i in range(first, first + 32):
            value = x[i] * inverse
            code = np.int32(value + (np.float32(0.5) if value > 0 else np.float32(-0.5)))
            codes[i] = np.int16(code)
            total += code
        factors[block, 0] = scale
        factors[block, 1] = scale * np.float32(total)


@njit(nogil=True, error_model="numpy")
def copy_block(address, stride, source, destination, layers, layer_stride):
    """Copies one block in all layers' keys and values; ``layers`` counts both. Strides in bytes."""
    for layer in range(layers):
        base = address + layer * layer_stride
        source_bytes = carray(pointer(base + source * stride), stride, np.uint8)
        destination_bytes = carray(pointer(base + destination * stride), stride, np.uint8)
        for i in range(stride):
            destination_bytes[i] = source_bytes[i]
