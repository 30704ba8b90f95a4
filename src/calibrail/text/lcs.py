"""How long is the longest common subsequence of two word sequences?"""

from collections.abc import Hashable, Sequence
from typing import Final

#: Most pairs of words that a score has compared: a fraction of a second. No algorithm is known that
#: is much faster on the worst input (Abboud, Backurs and Vassilevska Williams, 2015).
MOST_PAIRS: Final = 1_000_000_000


def lcs_length(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel (Hyyro, 2004): one integer operation a word of the longer sequence on an integer as
    wide as the shorter one, so 200 words against 20,000 take milliseconds.

    >>> lcs_length("the cat sat on the mat".split(), "the dog sat near the mat".split())
    4
    """
    short, long = (left, right) if len(left) <= len(right) else (right, left)
    places: dict[Hashable, int] = {}
    for index, item in enumerate(short):
        places[item] = places.get(item, 0) | (1 << index)
    mask = (1 << len(short)) - 1
    state = mask
    for item in long:
        if item in places:
            common = state & places[item]
            state = ((state + common) | (state - common)) & mask
    return len(short) - state.bit_count()
