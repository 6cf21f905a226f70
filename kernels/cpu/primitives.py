"""Small machine operations that Numba has no names for: addresses, bit casts, atomics, stages of shared work."""

# pyright: reportCallIssue=false
# (pyright sees an intrinsic's typing context as one more argument)

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from .halves import widen
from .processor import IS_X86

HAS_SCHED_YIELD = platform.system() in ("Linux", "Darwin")
SPINS_BEFORE_YIELD = 256


@intrinsic
def pointer(typing_context, address):
    """An int64 address as a pointer for ``numba.carray``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def bits_to_float(typing_context, bits):
    """uint32 bits as the float32 they encode."""
    return types.float32(types.uint32), lambda ctx, b, sig, args: b.bitcast(args[0], ir.FloatType())


@intrinsic
def float_to_bits(typing_context, value):
    """The bits of a float32 as uint32."""
    return types.uint32(types.float32), lambda ctx, b, sig, args: b.bitcast(args[0], ir.IntType(32))


@intrinsic
def half_at(typing_context, address):
    """The float16 at an address, as float32."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.HalfType().as_pointer())
        return widen(builder, builder.load(place))

    return types.float32(types.int64), generate


def indirect(count: int):
    """An intrinsic that calls the function at an address with ``count`` int64 arguments."""

    @intrinsic
    def call(typing_context, address, arguments):
        def generate(context, builder, signature, values):
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * count)
            function = builder.inttoptr(values[0], kind.as_pointer())
            builder.call(function, cgutils.unpack_tuple(builder, values[1], count))
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.int64, count)), generate

    return call


call_3, call_4, call_5, call_6, call_7 = indirect(3), indirect(4), indirect(5), indirect(6), indirect(7)
call_8, call_9, call_10, call_12 = indirect(8), indirect(9), indirect(10), indirect(12)


@intrinsic
def atomic_add(typing_context, address, value):
    """Adds to the int64 at an address; returns what was there before."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_load(typing_context, address):
    """The int64 at an address, seen in order with what other threads wrote before it."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def atomic_store(typing_context, address, value):
    """Writes the int64 at an address after everything this thread wrote before."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def pause(typing_context):
    """Tells the processor that this thread is waiting in a loop."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [])
        if IS_X86:
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def give_way(typing_context):
    """Lets another thread of the machine run on this core."""

    def generate(context, builder, signature, arguments):
        if HAS_SCHED_YIELD:
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@njit(nogil=True)
def wait_for(stage, total):
    """Waits until ``total`` items of a stage are done (see `claim`)."""
    spins = 0
    while atomic_load(stage + 8) < total:
        pause()
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            give_way()


@njit(nogil=True, forceinline=True)
def claim(stage):
    """The next item of a stage that nobody has taken. ``stage`` is the address of two int64: claimed and done items."""
    return atomic_add(stage, 1)


@njit(nogil=True, forceinline=True)
def finish(stage):
    """Notes that one claimed item is done."""
    atomic_add(stage + 8, 1)


@njit(nogil=True, forceinline=True)
def from_bf16(bits):
    """A bfloat16, given as uint16 bits, as float32."""
    return bits_to_float(np.uint32(bits) << np.uint32(16))


@njit(nogil=True, forceinline=True)
def to_bf16(value):
    """A float32 rounded to bfloat16 (nearest, ties to even), as uint16 bits; NaN stays NaN."""
    bits = float_to_bits(np.float32(value))
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.uint16(0x7FC0) if value != value else np.uint16(rounded)


@njit(nogil=True, forceinline=True, fastmath={"contract"}, error_model="numpy")
def fast_exp(x):
    """exp for float32 at most 0, or small above it; within 2 units in the last place, vectorizes in loops."""
    x = max(x, np.float32(-87.0))
    x = min(x, np.float32(88.0))
    turns = np.float32(np.int32(x * np.float32(1.44269504) + (np.float32(0.5) if x > 0 else np.float32(-0.5))))
    f = x - turns * np.float32(0.693359375) + turns * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    return p * bits_to_float(np.uint32((np.int32(turns) + np.int32(127)) << np.int32(23)))
