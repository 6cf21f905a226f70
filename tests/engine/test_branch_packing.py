"""Where several branches lie is told at once, in few bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pagedchat.engine.branch_packing import num_alike, pack_lists, unpack_lists
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.sampling_params import SamplingParams
from support.chat_room import play
from support.chat_templates import CHATML
from support.loop_client import scripted_loop_client

lists = st.lists(st.lists(st.integers(0, 2), max_size=9), max_size=7)


@given(lists)
def test_packed_lists_come_back_as_they_were(found: list[list[int]]) -> None:
    packed = pack_lists(found)
    assert unpack_lists(packed) == found
    assert all(same + len(rest) == len(one) for (same, rest), one in zip(packed, found, strict=True))


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_lists_are_alike_up_to_the_first_item_that_differs(one: list[int], other: list[int]) -> None:
    count = num_alike(one, other)
    assert one[:count] == other[:count]
    assert count in (len(one), len(other)) or one[count] != other[count]


def test_several_branches_say_what_each_says_alone() -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML)
        start = list(range(5, 25))
        branches = [[*start, 7, 8, 9], [*start, 7, 8, 9, 10, 11], [*start, 30], [40, 41, 42, 43, 44], []]
        for number, ids in enumerate(branches[:3]):
            request = GenerateRequest(SamplingParams(temperature=0, max_tokens=1), str(number), prompt_token_ids=ids)
            assert [one async for one in client.generate(request)]
        alone = [await client.branch(ids) for ids in branches]
        assert await client.branches(branches) == alone
        held = [[row["block"] for row in rows if row["block"] is not None] for rows in alone]
        assert held[0][:5] == held[1][:5] == held[2][:5] and len(held[0]) == 6 and not held[3]

    play(story())
