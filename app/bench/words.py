"""Text for loads: seeded sentences of short common words, most of which are one token in the usual vocabularies."""

from __future__ import annotations

from random import Random

_COMMON = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea kid body "
    "information back parent face others level office door health person art war history party result change morning "
    "reason research girl guy moment air teacher force education foot boy age policy music market sense nation plan "
    "college interest death course someone experience behind yellow green small large early young public low able "
    "human local sure whole free better true full special easy clear recent certain personal open red difficult long"
)
COMMON = _COMMON.split()
"""Short words that most vocabularies have as one token."""


def sentence_text(random: Random, num_words: int) -> str:
    """``num_words`` words, at least one, a full stop after every twelve or so."""
    words: list[str] = []
    for place in range(max(1, num_words)):
        words.append(random.choice(COMMON) + ("." if place % 13 == 12 else ""))
    return " ".join(words)
