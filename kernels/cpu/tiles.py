"""Inner loops of the matrix products, written as vector instructions.

A *panel* holds 16 output rows of a weight matrix, interleaved so that one vector lane is one output row. A *tile*
is one panel times up to 6 input rows: its sums stay in registers while the weights stream past once.

    q4 block (32 columns, 320 bytes)      four chunks of 8 columns:
      64 bytes a chunk: 16 rows x 2 x 16 bits; nibble j of word (row, e) is column 8 chunk + 2 j + e
      16 float16 scales, 16 float16 minima    weight = scale * nibble + minimum
    q8 block (32 columns, 544 bytes)
      16 column pairs of 16 rows x 2 bytes    then 16 float16 scales
    f32, bf16: 16 values a column

Inputs of the quantized tiles are 16-bit integers with one scale for each 32 columns (relative error below 2e-5);
two of them times two weights are one multiply-add of the processor.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from .halves import widen
from .processor import IS_X86, host_features

PANEL = 16
MAX_TILE_ROWS = 6
BLOCK = 32
AHEAD = 2048
"""Bytes of weights that are asked for before they are used."""
TILE_KINDS = ("q4", "q8", "f32", "bf16", "f16")
Q4_BLOCK_BYTES = 320
Q8_BLOCK_BYTES = 544

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
HALF, FLOAT = ir.HalfType(), ir.FloatType()


FEATURES = host_features()
HAS_FMA = not IS_X86 or "fma" in FEATURES
LANES = 16 if "avx512bw" in FEATURES else 8
VECTORS = PANEL // LANES


class Emitter:
    """Writes vector code at the end of a builder's block."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def load(self, address, kind, align: int = 1):
        """The value of type ``kind`` at an int64 address."""
        place = self.builder.inttoptr(address, kind.as_pointer())
        return self.builder.load(place, align=align)

    def prefetch(self, address) -> None:
        """Asks for the cache line at an int64 address ahead of its use."""
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(function, [self.builder.inttoptr(address, I8.as_pointer()), I32(0), I32(3), I32(1)])

    def offset(self, address, count: int):
        """``address + count`` bytes."""
        return self.builder.add(address, I64(count)) if count else address

    def broadcast(self, value, lanes: int):
        """A vector with ``value`` in every lane."""
        empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        single = self.builder.insert_element(empty, value, I32(0))
        mask = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
        return self.builder.shuffle_vector(single, empty, mask)

    def fence(self, value):
        """The same vector; keeps LLVM from moving its computation, which would spill the sums of a tile."""
        if "avx" not in FEATURES:  # no register of x86 holds the vector
            return value
        kind = ir.FunctionType(value.type, [value.type])
        register = "v" if LANES == 16 else "x"
        return self.builder.asm(kind, "", f"={register},0", [value], True)

    def constant(self, kind, lanes: int, value):
        """A vector of a constant."""
        return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)

    def multiply_add(self, a, b, c):
        """``a * b + c`` on float vectors, rounded once where the processor can (a library's function takes ages)."""
        if not HAS_FMA:
            return self.builder.fadd(self.builder.fmul(a, b), c)
        kind = ir.FunctionType(a.type, [a.type] * 3)
        name = f"llvm.fma.v{a.type.count}f32"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def pair_products(self, a, b):
        """Lane i of the result: ``a[2i] * b[2i] + a[2i+1] * b[2i+1]`` of 16-bit integers, in 32 bits."""
        lanes = a.type.count // 2
        wide = ir.VectorType(I32, lanes)
        name = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}.get(lanes)
        if (lanes == 8 and "avx2" in FEATURES) or (lanes == 16 and "avx512bw" in FEATURES):
            kind = ir.FunctionType(wide, [a.type, b.type])
            return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b])
        full = ir.VectorType(I32, 2 * lanes)
        product = self.builder.mul(self.builder.sext(a, full), self.builder.sext(b, full))
        even = ir.Constant(ir.VectorType(I32, lanes), list(range(0, 2 * lanes, 2)))
        odd = ir.Constant(ir.VectorType(I32, lanes), list(range(1, 2 * lanes, 2)))
        first, second = (self.builder.shuffle_vector(product, product, mask) for mask in (even, odd))
        return self.builder.add(first, second)


