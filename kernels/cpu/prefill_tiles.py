"""Inner loops of steps with many rows, in bfloat16 with sums in float32, for processors with instructions for it.

A *bf16 panel* holds 16 output columns of a matrix; its lines are what one instruction takes. Weights are widened into
such panels right before they are used, so that there is no second copy of them; keys and values become panels too.

    line (64 bytes), one for two inputs 2 i and 2 i + 1:
      column 0: input 2 i, input 2 i + 1 | column 1: input 2 i, input 2 i + 1 | ... | column 15

Products take 16 rows at a time (AMX) or 8; rows past the last one are read and written, and mean nothing.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from .tiles import (
    BLOCK,
    FEATURES,
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    I64,
    PANEL,
    Q4_BLOCK_BYTES,
    Q8_BLOCK_BYTES,
    TILE_KINDS,
    Emitter,
    define,
)  # fmt: skip

HAS_AMX = {"amx-bf16", "amx-tile", "avx512bf16", "avx512bw"} <= FEATURES
HAS_BF16 = {"avx512bf16", "avx512bw"} <= FEATURES
LINE = 64
ROW_BLOCK = 32
"""Rows that a product takes at a time at most: its inputs and results need room for a multiple of so many."""
CHUNK = 128
"""Slots that attention looks at in one go."""
LONG = 8
"""Steps of 32 inputs from which it pays to ask for the memory of the results before they are there."""
DOT_ROWS = 8
WIDENED = ("q4", "q8", "bf16", "f16")
LEAST_EXPONENT = -126.0
LEAST_SCORE = -1e30
EXP2 = (0.0013333558, 0.009618129, 0.05550411, 0.24022651, 0.6931472, 1.0)
"""2 ** x for -0.5 <= x <= 0.5, highest power first; within 3e-6."""

FLOATS, WORDS, HALVES = (ir.VectorType(kind, PANEL) for kind in (FLOAT, I32, I16))


class BFloat(ir.types.Type):
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


BFLOATS, BFLOAT_PAIRS = ir.VectorType(BFloat(), PANEL), ir.VectorType(BFloat(), 2 * PANEL)


def call(emitter: Emitter, name: str, result, arguments):
    """Calls an intrinsic of LLVM."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(emitter.builder.module, kind, name)
    return emitter.builder.call(function, arguments)


def pointer(emitter: Emitter, address):
    """An int64 address as a pointer."""
    return emitter.builder.inttoptr(address, I8.as_pointer())


def store(emitter: Emitter, value, address, align: int = 2) -> None:
    """Writes a value to an int64 address."""
    emitter.builder.store(value, emitter.builder.inttoptr(address, value.type.as_pointer()), align=align)


def scaled(emitter: Emitter, address, index, size):
    """``address + index * size`` for an int64 or int ``size``."""
    size = I64(size) if isinstance(size, int) else size
    return emitter.builder.add(address, emitter.builder.mul(index, size))


