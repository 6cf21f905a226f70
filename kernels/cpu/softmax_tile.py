"""Softmax as vector instructions, taken as scores come (FlashAttention's rule)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from .tiles import FLOAT, I32, I64, LANES, Emitter, define

LOWEST = -1e30
"""Less than any score; a row that has seen nothing has it as peak."""
VECTOR = ir.VectorType(FLOAT, LANES)
WORDS = ir.VectorType(I32, LANES)
MAGIC = 1.5 * 2.0**23
"""Added to a small float32, leaves it rounded to a whole number in the lowest bits."""
POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def exponential(emitter: Emitter, x: Any) -> Any:
    """exp of a vector of float32 at most 0, within 2 units in the last place; about 1e-35 below -80."""
    builder = emitter.builder

    def constant(value):
        return emitter.constant(FLOAT, x.type.count, value)

    x = larger(emitter, x, constant(-80.0))
    shifted = emitter.multiply_add(x, constant(1.44269504), constant(MAGIC))
    turns = builder.fsub(shifted, constant(MAGIC))
    rest = emitter.multiply_add(turns, constant(-0.693359375), x)
    rest = emitter.multiply_add(turns, constant(2.12194440e-4), rest)
    value = constant(POLYNOMIAL[0])
    for factor in POLYNOMIAL[1:]:
        value = emitter.multiply_add(value, rest, constant(factor))
    value = emitter.multiply_add(builder.fmul(value, rest), rest, builder.fadd(rest, constant(1.0)))
    words = ir.VectorType(I32, x.type.count)
    power = builder.shl(builder.bitcast(shifted, words), emitter.constant(I32, x.type.count, 23))
    return builder.bitcast(builder.add(builder.bitcast(value, words), power), x.type)


def larger(emitter: Emitter, a, b) -> Any:
    """The larger of two numbers, or of those in each lane."""
    return emitter.builder.select(emitter.builder.fcmp_ordered(">", a, b), a, b)


def folded(emitter: Emitter, vector, join):
    """All lanes of a vector joined into one number."""
    builder = emitter.builder
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        halves = [
            builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(I32, lanes), list(range(at, at + lanes))))
            for at in (0, lanes)
        ]
        vector = join(*halves)
    return builder.extract_element(vector, I32(0))


def soften_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(scores, visible, count, peak, norm, sums, head_dim)``; all but the counts are addresses.

    Turns one row of scores into weights in place. Only the first ``visible`` of ``count`` slots count, the others get
    weight 0; the row has room for 16 more. Brings the row's ``peak`` and ``norm`` up to date, and rescales to the new
    peak the ``head_dim`` (a multiple of 8) ``sums`` that it has gathered so far.
    """
    emitter, arguments = define(module, name, 7)
    scores, visible, count, peak, norm, sums, head_dim = arguments
    builder = emitter.builder
    visible = builder.select(builder.icmp_signed(">", visible, I64(0)), visible, I64(0))
    lanes = I64(LANES)
    groups = builder.udiv(builder.add(visible, I64(LANES - 1)), lanes)
    lowest = emitter.constant(FLOAT, LANES, LOWEST)

    def place_of(start, index, kind: Any = VECTOR):
        return builder.inttoptr(builder.add(start, builder.mul(index, I64(4))), kind.as_pointer())

    builder.store(lowest, place_of(scores, visible), align=4)
    highest = cgutils.alloca_once_value(builder, lowest)
    with cgutils.for_range(builder, groups, intp=I64) as group:
        score = builder.load(place_of(scores, builder.mul(group.index, lanes)), align=4)
        builder.store(larger(emitter, score, builder.load(highest)), highest)
    old_peak, old_norm = (builder.load(place_of(at, I64(0), FLOAT), align=4) for at in (peak, norm))
    new_peak = folded(emitter, builder.load(highest), lambda a, b: larger(emitter, a, b))
    new_peak = larger(emitter, new_peak, old_peak)
    peaks = emitter.broadcast(new_peak, LANES)
    total = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, None))
    with cgutils.for_range(builder, groups, intp=I64) as group:
        place = place_of(scores, builder.mul(group.index, lanes))
        weight = exponential(emitter, builder.fsub(builder.load(place, align=4), peaks))
        builder.store(weight, place, align=4)
        builder.store(builder.fadd(builder.load(total), weight), total)
    hidden = builder.udiv(builder.add(builder.sub(count, visible), I64(LANES - 1)), lanes)
    with cgutils.for_range(builder, hidden, intp=I64) as group:
        index = builder.add(visible, builder.mul(group.index, lanes))
        builder.store(ir.Constant(VECTOR, None), place_of(scores, index), align=4)
    shrink = exponential(emitter, emitter.broadcast(builder.fsub(old_peak, new_peak), LANES))
    with builder.if_then(builder.fcmp_ordered(">", new_peak, old_peak)):
        eight = ir.VectorType(FLOAT, 8)
        first = ir.Constant(ir.VectorType(I32, 8), list(range(8)))
        with cgutils.for_range(builder, builder.udiv(head_dim, I64(8)), intp=I64) as part:
            place = place_of(sums, builder.mul(part.index, I64(8)), eight)
            value = builder.fmul(builder.load(place, align=4), builder.shuffle_vector(shrink, shrink, first))
            builder.store(value, place, align=4)
    gathered = folded(emitter, builder.load(total), builder.fadd)
    new_norm = builder.fadd(builder.fmul(old_norm, builder.extract_element(shrink, I32(0))), gathered)
    builder.store(new_norm, place_of(norm, I64(0), FLOAT), align=4)
    builder.store(new_peak, place_of(peak, I64(0), FLOAT), align=4)
    builder.ret_void()
