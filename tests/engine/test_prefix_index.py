"""The prefix index: hits exact to the token, by comparing tokens."""

import random
import time

from pagedchat.engine.prefix_index import PrefixIndex


class Chain:
    """Inserts blocks of one KV group by number, so that a test reads like a picture."""

    def __init__(self, block_size: int) -> None:
        self.index = PrefixIndex(block_size)
        self.nodes = {}

    def insert(self, block: int, tokens, parent: int | None, salt: str = "") -> int:
        before = self.index.root(salt) if parent is None else self.nodes[parent]
        node = self.index.insert(before, tokens, [block])
        self.nodes[node.blocks[0]] = node
        return node.blocks[0]


class Tail:
    """A live tail of one block."""

    def __init__(self, block: int, tokens: list[int]) -> None:
        self.block, self.ids = block, tokens

    def tokens(self):
        return self.ids

    def blocks(self):
        return [self.block]


def found(match):
    return match.blocks, match.partial, match.partial_tokens


def test_a_match_is_exact_to_the_token_and_never_longer_than_the_limit():
    chain = Chain(4)
    chain.insert(0, [1, 2, 3, 4], None)
    chain.insert(1, [5, 6, 7, 8], 0)
    chain.insert(2, [9, 10], 1)
    index = chain.index
    assert found(index.match([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])) == ([0, 1], [2], 2)
    assert found(index.match([1, 2, 3, 4, 5, 6, 99])) == ([0], [1], 2)
    limited = index.match([1, 2, 3, 4, 5, 6, 7, 8], limit=7)
    assert found(limited) == ([0], [1], 3)
    assert limited.num_tokens(4) == 7


def test_equal_blocks_after_different_prefixes_are_never_confused():
    chain = Chain(2)
    chain.insert(0, [1, 1], None)
    chain.insert(1, [7, 7], 0)
    assert chain.index.match([2, 2, 7, 7]).num_tokens(2) == 0
    chain.insert(2, [2, 2], None)
    assert chain.index.match([2, 2, 7, 7]).blocks == [2]


def test_salts_do_not_see_each_other():
    chain = Chain(2)
    chain.insert(0, [1, 1], None, "alice")
    assert chain.index.match([1, 1], "bob").blocks == []
    assert chain.index.match([1, 1], "alice").blocks == [0]


def test_inserting_the_same_content_twice_names_the_first_block():
    chain = Chain(2)
    assert chain.insert(0, [1, 2], None) == 0
    assert chain.insert(1, [1, 2], None) == 0
    assert 1 not in chain.index
    assert chain.insert(2, [1], None) == 0


def test_the_best_partial_match_is_found_among_many_siblings_like_an_exhaustive_search():
    rng = random.Random(11)
    for _ in range(200):
        chain, children = Chain(6), {}
        for block in range(rng.randint(1, 30)):
            tokens = tuple(rng.randint(0, 2) for _ in range(rng.randint(1, 6)))
            if chain.insert(block, tokens, None) == block:
                children[block] = tokens
        query = [rng.randint(0, 2) for _ in range(5)]
        best = max(sum(1 for _ in iter_common(tokens, query)) for tokens in children.values())
        assert chain.index.match(query).partial_tokens == best


def iter_common(first, second):
    for one, other in zip(first, second, strict=False):
        if one != other:
            return
        yield one


def test_a_live_tail_is_found_as_it_is_at_the_moment_of_the_lookup():
    chain, tail = Chain(4), Tail(9, [5])
    chain.insert(0, [1, 2, 3, 4], None)
    index = chain.index
    index.attach(chain.nodes[0], tail)
    assert index.match([1, 2, 3, 4, 5, 6]).num_tokens(4) == 5
    tail.ids.append(6)
    assert found(index.match([1, 2, 3, 4, 5, 6])) == ([0], [9], 2)
    index.detach(chain.nodes[0], tail)
    assert index.match([1, 2, 3, 4, 5, 6]).num_tokens(4) == 4


