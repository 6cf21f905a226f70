"""Attention of many queries over the same slots with the processor's matrix unit (AMX, bfloat16).

Up to 16 queries, one a column, are scored against 16 slots at a time:

    keys      16 slots x 32 numbers, read in place from a block
    queries   words of two numbers, [head_dim / 2, 16 queries]
    scores    float32 [slots, 16 queries]: the softmax runs down the columns, all queries side by side
    weights   bfloat16 [16 queries, 256 slots]
    values    words of two slots, [slots / 2, head_dim]
    sums      float32 [16 queries, head_dim]

Two rows of values are interleaved within each 128 bits, so columns of ``values`` and ``sums`` are in *pair order*: of
each 32 columns first those whose number has bit 2 clear, then the others.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from .attention_tiles import blocks_of
from .softmax_tile import LOWEST, exponential, larger
from .tiles import FEATURES, FLOAT, I8, I16, I32, I64, Emitter, define

NAMES = ("matrix_queries", "matrix_values", "matrix_scores", "matrix_soften", "matrix_sums")
QUERIES = 16
SLOTS = 256
"""The most slots at a time."""
LINE = 64
"""Bytes of a row of a tile."""
NEEDED = frozenset({"amx-tile", "amx-bf16", "avx512f", "avx512bw"})
FLOATS, WORDS, HALVES = ir.VectorType(FLOAT, 16), ir.VectorType(I32, 16), ir.VectorType(I16, 32)
CONFIGURATION = bytes([1, 0, *[0] * 14, *([LINE, 0] * 8), *[0] * 16, *([16] * 8), *[0] * 8])
"""Palette 1: eight tiles of 16 rows of 64 bytes."""


def is_built() -> bool:
    """Whether machine code for these tiles is made for this processor."""
    return NEEDED <= FEATURES and platform.system() == "Linux"


@cache
def is_permitted() -> bool:
    """Whether the system lets this process use the matrix unit; asks for it."""
    if not is_built():
        return False
    library = ctypes.CDLL(None, use_errno=True)
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return library.syscall(arch_prctl, request_permission, tile_data) == 0


class MatrixEmitter:
    """Instructions of the matrix unit; tiles are numbered 0 to 7."""

    def __init__(self, emitter: Emitter):
        self.builder = emitter.builder
        module = emitter.builder.module
        name = "matrix_configuration"
        if name not in module.globals:
            constant = ir.Constant(ir.ArrayType(I8, len(CONFIGURATION)), bytearray(CONFIGURATION))
            place: Any = ir.GlobalVariable(module, constant.type, name)
            place.global_constant, place.linkage, place.initializer, place.align = True, "internal", constant, 64
        self.configuration = module.globals[name]

    def _call(self, name: str, arguments) -> None:
        kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.x86.{name}")
        self.builder.call(function, arguments)

    def _place(self, address):
        return self.builder.inttoptr(address, I8.as_pointer())

    def begin(self) -> None:
        """Sets the tiles up."""
        self._call("ldtilecfg", [self.builder.bitcast(self.configuration, I8.as_pointer())])

    def end(self) -> None:
        """Gives the tiles up."""
        self._call("tilerelease", [])

    def zero(self, tile: int) -> None:
        """A tile of zeros."""
        self._call("tilezero", [I8(tile)])

    def load(self, tile: int, address, stride) -> None:
        """Sixteen rows, ``stride`` bytes apart."""
        self._call("tileloadd64", [I8(tile), self._place(address), stride])

    def store(self, tile: int, address, stride) -> None:
        """Writes sixteen rows, ``stride`` bytes apart."""
        self._call("tilestored64", [I8(tile), self._place(address), stride])

    def multiply_add(self, target: int, a: int, b: int) -> None:
        """``target += a @ b``: 16 x 32 numbers times words of two numbers, 16 x 16."""
        self._call("tdpbf16ps", [I8(target), I8(a), I8(b)])


def at(emitter: Emitter, address, index, size: int):
    """``address`` plus ``index`` times ``size`` bytes."""
    return emitter.builder.add(address, emitter.builder.mul(index, I64(size)))


def store(emitter: Emitter, vector, address) -> None:
    """Writes a vector to an int64 address."""
    emitter.builder.store(vector, emitter.builder.inttoptr(address, vector.type.as_pointer()), align=4)


def picked(emitter: Emitter, a, b, lanes):
    """Lanes of two vectors."""
    return emitter.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def words_of(emitter: Emitter, low, high):
    """Two vectors of float32 as bfloat16, rounded to nearest, the lanes of ``low`` in the low halves."""
    builder = emitter.builder
    half, one = emitter.constant(I32, 16, 0x7FFF), emitter.constant(I32, 16, 1)
    rounded = []
    for vector in (low, high):
        bits = builder.bitcast(vector, WORDS)
        odd = builder.and_(builder.lshr(bits, emitter.constant(I32, 16, 16)), one)
        rounded.append(builder.add(builder.add(bits, half), odd))
    low_half = builder.lshr(rounded[0], emitter.constant(I32, 16, 16))
    return builder.or_(low_half, builder.and_(rounded[1], emitter.constant(I32, 16, 0xFFFF0000)))


def transposed(emitter: Emitter, rows):
    """Sixteen vectors of sixteen, rows and columns exchanged."""
    # rounds that interleave neighbours within 128 bits, then exchange these quarters: one instruction each

    def unpack(a, b, width):
        lanes = [[], []]
        for quarter in range(0, 16, 4):
            for part in (0, 1):
                first = quarter + 2 * part
                if width == 1:
                    lanes[part] += [first, 16 + first, first + 1, 17 + first]
                else:
                    lanes[part] += [first, first + 1, 16 + first, 17 + first]
        return [picked(emitter, a, b, one) for one in lanes]

    def quarters(a, b, chosen):
        lanes = [4 * quarter + i for quarter in chosen for i in range(4)]
        return picked(emitter, a, b, lanes)

    first: list[Any] = [None] * 16
    for i in range(0, 16, 2):
        first[i], first[i + 1] = unpack(rows[i], rows[i + 1], 1)
    second: list[Any] = [None] * 16  # second[4 g + c]: columns 4 q + c of rows 4 g .. 4 g + 3, a quarter q each
    for g in range(0, 16, 4):
        second[g], second[g + 1] = unpack(first[g], first[g + 2], 2)
        second[g + 2], second[g + 3] = unpack(first[g + 1], first[g + 3], 2)
    result: list[Any] = [None] * 16
    for c in range(4):
        a, b, d, e = (second[g + c] for g in range(0, 16, 4))
        ab_low, ab_high = quarters(a, b, (0, 1, 4, 5)), quarters(a, b, (2, 3, 6, 7))
        de_low, de_high = quarters(d, e, (0, 1, 4, 5)), quarters(d, e, (2, 3, 6, 7))
        result[c], result[4 + c] = quarters(ab_low, de_low, (0, 2, 4, 6)), quarters(ab_low, de_low, (1, 3, 5, 7))
        result[8 + c], result[12 + c] = (
            quarters(ab_high, de_high, (0, 2, 4, 6)),
            quarters(ab_high, de_high, (1, 3, 5, 7)),
        )
    return result


def queries_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(q, q_stride, head_dim, out)``: 16 float32 rows as words [head_dim / 2, 16]."""
    emitter, (q, q_stride, head_dim, out) = define(module, name, 4)
    builder = emitter.builder
    with cgutils.for_range(builder, builder.udiv(head_dim, I64(32)), intp=I64) as part:
        rows = []
        for row in range(QUERIES):
            line = at(emitter, builder.add(q, builder.mul(q_stride, I64(row))), part.index, 128)
            first, second = (emitter.load(emitter.offset(line, place), FLOATS, align=4) for place in (0, 64))
            even, odd = (picked(emitter, first, second, range(start, 32, 2)) for start in (0, 1))
            rows.append(words_of(emitter, even, odd))
        for index, column in enumerate(transposed(emitter, rows)):
            store(emitter, column, emitter.offset(at(emitter, out, part.index, 16 * LINE), index * LINE))
    builder.ret_void()


