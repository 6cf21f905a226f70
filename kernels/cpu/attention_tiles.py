"""Inner loops of attention as vector instructions: scores of a few queries, and their weighted sum of values.

Keys and values are rows of ``head_dim`` numbers, float32 or bfloat16, one after another in the blocks of a table; the
tiles walk the table themselves. ``head_dim`` is a multiple of 8.

A word of 32 bits holds two bfloat16 numbers; shifting the words of a vector and masking them gives the even and the
odd numbers as float32, at half the cost of widening them in order. Queries and sums of the bfloat16 tiles are
therefore in *word order*: of each whole group of two vectors first the even numbers, then the odd ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from .softmax_tile import soften_tile
from .tiles import FLOAT, I16, I32, I64, LANES, Emitter, define

UNIT = 8
WIDTH = LANES
SLOTS = 4
MAX_QUERIES = 3
WIDE_PARTS = 4
PREFETCH_SLOTS = 32
FIRST_LINES = 4
"""Cache lines of a block that are asked for twice as far ahead: the processor then fetches those behind them itself."""
CHUNK = 128
"""Slots that are scored before their values are summed; longer blocks are a multiple of it."""
VECTOR = ir.VectorType(FLOAT, WIDTH)
EIGHT = ir.VectorType(FLOAT, UNIT)


def numbers(emitter: Emitter, address, bf16: bool, lanes: int = WIDTH):
    """``lanes`` float32 or bfloat16 numbers as float32."""
    if not bf16:
        return emitter.load(address, ir.VectorType(FLOAT, lanes), align=4)
    builder = emitter.builder
    wide = builder.zext(emitter.load(address, ir.VectorType(I16, lanes), align=2), ir.VectorType(I32, lanes))
    return builder.bitcast(builder.shl(wide, emitter.constant(I32, lanes, 16)), ir.VectorType(FLOAT, lanes))


def widened(emitter: Emitter, vector):
    """A vector of eight with zeros behind it, as long as all others."""
    if vector.type.count == WIDTH:
        return vector
    lanes = ir.Constant(ir.VectorType(I32, WIDTH), list(range(WIDTH)))
    return emitter.builder.shuffle_vector(vector, ir.Constant(vector.type, None), lanes)


def word_pair(emitter: Emitter, address):
    """Two vectors of bfloat16 numbers as float32: the even ones, the odd ones."""
    builder = emitter.builder
    words = emitter.load(address, ir.VectorType(I32, WIDTH), align=2)
    even = builder.shl(words, emitter.constant(I32, WIDTH, 16))
    odd = builder.and_(words, emitter.constant(I32, WIDTH, 0xFFFF0000))
    return [builder.bitcast(even, VECTOR), builder.bitcast(odd, VECTOR)]


def four_sums(emitter: Emitter, vectors):
    """The sums of four vectors, as one vector of four."""
    builder = emitter.builder

    def pick(pair, lanes):
        return builder.shuffle_vector(pair[0], pair[1], ir.Constant(ir.VectorType(I32, len(lanes)), lanes))

    def fold(pair, lanes):
        return builder.fadd(pick(pair, lanes[0]), pick(pair, lanes[1]))

    if WIDTH == 16:
        halves = [[*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]]
        quarters = [[*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]]
        quarters.append([lane + 4 for lane in quarters[0]])
        whole = fold((fold(vectors[:2], halves), fold(vectors[2:], halves)), quarters)
        for distance in (1, 2):
            whole = builder.fadd(whole, pick((whole, whole), [lane ^ distance for lane in range(16)]))
        return pick((whole, whole), [0, 4, 8, 12])
    fours = [fold((v, v), ([0, 1, 2, 3], [4, 5, 6, 7])) for v in vectors]
    pairs = [fold(two, ([0, 4, 1, 5], [2, 6, 3, 7])) for two in (fours[:2], fours[2:])]
    return fold(pairs, ([0, 1, 4, 5], [2, 3, 6, 7]))


@dataclass
class Stretch:
    """Slots that lie in one block.

    Attributes:
        address: where they begin.
        count: how many they are.
        first: slots before them.
        ahead: takes the number of a slot in the block, gives the address of the one that far ahead that will be read
            `PREFETCH_SLOTS` slots later.
    """

    address: Any
    count: Any
    first: Any
    ahead: Any


@contextmanager
def blocks_of(emitter: Emitter, base, table, block_stride, block_size, line, count, reach) -> Iterator[Stretch]:
    """A loop over the blocks of ``count`` slots, from the one on that the int32 at address ``table`` names.

    ``base`` is the address of the first slot in block 0, ``reach`` the entries of the table that may be read, in order
    to ask for the memory of later slots. Strides in bytes.
    """
    builder = emitter.builder
    distance = I64(PREFETCH_SLOTS)
    near = builder.mul(distance, line)
    spans = builder.icmp_unsigned(">=", block_size, distance)
    whole = builder.icmp_unsigned(">", block_size, I64(CHUNK))
    blocks_ahead = builder.select(spans, I64(1), builder.udiv(distance, block_size))
    cut = builder.select(spans, builder.sub(block_size, distance), I64(0))
    cut = builder.select(whole, block_size, cut)
    far = builder.mul(builder.select(spans, builder.sub(distance, block_size), I64(0)), line)
    last = builder.sub(reach, I64(1))
    blocks = builder.udiv(builder.sub(builder.add(count, block_size), I64(1)), block_size)

    def address_of(index):
        place = builder.add(table, builder.mul(index, I64(4)))
        block = builder.sext(emitter.load(place, I32, align=4), I64)
        return builder.add(base, builder.mul(block, block_stride))

    with cgutils.for_range(builder, blocks, intp=I64) as block:
        address = address_of(block.index)
        later = builder.add(block.index, blocks_ahead)
        later = builder.select(builder.icmp_unsigned("<", later, last), later, last)
        far_address, near_address = builder.add(address_of(later), far), builder.add(address, near)
        first = builder.mul(block.index, block_size)
        rest = builder.sub(count, first)
        run = builder.select(builder.icmp_unsigned("<", rest, block_size), rest, block_size)

        much_later = builder.add(block.index, builder.mul(blocks_ahead, I64(2)))
        much_later = builder.select(builder.icmp_unsigned("<", much_later, last), much_later, last)
        start = address_of(much_later)
        for cache_line in range(FIRST_LINES):
            emitter.prefetch(emitter.offset(start, 64 * cache_line))

        def ahead(slot):
            start = builder.select(builder.icmp_unsigned("<", slot, cut), near_address, far_address)
            return builder.add(start, builder.mul(slot, line))

        yield Stretch(address, run, first, ahead)


def score_tile(module: ir.Module, name: str, queries: int, bf16: bool) -> None:
    """Defines ``name(keys, table, block_stride, block_size, line, count, reach, q, q_stride, head_dim, out,
    out_stride)``.

    Dot products of ``queries`` float32 rows with the ``count`` keys that begin at ``keys`` in block 0 and in the
    blocks of ``table`` (see `blocks_of`). Writes up to 3 values past ``count``, which repeat the last key; never reads
    past it. Strides in bytes; ``line`` is that of keys.
    """
    emitter, arguments = define(module, name, 12)
    walk, (q, q_stride, head_dim, out, out_stride) = arguments[:7], arguments[7:]
    line = arguments[4]
    builder = emitter.builder
    key_bytes = 2 if bf16 else 4
    sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(SLOTS)] for _ in range(queries)]
    strides = [builder.mul(line, I64(slot)) for slot in range(SLOTS)]
    with blocks_of(emitter, *walk) as stretch:
        groups = builder.udiv(builder.add(stretch.count, I64(SLOTS - 1)), I64(SLOTS))
        with cgutils.for_range(builder, groups, intp=I64) as group:
            first = builder.mul(group.index, I64(SLOTS))
            begin = builder.add(stretch.address, builder.mul(first, line))
            rest = builder.mul(builder.sub(builder.sub(stretch.count, first), I64(1)), line)
            lines = []
            for stride in strides:
                near = builder.select(builder.icmp_unsigned("<", stride, rest), stride, rest)
                lines.append(builder.add(begin, near))
            ahead = stretch.ahead(first)
            for place in (place for row in sums for place in row):
                builder.store(ir.Constant(VECTOR, None), place)

            def add_keys(at, count, load, lines=lines, ahead=ahead):
                """Adds the products of ``count`` numbers of each key from number ``at`` on."""
                place = builder.mul(at, I64(key_bytes))
                for cache_line in range(0, SLOTS * count * key_bytes, 64):
                    emitter.prefetch(emitter.offset(builder.add(ahead, builder.mul(place, I64(SLOTS))), cache_line))
                add_dots(emitter, sums, q, q_stride, at, [load(builder.add(line, place)) for line in lines])

            done = I64(0)
            if bf16:
                pairs = builder.udiv(head_dim, I64(2 * WIDTH))
                with cgutils.for_range(builder, pairs, intp=I64) as pair:
                    at = builder.mul(pair.index, I64(2 * WIDTH))
                    add_keys(at, 2 * WIDTH, lambda place: word_pair(emitter, place))
                done = builder.mul(pairs, I64(2 * WIDTH))
            for lanes in dict.fromkeys((WIDTH, UNIT)):
                parts = builder.udiv(builder.sub(head_dim, done), I64(lanes))
                with cgutils.for_range(builder, parts, intp=I64) as part:
                    at = builder.add(done, builder.mul(part.index, I64(lanes)))
                    add_keys(at, lanes, lambda place, lanes=lanes: [numbers(emitter, place, bf16, lanes)])
                done = builder.add(done, builder.mul(parts, I64(lanes)))
            for row in range(queries):
                four = four_sums(emitter, [builder.load(place) for place in sums[row]])
                address = builder.add(out, builder.mul(out_stride, I64(row)))
                address = builder.add(address, builder.mul(builder.add(stretch.first, first), I64(4)))
                builder.store(four, builder.inttoptr(address, ir.VectorType(FLOAT, SLOTS).as_pointer()), align=4)
    builder.ret_void()


def add_dots(emitter: Emitter, sums, q, q_stride, at, keys) -> None:
    """Adds to ``sums`` [rows][slots] the products of queries from number ``at`` on with ``keys`` [slots][vectors]."""
    builder = emitter.builder
    lanes = keys[0][0].type.count
    first = builder.add(q, builder.mul(at, I64(4)))
    keys = [[widened(emitter, vector) for vector in key] for key in keys]
    for row, places in enumerate(sums):
        line = builder.add(first, builder.mul(q_stride, I64(row)))
        for part in range(len(keys[0])):
            query = emitter.load(emitter.offset(line, 4 * lanes * part), ir.VectorType(FLOAT, lanes), align=4)
            query = widened(emitter, query)
            for slot, place in enumerate(places):
                builder.store(emitter.multiply_add(query, keys[slot][part], builder.load(place)), place)


def value_tile(module: ir.Module, name: str, queries: int, bf16: bool) -> None:
    """Defines ``name(values, table, block_stride, block_size, line, count, reach, weights, weights_stride, head_dim,
    sums, sums_stride)``.

    Adds to each of ``queries`` float32 rows ``sums`` the ``count`` values times that row's ``weights``; see
    `score_tile`.
    """
    emitter, arguments = define(module, name, 12)
    head_dim = arguments[9]
    builder = emitter.builder
    done = I64(0)
    for lanes, parts in [(WIDTH, WIDE_PARTS), (WIDTH, 2), (WIDTH, 1)] + [(UNIT, 1)] * (WIDTH > UNIT):
        count = builder.udiv(builder.sub(head_dim, done), I64(lanes * parts))
        with cgutils.for_range(builder, count, intp=I64) as group:
            first = builder.add(done, builder.mul(group.index, I64(lanes * parts)))
            emit_value_columns(emitter, arguments, queries, bf16, first, lanes, parts)
        done = builder.add(done, builder.mul(count, I64(lanes * parts)))
    builder.ret_void()


def emit_value_columns(emitter: Emitter, arguments, queries: int, bf16: bool, first, lanes: int, parts: int) -> None:
    """The weighted sum of ``lanes * parts`` columns from column ``first`` on."""
    walk, (weights, weights_stride, _, sums, sums_stride) = arguments[:7], arguments[7:]
    builder = emitter.builder
    value_bytes = 2 if bf16 else 4
    vector = ir.VectorType(FLOAT, lanes)
    at = builder.mul(first, I64(value_bytes))
    places, targets = [], []
    for row in range(queries):
        line = builder.add(sums, builder.mul(sums_stride, I64(row)))
        line = builder.add(line, builder.mul(first, I64(4)))
        targets.append([emitter.offset(line, 4 * lanes * part) for part in range(parts)])
        places.append([cgutils.alloca_once(builder, vector) for _ in range(parts)])
        for place, target in zip(places[row], targets[row], strict=True):
            builder.store(emitter.load(target, vector, align=4), place)
    with (
        blocks_of(emitter, *walk) as stretch,
        cgutils.for_range(builder, stretch.count, intp=I64) as slot,
    ):
        line = builder.add(stretch.address, builder.mul(slot.index, walk[4]))
        line, ahead = builder.add(line, at), builder.add(stretch.ahead(slot.index), at)
        for cache_line in range(0, lanes * parts * value_bytes, 64):
            emitter.prefetch(emitter.offset(ahead, cache_line))
        places_there = [emitter.offset(line, value_bytes * lanes * part) for part in range(parts)]
        if bf16 and parts > 1:
            loaded = [number for place in places_there[::2] for number in word_pair(emitter, place)]
        else:
            loaded = [numbers(emitter, place, bf16, lanes) for place in places_there]
        for row in range(queries):
            place = builder.add(weights, builder.mul(weights_stride, I64(row)))
            place = builder.add(place, builder.mul(builder.add(stretch.first, slot.index), I64(4)))
            weight = emitter.broadcast(emitter.load(place, FLOAT, align=4), lanes)
            for part, value in enumerate(loaded):
                total = emitter.multiply_add(weight, value, builder.load(places[row][part]))
                builder.store(total, places[row][part])
    for row in range(queries):
        for place, target in zip(places[row], targets[row], strict=True):
            builder.store(builder.load(place), builder.inttoptr(target, vector.as_pointer()), align=4)


def transpose_tile(module: ir.Module, name: str, bf16: bool) -> None:
    """Defines ``name(keys, key_stride, count, head_dim, out)``: keys as float32 panels of 16 slots.

    ``out`` is [slots / 16, head_dim, 16]; slots from ``count`` on to the next multiple of 8 repeat the last key.
    """
    emitter, arguments = define(module, name, 5)
    keys, key_stride, count, head_dim, out = arguments
    builder = emitter.builder
    last = builder.sub(count, I64(1))
    groups = builder.udiv(builder.add(count, I64(UNIT - 1)), I64(UNIT))
    with cgutils.for_range(builder, groups, intp=I64) as group:
        lines = slot_lines(emitter, keys, key_stride, builder.mul(group.index, I64(UNIT)), UNIT, last)
        panel = builder.mul(builder.mul(builder.udiv(group.index, I64(2)), head_dim), I64(64))
        panel = builder.add(builder.add(out, panel), builder.mul(builder.urem(group.index, I64(2)), I64(4 * UNIT)))
        with cgutils.for_range(builder, builder.udiv(head_dim, I64(UNIT)), intp=I64) as part:
            at_key = builder.mul(part.index, I64(UNIT * (2 if bf16 else 4)))
            rows = [numbers(emitter, builder.add(line, at_key), bf16, UNIT) for line in lines]
            target = builder.add(panel, builder.mul(part.index, I64(64 * UNIT)))
            for index, column in enumerate(transposed(emitter, rows)):
                place = builder.inttoptr(emitter.offset(target, 64 * index), EIGHT.as_pointer())
                builder.store(column, place, align=4)
    builder.ret_void()


def transposed(emitter: Emitter, rows):
    """Eight vectors of eight, rows and columns exchanged: three rounds that interleave a vector and its fourth next."""
    low = ir.Constant(ir.VectorType(I32, UNIT), [0, 8, 1, 9, 2, 10, 3, 11])
    high = ir.Constant(ir.VectorType(I32, UNIT), [4, 12, 5, 13, 6, 14, 7, 15])
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

    Then those that transpose keys, and the softmax.
    """
    tiles = [
        f"{operation}_{kind}_{queries}"
        for operation in ("scores", "values")
        for kind in ("f32", "bf16")
        for queries in range(1, MAX_QUERIES + 1)
    ]
    return [*tiles, "transpose_f32", "transpose_bf16", "soften"]


def define_attention_tiles(module: ir.Module) -> None:
    """Defines all attention tiles."""
    for name in attention_tile_names():
        operation, kind, *queries = [*name.split("_"), ""]
        if operation == "transpose":
            transpose_tile(module, name, kind == "bf16")
        elif operation == "soften":
            soften_tile(module, name)
        else:
            emit = score_tile if operation == "scores" else value_tile
            emit(module, name, int(queries[0]), kind == "bf16")