def test_a_longer_entry_covers_part_filled_ones_that_it_begins_with():
    chain = Chain(4)
    chain.insert(0, [1], None)
    chain.insert(1, [1, 2, 3], None)
    chain.insert(2, [1, 9], None)
    chain.insert(3, [1, 2, 3, 4], None)
    assert sorted(node.blocks[0] for node in chain.index.covered_by(chain.nodes[3])) == [0, 1]


def test_lookup_among_many_chats_under_one_prompt_does_not_grow_with_their_number():
    rng, chain = random.Random(3), Chain(16)
    chain.insert(0, list(range(16)), None)
    index = chain.index
    for block in range(1, 10_001):
        chain.insert(block, [77, *(rng.randint(0, 50_000) for _ in range(15))], 0)
    query = [*range(16), 77, *(rng.randint(0, 50_000) for _ in range(15))]
    compared = CountingTuple.count_comparisons(chain.nodes[0], query)
    assert compared < 64
    started = time.perf_counter()
    assert index.match(query).partial_tokens >= 1
    assert time.perf_counter() - started < 1


class CountingTuple(tuple):
    """A query key that counts how often it is compared."""

    compared = 0

    @classmethod
    def count_comparisons(cls, node, query):
        from bisect import bisect_left

        cls.compared = 0
        bisect_left(node.keys, cls(query[16:]))
        return cls.compared

    def __lt__(self, other):
        type(self).compared += 1
        return tuple.__lt__(self, other)

    def __gt__(self, other):
        type(self).compared += 1
        return tuple.__gt__(self, other)


def test_a_salt_that_holds_nothing_any_more_costs_nothing():
    chain = Chain(2)
    index = chain.index
    for number in range(100):
        chain.insert(1, [1, 2], None, f"salt{number}")
        tail = Tail(2, [3])
        other = index.root(f"other{number}")
        index.attach(other, tail)
        index.remove(chain.nodes[1])
        index.detach(other, tail)
    assert not index._roots
    chain.insert(1, [1, 2], None, "salt0")
    assert index.match([1, 2], "salt0").blocks == [1]


def windowed(window: int) -> tuple[PrefixIndex, list]:
    """Block size 2; a full group on blocks 0, 1, 2 … and a windowed one on 10, 11, 12 …, all of tokens 0 to 9."""
    index = PrefixIndex(2, (None, window))
    node, nodes = index.root(""), []
    for logical in range(5):
        node = index.insert(node, [2 * logical, 2 * logical + 1], [logical, 10 + logical])
        nodes.append(node)
    return index, nodes


def test_a_hit_needs_only_the_blocks_that_the_next_token_sees():
    index, nodes = windowed(4)
    for block in (10, 11):
        index.forget(block)
    assert index.match(list(range(10))).num_tokens(2) == 10
    assert index.first_needed(1, 10) == 3
    index.forget(13)
    assert index.match(list(range(10))).num_tokens(2) == 0, "position 10 sees back to 7, and before it 2 is gone too"
    again = index.insert(nodes[2], [6, 7], [99, 23])
    assert again is nodes[3] and again.blocks == [3, 23], "what a node lacks is filled in, what it has is kept"
    assert index.match(list(range(10))).num_tokens(2) == 10


def test_a_hit_ends_where_every_group_can_serve_it():
    index, _ = windowed(3)
    index.forget(14)
    assert index.match(list(range(10))).num_tokens(2) == 8
    assert index.match(list(range(10)), limit=7).num_tokens(2) == 7


def test_a_full_block_that_goes_takes_the_windowed_ones_with_it():
    index, _ = windowed(4)
    assert index.forget(4) == [14]
    assert index.forget(3) == [13]
    assert 13 not in index and index.match(list(range(10))).num_tokens(2) == 6


def test_a_model_of_windows_only_serves_a_tail_whose_beginning_is_gone():
    index = PrefixIndex(2, (4,))
    node = index.root("")
    for logical in range(5):
        node = index.insert(node, [2 * logical, 2 * logical + 1], [logical])
    for block in (0, 1, 2):
        assert index.forget(block) == []
    assert index.match(list(range(10))).num_tokens(2) == 10
    assert index.match(list(range(8))).num_tokens(2) == 0
    for block in (3, 4):
        index.forget(block)
    assert len(index) == 0 and not index._roots, "nodes that stand for nothing are dropped, the ones before them too"
