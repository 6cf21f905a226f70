"""float16 as float32 in machine code, also for processors without an instruction for it (x86 before 2012)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .processor import IS_X86, host_features

HAS_HALVES = not IS_X86 or "f16c" in host_features()
I16, I32, HALF, FLOAT = ir.IntType(16), ir.IntType(32), ir.HalfType(), ir.FloatType()
SIGN, MAGNITUDE, EXPONENT, TO_FLOAT = 0x8000, 0x7FFF, 0x7C00, 0x7F800000
REBIAS = 2.0**112
"""A float16's bits, moved to where float32 has them, name a number so many times too small."""


def widen(builder: ir.IRBuilder, halves: Any) -> Any:
    """One float16 or a vector of them as float32, exactly."""
    count = halves.type.count if isinstance(halves.type, ir.VectorType) else 0
    if HAS_HALVES:
        return builder.fpext(halves, _many(FLOAT, count))
    words, floats = _many(I32, count), _many(FLOAT, count)
    bits = builder.zext(builder.bitcast(halves, _many(I16, count)), words)
    moved = builder.shl(builder.and_(bits, _same(I32, MAGNITUDE, count)), _same(I32, 13, count))
    number = builder.bitcast(builder.fmul(builder.bitcast(moved, floats), _same(FLOAT, REBIAS, count)), words)
    exponent = builder.and_(bits, _same(I32, EXPONENT, count))
    endless = builder.icmp_unsigned("==", exponent, _same(I32, EXPONENT, count))
    number = builder.select(endless, builder.or_(moved, _same(I32, TO_FLOAT, count)), number)
    sign = builder.shl(builder.and_(bits, _same(I32, SIGN, count)), _same(I32, 16, count))
    return builder.bitcast(builder.or_(number, sign), floats)


def _many(kind: ir.Type, count: int) -> ir.Type:
    return ir.VectorType(kind, count) if count else kind


def _same(kind: ir.Type, value: float, count: int) -> ir.Constant:
    return ir.Constant(_many(kind, count), [value] * count if count else value)