def amx_product(module: ir.Module, name: str) -> None:
    """Defines ``name(b, b_stride, panels, a, a_block, a_line, a_step, rows, steps, out, out_stride, add)``.

    ``rows`` bfloat16 rows times ``panels`` neighbouring bf16 panels, over ``32 * steps`` inputs, with AMX. Of the rows
    ``a``, 16 lie ``a_block`` bytes after the 16 before, each ``a_line`` after the one before, and 32 inputs ``a_step``
    after the 32 before. ``out`` points to float32 rows of 16 numbers for each panel, which are set, or added to where
    ``add`` is not 0. Strides in bytes.
    """
    emitter, (b, b_stride, panels, a, *order, rows, steps, out, out_stride, add) = define(module, name, 12)
    builder = emitter.builder
    call(emitter, "llvm.x86.ldtilecfg", ir.VoidType(), [tile_shapes(module, name)])
    adds = builder.icmp_unsigned("!=", add, I64(0))
    for_blocks = builder.udiv(builder.add(rows, I64(ROW_BLOCK - 1)), I64(ROW_BLOCK))
    pairs = builder.udiv(builder.add(panels, I64(1)), I64(2))
    with cgutils.for_range(builder, for_blocks, intp=I64) as block:
        first = builder.mul(block.index, I64(ROW_BLOCK))
        many = builder.icmp_unsigned(">", builder.sub(rows, first), I64(PANEL))
        inputs = scaled(emitter, a, builder.mul(block.index, I64(ROW_BLOCK // PANEL)), order[0])
        line = scaled(emitter, out, first, out_stride)
        with cgutils.for_range(builder, pairs, intp=I64) as pair:
            panel = builder.mul(pair.index, I64(2))
            both = builder.icmp_unsigned(">", builder.sub(panels, panel), I64(1))
            weights, target = scaled(emitter, b, panel, b_stride), scaled(emitter, line, panel, LINE)
            places = (weights, b_stride, inputs, order, steps, target, out_stride)
            with builder.if_else(many) as (two_rows, one_row):
                for height, branch in ((2, two_rows), (1, one_row)):
                    with branch, builder.if_else(both) as (two_panels, one_panel):
                        with two_panels:
                            amx_block(emitter, height, 2, adds, *places)
                        with one_panel:
                            amx_block(emitter, height, 1, adds, *places)
    call(emitter, "llvm.x86.tilerelease", ir.VoidType(), [])
    builder.ret_void()


def tile_shapes(module: ir.Module, name: str):
    """The configuration that AMX reads: eight tiles of 16 rows of 64 bytes."""
    content = bytes([1, 0, *[0] * 14, *[LINE, 0] * 8, *[0] * 16, *[PANEL] * 8, *[0] * 8])
    kind = ir.ArrayType(I8, len(content))
    shapes = ir.GlobalVariable(module, kind, f"{name}_shapes")
    shapes.linkage, shapes.global_constant = "internal", True
    shapes.initializer = ir.Constant(kind, bytearray(content))  # pyright: ignore[reportAttributeAccessIssue]
    return shapes.bitcast(I8.as_pointer())


def amx_block(emitter: Emitter, height: int, width: int, adds, b, b_stride, a, order, steps, out, out_stride) -> None:
    """16 or 32 rows times one or two panels: tiles 0 to 3 are the sums, 4 and 5 the rows, 6 and 7 the panels."""
    builder = emitter.builder
    a_block, a_line, a_step = order
    sums = [(2 * i + j, i, j) for i in range(height) for j in range(width)]

    def place(i: int, j: int):
        return pointer(emitter, emitter.offset(scaled(emitter, out, I64(PANEL * i), out_stride), LINE * j))

    with builder.if_else(adds) as (then, otherwise):
        with then:
            for tile, i, j in sums:
                call(emitter, "llvm.x86.tileloadd64", ir.VoidType(), [I8(tile), place(i, j), out_stride])
        with otherwise:
            for tile, _, _ in sums:
                call(emitter, "llvm.x86.tilezero", ir.VoidType(), [I8(tile)])
            with builder.if_then(builder.icmp_unsigned(">", steps, I64(LONG))):
                for row in range(PANEL * height):
                    claim_lines(emitter, scaled(emitter, out, I64(row), out_stride), width)
    with cgutils.for_range(builder, steps, intp=I64) as step:
        for i in range(height):
            rows = scaled(emitter, scaled(emitter, a, I64(i), a_block), step.index, a_step)
            call(emitter, "llvm.x86.tileloadd64", ir.VoidType(), [I8(4 + i), pointer(emitter, rows), a_line])
        for j in range(width):
            panel = scaled(emitter, scaled(emitter, b, I64(j), b_stride), step.index, PANEL * LINE)
            call(emitter, "llvm.x86.tileloadd64", ir.VoidType(), [I8(6 + j), pointer(emitter, panel), I64(LINE)])
        for tile, i, j in sums:
            call(emitter, "llvm.x86.tdpbf16ps", ir.VoidType(), [I8(tile), I8(4 + i), I8(6 + j)])
    for tile, i, j in sums:
        call(emitter, "llvm.x86.tilestored64", ir.VoidType(), [I8(tile), place(i, j), out_stride])


def claim_lines(emitter: Emitter, address, count: int) -> None:
    """Asks for cache lines that will be written."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    function = cgutils.get_or_insert_function(emitter.builder.module, kind, "llvm.prefetch.p0")
    for line in range(count):
        place = pointer(emitter, emitter.offset(address, LINE * line))
        emitter.builder.call(function, [place, I32(1), I32(3), I32(1)])


def dot_product(module: ir.Module, name: str) -> None:
    """Defines the same function as `amx_product`, with AVX-512's dot products of bfloat16 pairs."""
    emitter, (b, b_stride, panels, a, *order, rows, steps, out, out_stride, add) = define(module, name, 12)
    a_block, a_line, _ = order
    builder = emitter.builder
    adds = builder.icmp_unsigned("!=", add, I64(0))
    blocks = builder.udiv(builder.add(rows, I64(DOT_ROWS - 1)), I64(DOT_ROWS))
    pairs = builder.udiv(builder.add(panels, I64(1)), I64(2))
    with cgutils.for_range(builder, blocks, intp=I64) as block:
        inputs = scaled(emitter, a, builder.udiv(block.index, I64(2)), a_block)
        inputs = scaled(emitter, inputs, builder.mul(builder.urem(block.index, I64(2)), I64(DOT_ROWS)), a_line)
        line = scaled(emitter, out, builder.mul(block.index, I64(DOT_ROWS)), out_stride)
        with cgutils.for_range(builder, pairs, intp=I64) as pair:
            panel = builder.mul(pair.index, I64(2))
            both = builder.icmp_unsigned(">", builder.sub(panels, panel), I64(1))
            weights, target = scaled(emitter, b, panel, b_stride), scaled(emitter, line, panel, LINE)
            places = (weights, b_stride, inputs, order, steps, target, out_stride)
            with builder.if_else(both) as (two, one):
                with two:
                    dot_block(emitter, 2, adds, *places)
                with one:
                    dot_block(emitter, 1, adds, *places)
    builder.ret_void()


def dot_block(emitter: Emitter, width: int, adds, b, b_stride, a, order, steps, out, out_stride) -> None:
    """Eight rows times one or two panels."""
    builder = emitter.builder
    _, a_line, a_step = order
    sums = [[cgutils.alloca_once(builder, FLOATS) for _ in range(width)] for _ in range(DOT_ROWS)]
    targets = [[emitter.offset(scaled(emitter, out, I64(i), out_stride), LINE * j) for j in range(width)]
               for i in range(DOT_ROWS)]  # fmt: skip
    cells = [(sums[i][j], targets[i][j]) for i in range(DOT_ROWS) for j in range(width)]
    with builder.if_else(adds) as (then, otherwise):
        with then:
            for place, target in cells:
                builder.store(emitter.load(target, FLOATS, align=4), place)
        with otherwise:
            for place, _ in cells:
                builder.store(ir.Constant(FLOATS, None), place)
    with (
        cgutils.for_range(builder, steps, intp=I64) as step,
        cgutils.for_range(builder, I64(BLOCK // 2), intp=I64) as part,
    ):
        line = builder.add(builder.mul(step.index, I64(BLOCK // 2)), part.index)
        inputs = scaled(emitter, scaled(emitter, a, step.index, a_step), part.index, 4)
        panels = []
        for j in range(width):
            at = scaled(emitter, scaled(emitter, b, I64(j), b_stride), line, LINE)
            panels.append(builder.bitcast(emitter.load(at, WORDS, align=4), BFLOAT_PAIRS))
        for i in range(DOT_ROWS):
            at = scaled(emitter, inputs, I64(i), a_line)
            pair = builder.bitcast(emitter.broadcast(emitter.load(at, I32, align=2), PANEL), BFLOAT_PAIRS)
            for j, panel in enumerate(panels):
                arguments = [builder.load(sums[i][j]), panel, pair]
                total = call(emitter, "llvm.x86.avx512bf16.dpbf16ps.512", FLOATS, arguments)
                builder.store(emitter.fence(total), sums[i][j])
    for place, target in cells:
        store(emitter, builder.load(place), target, align=4)


def widen_tile(module: ir.Module, name: str, kind: str) -> None:
    """Defines ``name(panel, blocks, out)``: ``blocks`` times 32 inputs of a panel of `tiles` as a bf16 panel."""
    emitter, (panel, blocks, out) = define(module, name, 3)
    sizes = {"q4": Q4_BLOCK_BYTES, "q8": Q8_BLOCK_BYTES}
    with cgutils.for_range(emitter.builder, blocks, intp=I64) as block:
        source = scaled(emitter, panel, block.index, sizes.get(kind, BLOCK * PANEL * 2))
        lines = {"q4": q4_lines, "q8": q8_lines, "bf16": bf16_lines, "f16": f16_lines}[kind](emitter, source)
        target = scaled(emitter, out, block.index, BLOCK // 2 * LINE)
        for index, line in lines:
            store(emitter, line, emitter.offset(target, LINE * index), align=4)
    emitter.builder.ret_void()


def joined(emitter: Emitter, even, odd):
    """Two float32 vectors as one line: bfloat16, the first in the low halves, rounded to the nearest."""
    builder = emitter.builder
    half = emitter.constant(I32, PANEL, 0x8000)
    low = builder.lshr(builder.add(builder.bitcast(even, WORDS), half), emitter.constant(I32, PANEL, 16))
    high = builder.and_(builder.add(builder.bitcast(odd, WORDS), half), emitter.constant(I32, PANEL, 0xFFFF0000))
    return builder.or_(low, high)


def q4_lines(emitter: Emitter, block):
    """The lines of a block of 32 inputs as they come, with their numbers: nibble times scale plus minimum."""
    builder = emitter.builder
    scale, minimum = (half_floats(emitter, block, at) for at in (256, 288))
    low = emitter.constant(I32, PANEL, 15)
    for chunk in range(4):
        words = emitter.load(emitter.offset(block, LINE * chunk), WORDS)
        for j in range(4):
            pair = []
            for shift in (4 * j, 16 + 4 * j):
                shifted = builder.lshr(words, emitter.constant(I32, PANEL, shift)) if shift else words
                code = builder.and_(shifted, low) if shift < 28 else shifted
                pair.append(emitter.multiply_add(builder.sitofp(code, FLOATS), scale, minimum))
            yield 4 * chunk + j, joined(emitter, *pair)


def q8_lines(emitter: Emitter, block):
    """As `q4_lines`: signed byte times scale."""
    builder = emitter.builder
    scale = half_floats(emitter, block, 512)
    for line in range(BLOCK // 2):
        packed = emitter.load(emitter.offset(block, 2 * PANEL * line), HALVES)
        words = builder.sext(packed, WORDS)
        odd = builder.ashr(words, emitter.constant(I32, PANEL, 8))
        even = builder.ashr(builder.shl(words, emitter.constant(I32, PANEL, 24)), emitter.constant(I32, PANEL, 24))
        yield line, joined(emitter, *(builder.fmul(builder.sitofp(code, FLOATS), scale) for code in (even, odd)))


def bf16_lines(emitter: Emitter, block):
    """As `q4_lines`: two columns of bfloat16, interleaved."""
    builder = emitter.builder
    for line in range(BLOCK // 2):
        even, odd = (
            builder.zext(emitter.load(emitter.offset(block, 2 * LINE * line // 2 + at), HALVES), WORDS)
            for at in (0, LINE // 2)
        )
        yield line, builder.or_(even, builder.shl(odd, emitter.constant(I32, PANEL, 16)))


def f16_lines(emitter: Emitter, block):
    """As `q4_lines`: two columns of float16."""
    for line in range(BLOCK // 2):
        yield line, joined(emitter, *(half_floats(emitter, block, LINE * line + at) for at in (0, LINE // 2)))


def half_floats(emitter: Emitter, block, offset: int):
    """16 float16 as float32."""
    return emitter.builder.fpext(emitter.load(emitter.offset(block, offset), ir.VectorType(HALF, PANEL)), FLOATS)


def key_panels(module: ir.Module, name: str) -> None:
    """Defines ``name(keys, groups, head_dim, out)``: bfloat16 keys [16 * groups, head_dim] as ``groups`` bf16 panels.

    A slot becomes a column: lines and columns of 32-bit words change places, 16 by 16.
    """
    emitter, (keys, groups, head_dim, out) = define(module, name, 4)
    builder = emitter.builder
    stride = builder.mul(head_dim, I64(2))
    size = builder.mul(head_dim, I64(LINE // 2))
    low = ir.Constant(ir.VectorType(I32, PANEL), [i // 2 + PANEL * (i % 2) for i in range(PANEL)])
    high = ir.Constant(ir.VectorType(I32, PANEL), [8 + i // 2 + PANEL * (i % 2) for i in range(PANEL)])
    with cgutils.for_range(builder, groups, intp=I64) as group:
        first = scaled(emitter, keys, builder.mul(group.index, I64(PANEL)), stride)
        panel = scaled(emitter, out, group.index, size)
        with cgutils.for_range(builder, builder.udiv(head_dim, I64(BLOCK)), intp=I64) as part:
            at = builder.mul(part.index, I64(LINE))
            lines = [builder.add(scaled(emitter, first, I64(slot), stride), at) for slot in range(PANEL)]
            rows = [emitter.load(line, WORDS, align=2) for line in lines]
            for _ in range(4):
                pairs = [(rows[i], rows[i + 8]) for i in range(8)]
                rows = [builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
            target = scaled(emitter, panel, part.index, PANEL * LINE)
            for index, row in enumerate(rows):
                store(emitter, row, emitter.offset(target, LINE * index), align=4)
    builder.ret_void()


def value_panels(module: ir.Module, name: str) -> None:
    """Defines ``name(values, pairs, head_dim, out)``: bfloat16 values [2 * pairs, head_dim] as bf16 panels of 16
    columns, `CHUNK` inputs apart."""
    emitter, (values, pairs, head_dim, out) = define(module, name, 4)
    builder = emitter.builder
    stride = builder.mul(head_dim, I64(2))
    with cgutils.for_range(builder, pairs, intp=I64) as pair:
        first = scaled(emitter, values, builder.mul(pair.index, I64(2)), stride)
        with cgutils.for_range(builder, builder.udiv(head_dim, I64(PANEL)), intp=I64) as part:
            even_at = scaled(emitter, first, part.index, 2 * PANEL)
            even, odd = (
                builder.zext(emitter.load(at, HALVES), WORDS) for at in (even_at, builder.add(even_at, stride))
            )
            line = builder.or_(even, builder.shl(odd, emitter.constant(I32, PANEL, 16)))
            panel = scaled(emitter, out, part.index, CHUNK // 2 * LINE)
            store(emitter, line, scaled(emitter, panel, pair.index, LINE), align=4)
    builder.ret_void()


def soften_rows(module: ir.Module, name: str) -> None:
    """Defines ``name(scores, weights, limits, start, count, rows, peaks, norms, sums, head_dim)``.

    Turns ``rows`` float32 rows of ``count`` scores, in powers of 2, into bfloat16 weights, and scales down ``sums``
    [rows, head_dim], what the rows have gathered so far, where a peak rises. Row i sees the slots before
    ``limits[i]`` (int32), of which the first is ``start``; the others get weight 0. ``count`` and ``head_dim`` are
    multiples of 16; rows of scores and of weights are `CHUNK` numbers apart.
    """
    emitter, (scores, weights, limits, start, count, rows, peaks, norms, sums, head_dim) = define(module, name, 10)
    builder = emitter.builder
    lanes = ir.Constant(WORDS, list(range(PANEL)))
    vectors = builder.udiv(count, I64(PANEL))
    best, total = (cgutils.alloca_once(builder, FLOATS) for _ in range(2))
    with cgutils.for_range(builder, rows, intp=I64) as row:
        line, target = scaled(emitter, scores, row.index, 4 * CHUNK), scaled(emitter, weights, row.index, 2 * CHUNK)
        limit = emitter.load(scaled(emitter, limits, row.index, 4), I32, align=4)
        visible = emitter.broadcast(builder.sub(limit, builder.trunc(start, I32)), PANEL)
        peak_at, norm_at = scaled(emitter, peaks, row.index, 4), scaled(emitter, norms, row.index, 4)
        peak = emitter.load(peak_at, FLOAT, align=4)

        def read(index, line=line, visible=visible):
            first = emitter.broadcast(builder.trunc(builder.mul(index, I64(PANEL)), I32), PANEL)
            seen = builder.icmp_signed("<", builder.add(lanes, first), visible)
            return emitter.load(scaled(emitter, line, index, LINE), FLOATS, align=4), seen

        builder.store(emitter.broadcast(peak, PANEL), best)
        with cgutils.for_range(builder, vectors, intp=I64) as part:
            score, seen = read(part.index)
            score = builder.select(seen, score, emitter.constant(FLOAT, PANEL, LEAST_SCORE))
            builder.store(larger(emitter, score, builder.load(best)), best)
        spread = over_lanes(emitter, builder.load(best), larger)
        new_peak = builder.extract_element(spread, I32(0))
        builder.store(ir.Constant(FLOATS, None), total)
        with cgutils.for_range(builder, vectors, intp=I64) as part:
            score, seen = read(part.index)
            weight = power_of_two(emitter, builder.fsub(score, spread))
            weight = builder.select(seen, weight, ir.Constant(FLOATS, None))
            builder.store(builder.fadd(builder.load(total), weight), total)
            rounded = builder.bitcast(builder.fptrunc(weight, BFLOATS), HALVES)
            store(emitter, rounded, scaled(emitter, target, part.index, 2 * PANEL))
        norm = over_lanes(emitter, builder.load(total), lambda emitter, a, b: emitter.builder.fadd(a, b))
        shrink = power_of_two(emitter, emitter.broadcast(builder.fsub(peak, new_peak), PANEL))
        before = builder.fmul(emitter.load(norm_at, FLOAT, align=4), builder.extract_element(shrink, I32(0)))
        store(emitter, builder.fadd(before, builder.extract_element(norm, I32(0))), norm_at, align=4)
        store(emitter, new_peak, peak_at, align=4)
        with builder.if_then(builder.fcmp_ordered(">", new_peak, peak)):
            gathered = scaled(emitter, sums, row.index, builder.mul(head_dim, I64(4)))
            with cgutils.for_range(builder, builder.udiv(head_dim, I64(PANEL)), intp=I64) as part:
                at = scaled(emitter, gathered, part.index, LINE)
                store(emitter, builder.fmul(emitter.load(at, FLOATS, align=4), shrink), at, align=4)
    builder.ret_void()


def larger(emitter: Emitter, a, b):
    """The larger number of each lane."""
    return emitter.builder.select(emitter.builder.fcmp_ordered(">", a, b), a, b)


def over_lanes(emitter: Emitter, vector, operation):
    """All lanes of a vector taken together by ``operation(emitter, a, b)``; the result is in every lane."""
    for distance in (8, 4, 2, 1):
        mask = ir.Constant(WORDS, [lane ^ distance for lane in range(PANEL)])
        vector = operation(emitter, vector, emitter.builder.shuffle_vector(vector, vector, mask))
    return vector


def power_of_two(emitter: Emitter, x):
    """2 ** x for each x at most 0; 2 ** -126 or less for what is below that."""
    builder = emitter.builder
    x = larger(emitter, x, emitter.constant(FLOAT, PANEL, LEAST_EXPONENT))
    whole = call(emitter, "llvm.rint.v16f32", FLOATS, [x])
    rest = builder.fsub(x, whole)
    value = emitter.constant(FLOAT, PANEL, EXP2[0])
    for factor in EXP2[1:]:
        value = emitter.multiply_add(value, rest, emitter.constant(FLOAT, PANEL, factor))
    exponent = builder.shl(builder.fptosi(whole, WORDS), emitter.constant(I32, PANEL, 23))
    return builder.bitcast(builder.add(builder.bitcast(value, WORDS), exponent), FLOATS)


def prefill_tile_names() -> list[str]:
    """Names of the tiles for many rows; none on a processor without bfloat16 instructions."""
    if not HAS_BF16:
        return []
    widened = [f"widen_{kind}" for kind in TILE_KINDS if kind in WIDENED]
    products = ["bf16_dot", *(["bf16_amx"] if HAS_AMX else [])]
    return [*widened, "key_panels", "value_panels", "soften_rows", *products]


def define_prefill_tiles(module: ir.Module) -> None:
    """Defines all of them."""
    others = {
        "key_panels": key_panels,
        "value_panels": value_panels,
        "soften_rows": soften_rows,
        "bf16_dot": dot_product,
        "bf16_amx": amx_product,
    }
    for name in prefill_tile_names():
        if name in others:
            others[name](module, name)
        else:
            widen_tile(module, name, name.removeprefix("widen_"))