def quantized_tile(module: ir.Module, name: str, rows: int, block_bytes: int, emit_block) -> None:
    """Defines ``name(weights, x, x_stride, scales, scales_stride, blocks, out, out_stride, add)``.

    One panel times ``rows`` inputs. All arguments are int64: addresses, strides in bytes and the number of 32-column
    blocks. ``x`` points to int16 rows, ``scales`` to float32 pairs (scale, scaled sum) for each block, ``out`` to
    float32 rows whose 16 numbers are set, or added to where ``add`` is not 0.
    """
    emitter, arguments = define(module, name, 9)
    weights, x, x_stride, scales, scales_stride, blocks, *target = arguments
    builder = emitter.builder
    sums = first_sums(emitter, rows, *target)
    with cgutils.for_range(builder, blocks, intp=I64) as loop:
        block = builder.add(weights, builder.mul(loop.index, I64(block_bytes)))
        inputs, factors = [], []
        for row in range(rows):
            line = builder.add(x, builder.mul(x_stride, I64(row)))
            inputs.append(builder.add(line, builder.mul(loop.index, I64(2 * BLOCK))))
            line = builder.add(scales, builder.mul(scales_stride, I64(row)))
            factors.append(builder.add(line, builder.mul(loop.index, I64(8))))
        for line in range(0, block_bytes, 64):
            emitter.prefetch(emitter.offset(block, AHEAD + line))
        emit_block(emitter, block, inputs, factors, sums)
    store_sums(emitter, sums, *target[:2])
    builder.ret_void()


def define(module: ir.Module, name: str, count: int):
    """A new function of ``count`` int64 arguments: an emitter in it, and the arguments."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * count), name)
    return Emitter(ir.IRBuilder(function.append_basic_block())), function.args


def first_sums(emitter: Emitter, rows: int, out, out_stride, add):
    """Places [rows][vectors] for the sums of a tile, zero or what ``out`` holds; LLVM keeps them in registers."""
    builder = emitter.builder
    vector = ir.VectorType(FLOAT, LANES)
    sums = [[cgutils.alloca_once(builder, vector) for _ in range(VECTORS)] for _ in range(rows)]
    with builder.if_else(builder.icmp_unsigned("!=", add, I64(0))) as (then, otherwise):
        with then:
            for row, part, place in places_of(sums):
                builder.store(emitter.load(target_address(emitter, out, out_stride, row, part), vector, align=4), place)
        with otherwise:
            for _, _, place in places_of(sums):
                builder.store(ir.Constant(vector, None), place)
    return sums


def places_of(sums):
    """(row, part, place) of every vector of a tile's sums."""
    return [(row, part, place) for row, parts in enumerate(sums) for part, place in enumerate(parts)]


def target_address(emitter: Emitter, out, out_stride, row: int, part: int):
    """Address of one vector of a tile's result."""
    line = emitter.builder.add(out, emitter.builder.mul(out_stride, I64(row)))
    return emitter.offset(line, 4 * part * LANES)


def store_sums(emitter: Emitter, sums, out, out_stride) -> None:
    """Writes the registers of a tile to its rows."""
    builder = emitter.builder
    for row, part, place in places_of(sums):
        address = target_address(emitter, out, out_stride, row, part)
        builder.store(builder.load(place), builder.inttoptr(address, place.type), align=4)


def input_pair(emitter: Emitter, line, pair: int):
    """Two neighbouring 16-bit inputs in every 32-bit lane."""
    value = emitter.load(emitter.offset(line, 4 * pair), I32, align=4)
    return emitter.builder.bitcast(emitter.broadcast(value, LANES), ir.VectorType(I16, 2 * LANES))


def emit_q4_block(emitter: Emitter, block, inputs, factors, sums) -> None:
    """32 columns of 4-bit weights: integer sums of nibble times input, then scale and minimum."""
    builder = emitter.builder
    totals = [[None] * VECTORS for _ in inputs]
    words = ir.VectorType(I16, 2 * LANES)
    low = emitter.constant(I16, 2 * LANES, 15)
    for chunk in range(4):
        packed = [emitter.load(emitter.offset(block, 64 * chunk + 4 * LANES * part), words) for part in range(VECTORS)]
        for j in range(4):
            nibbles = []
            for word in packed:
                shifted = builder.lshr(word, emitter.constant(I16, 2 * LANES, 4 * j)) if j else word
                nibbles.append(builder.and_(shifted, low) if j < 3 else shifted)
            add_products(emitter, totals, nibbles, inputs, 4 * chunk + j)
    for part in range(VECTORS):
        scale = half_vector(emitter, block, 256 + 2 * LANES * part)
        minimum = half_vector(emitter, block, 288 + 2 * LANES * part)
        for row, factor in enumerate(factors):
            value = scaled_total(emitter, totals[row][part], factor)
            addend = emitter.broadcast(emitter.load(emitter.offset(factor, 4), FLOAT, align=4), LANES)
            total = emitter.multiply_add(value, scale, builder.load(sums[row][part]))
            builder.store(emitter.multiply_add(minimum, addend, total), sums[row][part])