def values_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(values, table, block_stride, block_size, line, count, reach, head_dim, out)``.

    ``count`` bfloat16 values as words of two slots, [slots / 2, head_dim], in pair order; zeros from ``count`` on to
    the next multiple of 32. See `attention_tiles.blocks_of`.
    """
    emitter, arguments = define(module, name, 9)
    walk, (head_dim, out) = arguments[:7], arguments[7:]
    line, count = arguments[4:6]
    builder = emitter.builder
    columns = builder.udiv(head_dim, I64(32))
    row_bytes = builder.mul(head_dim, I64(4))
    low = [lane for quarter in range(0, 32, 8) for i in range(4) for lane in (quarter + i, 32 + quarter + i)]
    with blocks_of(emitter, *walk) as stretch:
        pairs = builder.udiv(builder.add(stretch.count, I64(1)), I64(2))
        first_pair = builder.udiv(stretch.first, I64(2))
        with cgutils.for_range(builder, pairs, intp=I64) as pair:
            slot = builder.mul(pair.index, I64(2))
            start = builder.add(stretch.address, builder.mul(slot, line))
            whole = builder.icmp_unsigned("<", builder.add(slot, I64(1)), stretch.count)
            next_start = builder.select(whole, builder.add(start, line), start)
            ahead = stretch.ahead(slot)
            target = builder.add(out, builder.mul(builder.add(first_pair, pair.index), row_bytes))
            with cgutils.for_range(builder, columns, intp=I64) as part:
                for distance in (0, 1):
                    emitter.prefetch(
                        builder.add(at(emitter, ahead, part.index, LINE), builder.mul(line, I64(distance)))
                    )
                one = emitter.load(at(emitter, start, part.index, LINE), HALVES, align=2)
                two = emitter.load(at(emitter, next_start, part.index, LINE), HALVES, align=2)
                two = builder.select(whole, two, ir.Constant(HALVES, None))
                place = at(emitter, target, part.index, 2 * LINE)
                store(emitter, picked(emitter, one, two, low), place)
                store(emitter, picked(emitter, one, two, [lane + 4 for lane in low]), emitter.offset(place, LINE))
    done = builder.udiv(builder.add(count, I64(1)), I64(2))
    padded = builder.mul(builder.udiv(builder.add(count, I64(31)), I64(32)), I64(16))
    start = builder.add(out, builder.mul(done, row_bytes))
    rest = builder.udiv(builder.mul(builder.sub(padded, done), row_bytes), I64(LINE))
    with cgutils.for_range(builder, rest, intp=I64) as part:
        store(emitter, ir.Constant(WORDS, None), at(emitter, start, part.index, LINE))
    builder.ret_void()


def scores_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(keys, table, block_stride, block_size, line, count, reach, queries, head_dim, out)``.

    Scores [slots, 16] of ``queries`` (see `queries_tile`) for ``count`` keys. Blocks are multiples of 16 slots; those
    in the last 16 past ``count`` are read, and scored with whatever is there.
    """
    emitter, arguments = define(module, name, 10)
    walk, (queries, head_dim, out) = arguments[:7], arguments[7:]
    line = arguments[4]
    builder = emitter.builder
    unit = MatrixEmitter(emitter)
    unit.begin()
    with blocks_of(emitter, *walk) as stretch:
        groups = builder.udiv(builder.add(stretch.count, I64(15)), I64(16))
        with cgutils.for_range(builder, groups, intp=I64) as group:
            slot = builder.mul(group.index, I64(16))
            start = builder.add(stretch.address, builder.mul(slot, line))
            ahead = stretch.ahead(slot)
            unit.zero(0)
            with cgutils.for_range(builder, builder.udiv(head_dim, I64(32)), intp=I64) as part:
                for row in range(16):
                    emitter.prefetch(builder.add(at(emitter, ahead, part.index, LINE), builder.mul(line, I64(row))))
                unit.load(1, at(emitter, start, part.index, LINE), line)
                unit.load(2, at(emitter, queries, part.index, 16 * LINE), I64(LINE))
                unit.multiply_add(0, 1, 2)
            unit.store(0, at(emitter, out, builder.add(stretch.first, slot), LINE), I64(LINE))
    unit.end()
    builder.ret_void()


