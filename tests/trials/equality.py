"""Cold against warm: a generated conversation says the same with prefixes cached as without, and what is found in the
cache is exactly what can be: min(n, prompt - 1) tokens, where n is the longest prefix that was ever computed.

A trial is one tree of branches: questions under shared system prompts, further turns, the same question again, edits in
the middle, prompts that are a prefix of others, other tenants, and some of these at once.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from trials.models import TrialModel
from trials.serving import Asked, check_at_rest, check_same, common_prefix, odd_length, random_ids, serve

BLOCK_SIZES = (1, 8, 16, 32)
LONGEST = 200
ROUNDS = 7


def trial(draw: random.Random, model: TrialModel) -> Counter[str]:
    """One conversation. Raises AssertionError where warm and cold differ or a hit count is wrong."""
    notes: Counter[str] = Counter()
    block_size = draw.choice(BLOCK_SIZES)
    chunk = draw.choice((8, 16, 33, 512))
    settings = {"block_size": block_size, "num_blocks": 8000 // block_size + 64, "max_num_seqs": 8}
    warm = model.engine(**settings, max_num_batched_tokens=chunk)
    tree = Tree(draw, block_size)
    for number in range(ROUNDS):
        together = draw.choice((1, 1, 1, 2, 3))
        asked = [tree.ask(f"{number}.{place}", model) for place in range(together)]
        serve(warm, asked)
        for one in asked:
            check_hits(one, tree, [other for other in asked if other is not one])
            notes["cached tokens"] += one.metrics.cached_tokens
        replies = [Asked(one.name, one.prompt, one.params) for one in asked]
        cold = model.engine(**settings, enable_prefix_caching=False)
        for one, expected in zip(asked, replies, strict=True):
            serve(cold, [expected])
            assert expected.metrics.cached_tokens == 0
            check_same(model, one, expected, notes)
        tree.add(asked)
        notes["requests"] += together
    check_at_rest(warm)
    return notes


class Tree:
    """What has been asked and answered, by salt, and what may be asked next."""

    def __init__(self, draw: random.Random, block_size: int) -> None:
        self.draw = draw
        self.block_size = block_size
        self.systems = [random_ids(draw, odd_length(draw, block_size, 70)) for _ in range(2)]
        self.turns: list[Asked] = []
        self.computed: dict[str, list[list[int]]] = defaultdict(list)

    def add(self, asked: list[Asked]) -> None:
        """Note answered requests."""
        self.turns += asked
        for one in asked:
            self.computed[one.salt] += one.computed

    def ask(self, name: str, model: TrialModel) -> Asked:
        """The next request."""
        draw = self.draw
        kinds = (self._new_chat, self._next_turn, self._next_turn, self._again, self._edit, self._prefix)
        prompt, salt = draw.choice(kinds if self.turns else kinds[:1])()
        params = model.params(draw, draw.randrange(1, 9))
        return Asked(name, prompt[:LONGEST], params, salt if draw.random() < 0.9 else "other tenant")

    def _message(self) -> list[int]:
        return random_ids(self.draw, odd_length(self.draw, self.block_size, 40))

    def _new_chat(self) -> tuple[list[int], str]:
        return [*self.draw.choice(self.systems), *self._message()], ""

    def _next_turn(self) -> tuple[list[int], str]:
        turn = self.draw.choice(self.turns)
        return [*turn.prompt, *self.draw.choice(turn.samples).ids, *self._message()], turn.salt

    def _again(self) -> tuple[list[int], str]:
        turn = self.draw.choice(self.turns)
        return list(turn.prompt), turn.salt

    def _edit(self) -> tuple[list[int], str]:
        turn = self.draw.choice(self.turns)
        kept = turn.prompt[: self.draw.randrange(len(turn.prompt) + 1)]
        return [*kept, *self._message()], turn.salt

    def _prefix(self) -> tuple[list[int], str]:
        turn = self.draw.choice(self.turns)
        whole = [*turn.prompt, *self.draw.choice(turn.samples).ids]
        return whole[: self.draw.randrange(1, len(whole) + 1)], turn.salt


def check_hits(one: Asked, tree: Tree, beside: list[Asked]) -> None:
    """Exactly min(n, prompt - 1) cached tokens; those served at the same time may add to n."""
    most = len(one.prompt) - 1
    known = max((common_prefix(one.prompt, ids) for ids in tree.computed[one.salt]), default=0)
    others = [ids for other in beside if other.salt == one.salt for ids in other.computed]
    reachable = max([known, *(common_prefix(one.prompt, ids) for ids in others)])
    cached = one.metrics.cached_tokens
    assert min(known, most) <= cached <= min(reachable, most), (
        f"{one.name}: {cached} of {len(one.prompt)} tokens cached, but {known} were known and {reachable} at most"
    )
    assert cached + one.metrics.computed_tokens == len(one.prompt)