def emit_q8_block(emitter: Emitter, block, inputs, factors, sums) -> None:
    """32 columns of 8-bit weights: integer sums of weight times input, then the scale."""
    builder = emitter.builder
    totals = [[None] * VECTORS for _ in inputs]
    for pair in range(16):
        weights = []
        for part in range(VECTORS):
            packed = emitter.load(emitter.offset(block, 32 * pair + 2 * LANES * part), ir.VectorType(I8, 2 * LANES))
            weights.append(builder.sext(packed, ir.VectorType(I16, 2 * LANES)))
        add_products(emitter, totals, weights, inputs, pair)
    for part in range(VECTORS):
        scale = half_vector(emitter, block, 512 + 2 * LANES * part)
        for row, factor in enumerate(factors):
            value = scaled_total(emitter, totals[row][part], factor)
            builder.store(emitter.multiply_add(value, scale, builder.load(sums[row][part])), sums[row][part])


def add_products(emitter: Emitter, totals, weights, inputs, pair: int) -> None:
    """Adds one column pair to the integer sums of every input row."""
    for row, line in enumerate(inputs):
        x = input_pair(emitter, line, pair)
        for part, weight in enumerate(weights):
            product = emitter.pair_products(weight, x)
            before = totals[row][part]
            totals[row][part] = emitter.fence(product if before is None else emitter.builder.add(before, product))


def half_vector(emitter: Emitter, block, offset: int):
    """One float16 for each lane, as float32."""
    halves = emitter.load(emitter.offset(block, offset), ir.VectorType(HALF, LANES))
    return widen(emitter.builder, halves)


def scaled_total(emitter: Emitter, total, factor):
    """Integer sums as floats times the scale of the input block."""
    builder = emitter.builder
    scale = emitter.broadcast(emitter.load(factor, FLOAT, align=4), LANES)
    return builder.fmul(builder.sitofp(total, ir.VectorType(FLOAT, LANES)), scale)


def float_tile(module: ir.Module, name: str, rows: int, kind: str) -> None:
    """Defines ``name(weights, stride, x, x_stride, columns, out, out_stride, add)``.

    16 lanes of float weights times ``rows`` inputs. ``stride`` is the distance in bytes from one column's 16 weights
    to the next, ``x`` points to float32 rows; for the others see `quantized_tile`.
    """
    emitter, arguments = define(module, name, 8)
    weights, stride, x, x_stride, columns, *target = arguments
    builder = emitter.builder
    sums = first_sums(emitter, rows, *target)
    with cgutils.for_range(builder, columns, intp=I64) as loop:
        column = builder.add(weights, builder.mul(loop.index, stride))
        parts = [float_lanes(emitter, column, part, kind) for part in range(VECTORS)]
        for row in range(rows):
            line = builder.add(x, builder.mul(x_stride, I64(row)))
            place = builder.add(line, builder.mul(loop.index, I64(4)))
            value = emitter.broadcast(emitter.load(place, FLOAT, align=4), LANES)
            for part, weight in enumerate(parts):
                total = emitter.multiply_add(weight, value, builder.load(sums[row][part]))
                builder.store(total, sums[row][part])
    store_sums(emitter, sums, *target[:2])
    builder.ret_void()


def float_lanes(emitter: Emitter, column, part: int, kind: str):
    """One vector of float32, float16 or bfloat16 weights as float32."""
    builder = emitter.builder
    wide = ir.VectorType(FLOAT, LANES)
    if kind == "f32":
        return emitter.load(emitter.offset(column, 4 * LANES * part), wide)
    address = emitter.offset(column, 2 * LANES * part)
    if kind == "f16":
        return widen(builder, emitter.load(address, ir.VectorType(HALF, LANES)))
    bits = builder.zext(emitter.load(address, ir.VectorType(I16, LANES)), ir.VectorType(I32, LANES))
    return builder.bitcast(builder.shl(bits, emitter.constant(I32, LANES, 16)), wide)


def product_tile_names() -> list[str]:
    """Names of the product tiles: the kinds of `TILE_KINDS` in order, each for 1 to 6 rows."""
    return [f"{kind}_tile_{rows}" for kind in TILE_KINDS for rows in range(1, MAX_TILE_ROWS + 1)]


def define_product_tiles(module: ir.Module) -> None:
    """Defines all product tiles."""
    for name in product_tile_names():
        kind, _, rows = name.split("_")
        if kind == "q4":
            quantized_tile(module, name, int(rows), Q4_BLOCK_BYTES, emit_q4_block)
        elif kind == "q8":
            quantized_tile(module, name, int(rows), Q8_BLOCK_BYTES, emit_q8_block)
        else:
            float_tile(module, name, int(rows), kind)
