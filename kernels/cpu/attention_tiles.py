"""Inner loops of attention as vector instructions: scores of a few queries, and their weighted sum of values.

Keys and values are rows of ``head_dim`` numbers, float32 or bfloat16, at a fixed distance from each other: a block of
the cache, or a gathered run of slots. ``head_dim`` is a multiple of 8.

Sixteen bfloat16 numbers are eight 32-bit words; shifting the words and masking them gives the even and the odd
numbers as float32, at half the cost of widening them in order. Queries and sums of the bfloat16 tiles are therefore in
*word order*: of each whole group of 16 numbers first the even ones, then the odd ones.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from .tiles import FLOAT, I16, I32, I64, Emitter, define

WIDTH = 8
SLOTS = 4
MAX_QUERIES = 3
WIDE_PARTS = 4
VECTOR = ir.VectorType(FLOAT, WIDTH)


def numbers(emitter: Emitter, address, bf16: bool):
    """Eight float32 or bfloat16 numbers as float32."""
    if not bf16:
        return emitter.load(address, VECTOR, align=4)
    builder = emitter.builder
    wide = builder.zext(emitter.load(address, ir.VectorType(I16, WIDTH), align=2), ir.VectorType(I32, WIDTH))
    return builder.bitcast(builder.shl(wide, emitter.constant(I32, WIDTH, 16)), VECTOR)


def word_pair(emitter: Emitter, address):
    """Sixteen bfloat16 numbers as float32: the even ones, the odd ones."""
    builder = emitter.builder
    words = emitter.load(address, ir.VectorType(I32, WIDTH), align=2)
    even = builder.shl(words, emitter.constant(I32, WIDTH, 16))
    odd = builder.and_(words, emitter.constant(I32, WIDTH, 0xFFFF0000))
    return [builder.bitcast(even, VECTOR), builder.bitcast(odd, VECTOR)]


def four_sums(emitter: Emitter, vectors):
    """The sums of four vectors of eight, as one vector of four."""
    builder = emitter.builder

    def pick(pair, lanes):
        return builder.shuffle_vector(pair[0], pair[1], ir.Constant(ir.VectorType(I32, 4), lanes))

    fours = [builder.fadd(pick((v, v), [0, 1, 2, 3]), pick((v, v), [4, 5, 6, 7])) for v in vectors]
    pairs = [builder.fadd(pick(two, [0, 4, 1, 5]), pick(two, [2, 6, 3, 7])) for two in (fours[:2], fours[2:])]
    return builder.fadd(pick(pairs, [0, 1, 4, 5]), pick(pairs, [2, 3, 6, 7]))


def score_tile(module: ir.Module, name: str, queries: int, bf16: bool) -> None:
    """Defines ``name(keys, key_stride, count, q, q_stride, head_dim, out, out_stride, ahead, ahead_too)``.

    Dot products of ``queries`` float32 rows with ``count`` keys. Writes up to 3 values past ``count``, which repeat
    the last key; never reads past it. Strides in bytes. ``ahead`` and ``ahead_too`` are addresses of as many slots
    that will be read later: their memory is asked for little by little.
    """
    emitter, arguments = define(module, name, 10)
    keys, key_stride, count, q, q_stride, head_dim, out, out_stride, ahead, ahead_too = arguments
    builder = emitter.builder
    key_bytes = 2 if bf16 else 4
    sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(SLOTS)] for _ in range(queries)]
    last = builder.sub(count, I64(1))
    groups = builder.udiv(builder.add(count, I64(SLOTS - 1)), I64(SLOTS))
    with cgutils.for_range(builder, groups, intp=I64) as group:
        first = builder.mul(group.index, I64(SLOTS))
        lines = slot_lines(emitter, keys, key_stride, first, SLOTS, last)
        at_slots = builder.mul(first, key_stride)
        with cgutils.for_range(builder, builder.udiv(key_stride, I64(64 // SLOTS)), intp=I64) as cache_line:
            offset = builder.add(at_slots, builder.mul(cache_line.index, I64(64)))
            emitter.prefetch(builder.add(ahead, offset))
            emitter.prefetch(builder.add(ahead_too, offset))
        for place in (place for row in sums for place in row):
            builder.store(ir.Constant(VECTOR, None), place)
        done = I64(0)
        if bf16:
            pairs = builder.udiv(head_dim, I64(2 * WIDTH))
            with cgutils.for_range(builder, pairs, intp=I64) as pair:
                at = builder.mul(pair.index, I64(2 * WIDTH))
                place = builder.mul(at, I64(2))
                keys_there = [word_pair(emitter, builder.add(line, place)) for line in lines]
                add_dots(emitter, sums, q, q_stride, at, keys_there)
            done = builder.mul(pairs, I64(2 * WIDTH))
        rest = builder.udiv(builder.sub(head_dim, done), I64(WIDTH))
        with cgutils.for_range(builder, rest, intp=I64) as part:
            at = builder.add(done, builder.mul(part.index, I64(WIDTH)))
            place = builder.mul(at, I64(key_bytes))
            keys_there = [[numbers(emitter, builder.add(line, place), bf16)] for line in lines]
            add_dots(emitter, sums, q, q_stride, at, keys_there)
        for row in range(queries):
            four = four_sums(emitter, [builder.load(place) for place in sums[row]])
            address = builder.add(out, builder.mul(out_stride, I64(row)))
            address = builder.add(address, builder.mul(first, I64(4)))
            builder.store(four, builder.inttoptr(address, ir.VectorType(FLOAT, SLOTS).as_pointer()), align=4)
    builder.ret_void()


def add_dots(emitter: Emitter, sums, q, q_stride, at, keys) -> None:
    """Adds to ``sums`` [rows][slots] the products of queries from number ``at`` on with ``keys`` [slots][vectors]."""
    builder = emitter.builder
    first = builder.add(q, builder.mul(at, I64(4)))
    for row, places in enumerate(sums):
        line = builder.add(first, builder.mul(q_stride, I64(row)))
        for part in range(len(keys[0])):
            query = emitter.load(emitter.offset(line, 4 * WIDTH * part), VECTOR, align=4)
            for slot, place in enumerate(places):
                builder.store(emitter.multiply_add(query, keys[slot][part], builder.load(place)), place)


def value_tile(module: ir.Module, name: str, queries: int, bf16: bool) -> None:
    """Defines ``name(values, value_stride, count, weights, weights_stride, head_dim, sums, sums_stride)``.

    Adds to each of ``queries`` float32 rows ``sums`` the ``count`` values times that row's ``weights``.
    """
    emitter, arguments = define(module, name, 8)
    head_dim = arguments[5]
    builder = emitter.builder
    done = I64(0)
    for parts in (WIDE_PARTS, 2, 1):
        count = builder.udiv(builder.sub(head_dim, done), I64(WIDTH * parts))
        with cgutils.for_range(builder, count, intp=I64) as group:
            first = builder.add(done, builder.mul(group.index, I64(WIDTH * parts)))
            emit_value_columns(emitter, arguments, queries, bf16, first, parts)
        done = builder.add(done, builder.mul(count, I64(WIDTH * parts)))
    builder.ret_void()


def emit_value_columns(emitter: Emitter, arguments, queries: int, bf16: bool, first, parts: int) -> None:
    """The weighted sum of ``8 * parts`` columns from column ``first`` on."""
    values, value_stride, count, weights, weights_stride, _, sums, sums_stride = arguments
    builder = emitter.builder
    value_bytes = 2 if bf16 else 4
    places, targets = [], []
    for row in range(queries):
        line = builder.add(sums, builder.mul(sums_stride, I64(row)))
        line = builder.add(line, builder.mul(first, I64(4)))
        targets.append([emitter.offset(line, 4 * WIDTH * part) for part in range(parts)])
        places.append([cgutils.alloca_once(builder, VECTOR) for _ in range(parts)])
        for place, target in zip(places[row], targets[row], strict=True):
            builder.store(emitter.load(target, VECTOR, align=4), place)
    with cgutils.for_range(builder, count, intp=I64) as slot:
        line = builder.add(values, builder.mul(slot.index, value_stride))
        line = builder.add(line, builder.mul(first, I64(value_bytes)))
        places_there = [emitter.offset(line, value_bytes * WIDTH * part) for part in range(parts)]
        if bf16 and parts > 1:
            loaded = [number for place in places_there[::2] for number in word_pair(emitter, place)]
        else:
            loaded = [numbers(emitter, place, bf16) for place in places_there]
        for row in range(queries):
            place = builder.add(weights, builder.mul(weights_stride, I64(row)))
            place = builder.add(place, builder.mul(slot.index, I64(4)))
            weight = emitter.broadcast(emitter.load(place, FLOAT, align=4), WIDTH)
            for part, value in enumerate(loaded):
                total = emitter.multiply_add(weight, value, builder.load(places[row][part]))
                builder.store(total, places[row][part])
    for row in range(queries):
        for place, target in zip(places[row], targets[row], strict=True):
            builder.store(builder.load(place), builder.inttoptr(target, VECTOR.as_pointer()), align=4)


def transpose_tile(module: ir.Module, name: str, bf16: bool) -> None:
    """Defines ``name(keys, key_stride, count, head_dim, out)``: keys as float32 panels of 16 slots.

    ``out`` is [slots / 16, head_dim, 16]; slots from ``count`` on to the next multiple of 8 repeat the last key.
    """
    emitter, arguments = define(module, name, 5)
    keys, key_stride, count, head_dim, out = arguments
    builder = emitter.builder
    last = builder.sub(count, I64(1))
    groups = builder.udiv(builder.add(count, I64(WIDTH - 1)), I64(WIDTH))
    with cgutils.for_range(builder, groups, intp=I64) as group:
        lines = slot_lines(emitter, keys, key_stride, builder.mul(group.index, I64(WIDTH)), WIDTH, last)
        panel = builder.mul(builder.mul(builder.udiv(group.index, I64(2)), head_dim), I64(64))
        panel = builder.add(builder.add(out, panel), builder.mul(builder.urem(group.index, I64(2)), I64(4 * WIDTH)))
        with cgutils.for_range(builder, builder.udiv(head_dim, I64(WIDTH)), intp=I64) as part:
            at_key = builder.mul(part.index, I64(WIDTH * (2 if bf16 else 4)))
            rows = [numbers(emitter, builder.add(line, at_key), bf16) for line in lines]
            target = builder.add(panel, builder.mul(part.index, I64(64 * WIDTH)))
            for index, column in enumerate(transposed(emitter, rows)):
                place = builder.inttoptr(emitter.offset(target, 64 * index), VECTOR.as_pointer())
                builder.store(column, place, align=4)
    builder.ret_void()


def transposed(emitter: Emitter, rows):
    """Eight vectors of eight, rows and columns exchanged: three rounds that interleave a vector and its fourth next."""
    low = ir.Constant(ir.VectorType(I32, WIDTH), [0, 8, 1, 9, 2, 10, 3, 11])
    high = ir.Constant(ir.VectorType(I32, WIDTH), [4, 12, 5, 13, 6, 14, 7, 15])
    for _ in range(3):
        pairs = [(rows[i], rows[i + 4]) for i in range(4)]
        rows = [emitter.builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
    return rows


def slot_lines(emitter: Emitter, keys, key_stride, first, count: int, last):
    """Addresses of ``count`` neighbouring keys; past the last one, the last one again."""
    builder = emitter.builder
    lines = []
    for slot in range(count):
        index = builder.add(first, I64(slot))
        index = builder.select(builder.icmp_unsigned("<", index, last), index, last)
        lines.append(builder.add(keys, builder.mul(index, key_stride)))
    return lines


def attention_tile_names() -> list[str]:
    """Names of the attention tiles: scores, then values; each float32, then bfloat16; each for 1 to 3 queries.

    Then those that transpose keys.
    """
    tiles = [
        f"{operation}_{kind}_{queries}"
        for operation in ("scores", "values")
        for kind in ("f32", "bf16")
        for queries in range(1, MAX_QUERIES + 1)
    ]
    return [*tiles, "transpose_f32", "transpose_bf16"]


def define_attention_tiles(module: ir.Module) -> None:
    """Defines all attention tiles."""
    for name in attention_tile_names():
        operation, kind, *queries = name.split("_")
        if operation == "transpose":
            transpose_tile(module, name, kind == "bf16")
        else:
            emit = score_tile if operation == "scores" else value_tile
            emit(module, name, int(queries[0]), kind == "bf16")
