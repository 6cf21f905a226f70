"""The prefix index: hits exact to the token, by comparing tokens."""

import random
import time

from pagedchat.engine.prefix_index import PrefixIndex


def test_a_match_is_exact_to_the_token_and_never_longer_than_the_limit():
    index = PrefixIndex(4)
    index.insert(0, [1, 2, 3, 4], None)
    index.insert(1, [5, 6, 7, 8], 0)
    index.insert(2, [9, 10], 1)
    found = index.match([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    assert (found.blocks, found.partial, found.partial_tokens) == ([0, 1], 2, 2)
    found = index.match([1, 2, 3, 4, 5, 6, 99])
    assert (found.blocks, found.partial, found.partial_tokens) == ([0], 1, 2)
    found = index.match([1, 2, 3, 4, 5, 6, 7, 8], limit=7)
    assert (found.blocks, found.partial, found.partial_tokens) == ([0], 1, 3)
    assert found.num_tokens(4) == 7


def test_equal_blocks_after_different_prefixes_are_never_confused():
    index = PrefixIndex(2)
    index.insert(0, [1, 1], None)
    index.insert(1, [7, 7], 0)
    assert index.match([2, 2, 7, 7]).num_tokens(2) == 0
    index.insert(2, [2, 2], None)
    assert index.match([2, 2, 7, 7]).blocks == [2]


def test_salts_do_not_see_each_other():
    index = PrefixIndex(2)
    index.insert(0, [1, 1], None, "alice")
    assert index.match([1, 1], "bob").blocks == []
    assert index.match([1, 1], "alice").blocks == [0]


def test_inserting_the_same_content_twice_names_the_first_block():
    index = PrefixIndex(2)
    assert index.insert(0, [1, 2], None) == 0
    assert index.insert(1, [1, 2], None) == 0
    assert 1 not in index
    assert index.insert(2, [1], None) == 0


def test_the_best_partial_match_is_found_among_many_siblings_like_an_exhaustive_search():
    rng = random.Random(11)
    for _ in range(200):
        index, children = PrefixIndex(6), {}
        for block in range(rng.randint(1, 30)):
            tokens = tuple(rng.randint(0, 2) for _ in range(rng.randint(1, 6)))
            if index.insert(block, tokens, None) == block:
                children[block] = tokens
        query = [rng.randint(0, 2) for _ in range(5)]
        best = max(sum(1 for _ in iter_common(tokens, query)) for tokens in children.values())
        assert index.match(query).partial_tokens == best


def iter_common(first, second):
    for one, other in zip(first, second, strict=False):
        if one != other:
            return
        yield one


def test_a_live_tail_is_found_as_it_is_at_the_moment_of_the_lookup():
    index, tail = PrefixIndex(4), [5]
    index.insert(0, [1, 2, 3, 4], None)
    index.set_live(9, 0, "", lambda: tail)
    assert index.match([1, 2, 3, 4, 5, 6]).num_tokens(4) == 5
    tail.append(6)
    found = index.match([1, 2, 3, 4, 5, 6])
    assert (found.partial, found.partial_tokens) == (9, 2)
    index.unset_live(9)
    assert index.match([1, 2, 3, 4, 5, 6]).num_tokens(4) == 4


def test_a_longer_entry_covers_part_filled_ones_that_it_begins_with():
    index = PrefixIndex(4)
    index.insert(0, [1], None)
    index.insert(1, [1, 2, 3], None)
    index.insert(2, [1, 9], None)
    index.insert(3, [1, 2, 3, 4], None)
    assert sorted(index.covered_by(3)) == [0, 1]


def test_lookup_among_many_chats_under_one_prompt_does_not_grow_with_their_number():
    rng, index = random.Random(3), PrefixIndex(16)
    index.insert(0, list(range(16)), None)
    for block in range(1, 5001):
        index.insert(block, [77, *(rng.randint(0, 50_000) for _ in range(15))], 0)
    query = [*range(16), 77, *(rng.randint(0, 50_000) for _ in range(15))]
    compared = CountingTuple.count_comparisons(index, query)
    assert compared < 64
    started = time.perf_counter()
    assert index.match(query).partial_tokens >= 1
    assert time.perf_counter() - started < 1


class CountingTuple(tuple):
    """A query key that counts how often it is compared."""

    compared = 0

    @classmethod
    def count_comparisons(cls, index, query):
        from bisect import bisect_left

        cls.compared = 0
        node = index._nodes[0]
        bisect_left(node.keys, cls(query[16:]))
        return cls.compared

    def __lt__(self, other):
        type(self).compared += 1
        return tuple.__lt__(self, other)

    def __gt__(self, other):
        type(self).compared += 1
        return tuple.__gt__(self, other)


def test_a_salt_that_holds_nothing_any_more_costs_nothing():
    index = PrefixIndex(2)
    for number in range(100):
        index.insert(1, [1, 2], None, f"salt{number}")
        index.set_live(2, None, f"other{number}", lambda: [3])
        index.remove(1)
        index.unset_live(2)
    assert not index._roots
    index.insert(1, [1, 2], None, "salt0")
    assert index.match([1, 2], "salt0").blocks == [1]
