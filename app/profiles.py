"""Sets of settings for a purpose. A profile's values stand between the config file and the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine.errors import ConfigError


@dataclass(frozen=True)
class Profile:
    """Settings for a purpose.

    Attributes:
        values: by the settings' names; everything else keeps its default.
        why: what the values buy and what they cost, for people.
    """

    values: dict[str, Any]
    why: str


PROFILES = {
    "long-context": Profile(
        {"max_num_seqs": 4, "max_num_batched_tokens": 1024, "block_size": 32},
        "Few chats, each of which may take most of the pool; larger steps read the weights less often while a long "
        "prompt is computed, and larger blocks halve the tables. Costs longer pauses of replies that stream beside "
        "a long prompt, and up to 31 unused slots a branch.",
    ),
    "many-chats": Profile(
        {"max_num_seqs": 128, "max_num_batched_tokens": 1024, "block_size": 16},
        "Up to 128 replies share every pass over the weights, with room in a step for the prompts of newcomers; small "
        "blocks share more of a common beginning. Costs speed of each single reply.",
    ),
    "low-memory": Profile(
        {"max_num_seqs": 4, "max_num_batched_tokens": 128, "kv_cache_memory": 256 << 20},
        "A KV pool of 256 MiB instead of up to 2 GiB, and small steps, whose activations need little. Costs reuse: "
        "older chats leave the cache sooner, and long prompts are computed in smaller pieces, somewhat slower.",
    ),
}
NAMES = tuple(PROFILES)


def profile_values(name: str | None) -> dict[str, Any]:
    """Settings of the profile ``name``; none for None.

    Raises:
        ConfigError: there is no such profile.
    """
    if name is None:
        return {}
    if name not in PROFILES:
        raise ConfigError(
            f"There is no profile {name!r:.80}; --profile (or PAGEDCHAT_PROFILE, or profile in the config file) takes "
            f"{', '.join(NAMES[:-1])} or {NAMES[-1]}."
        )
    return PROFILES[name].values