def columns_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(scores, count, peaks, norms, words, out)``: softmax down the columns of ``scores`` [slots, 16].

    Writes weights, bfloat16 [16, 256], and the 16 float32 ``peaks`` and ``norms``. Slots from ``count`` on to the next
    multiple of 32 get next to no weight. ``words`` [128, 16] is scratch.
    """
    emitter, (scores, count, peaks, norms, words, out) = define(module, name, 6)
    builder = emitter.builder
    lowest = emitter.constant(FLOAT, 16, LOWEST)
    blocks = builder.udiv(builder.add(count, I64(31)), I64(32))
    padded = builder.mul(blocks, I64(32))
    with cgutils.for_range(builder, builder.sub(padded, count), intp=I64) as slot:
        store(emitter, lowest, at(emitter, scores, builder.add(count, slot.index), LINE))
    highest = [cgutils.alloca_once_value(builder, lowest) for _ in range(4)]
    totals = [cgutils.alloca_once_value(builder, ir.Constant(FLOATS, None)) for _ in range(2)]
    with cgutils.for_range(builder, builder.udiv(padded, I64(4)), intp=I64) as group:
        line = at(emitter, scores, group.index, 4 * LINE)
        for index, place in enumerate(highest):
            score = emitter.load(emitter.offset(line, index * LINE), FLOATS, align=4)
            builder.store(larger(emitter, score, builder.load(place)), place)
    four = [builder.load(place) for place in highest]
    peak = larger(emitter, larger(emitter, four[0], four[1]), larger(emitter, four[2], four[3]))
    with cgutils.for_range(builder, builder.udiv(padded, I64(2)), intp=I64) as pair:
        line = at(emitter, scores, pair.index, 2 * LINE)
        weights = []
        for index, place in enumerate(totals):
            score = emitter.load(emitter.offset(line, index * LINE), FLOATS, align=4)
            weights.append(exponential(emitter, builder.fsub(score, peak)))
            builder.store(builder.fadd(builder.load(place), weights[-1]), place)
        store(emitter, words_of(emitter, *weights), at(emitter, words, pair.index, LINE))
    store(emitter, peak, peaks)
    even, odd = (builder.load(place) for place in totals)
    store(emitter, builder.fadd(even, odd), norms)
    with cgutils.for_range(builder, blocks, intp=I64) as block:
        start = at(emitter, words, block.index, 16 * LINE)
        rows = [emitter.load(emitter.offset(start, index * LINE), WORDS, align=4) for index in range(16)]
        for index, column in enumerate(transposed(emitter, rows)):
            store(emitter, column, emitter.offset(at(emitter, out, block.index, LINE), index * 2 * SLOTS))
    builder.ret_void()


def sums_tile(module: ir.Module, name: str) -> None:
    """Defines ``name(weights, values, count, head_dim, out)``: sums [16, head_dim] of ``count`` values, in pair order.

    See `columns_tile` and `values_tile`.
    """
    emitter, (weights, values, count, head_dim, out) = define(module, name, 5)
    builder = emitter.builder
    unit = MatrixEmitter(emitter)
    unit.begin()
    blocks = builder.udiv(builder.add(count, I64(31)), I64(32))
    row_bytes = builder.mul(head_dim, I64(4))
    done = I64(0)
    for width in (4, 2):
        groups = builder.udiv(builder.sub(head_dim, done), I64(16 * width))
        with cgutils.for_range(builder, groups, intp=I64) as group:
            column = builder.add(done, builder.mul(group.index, I64(16 * width)))
            for tile in range(width):
                unit.zero(tile)
            with cgutils.for_range(builder, blocks, intp=I64) as block:
                unit.load(4, at(emitter, weights, block.index, LINE), I64(2 * SLOTS))
                start = at(emitter, values, builder.mul(block.index, row_bytes), 16)
                for tile in range(width):
                    place = emitter.offset(at(emitter, start, column, 4), tile * LINE)
                    unit.load(5 + tile % 3, place, row_bytes)
                    unit.multiply_add(tile, 4, 5 + tile % 3)
            for tile in range(width):
                unit.store(tile, emitter.offset(at(emitter, out, column, 4), tile * LINE), row_bytes)
        done = builder.add(done, builder.mul(groups, I64(16 * width)))
    unit.end()
    builder.ret_void()


def define_matrix_tiles(module: ir.Module) -> None:
    """Defines all these tiles where the processor has a matrix unit."""
    if not is_built():
        return
    for name, tile in zip(NAMES, (queries_tile, values_tile, scores_tile, columns_tile, sums_tile), strict=True):
        tile(module, name)
