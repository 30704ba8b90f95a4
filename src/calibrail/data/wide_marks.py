"""Are marks so wide that they touch a neighbour of the sentence that is meant?"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from calibrail.data.by_sentence import marked_letters, sentences_of
from calibrail.data.example import Example, GivenSentence
from calibrail.data.mark_look import WideMarks

#: Letters and digits of a neighbour that a mark reaches which is a little too wide.
MOST: Final = 5

#: Values of ``span_share`` that are tried, and which part of such sentences one must take back.
_SHARES: Final = (0.1, 0.2, 0.3)
_NEARLY_ALL: Final = 0.9


class WideMarkLook:
    """Counts sentences that are unsupported by the edge of a mark of their neighbour alone."""

    def __init__(self) -> None:
        self._touched, self._others = array("d"), array("d")

    def add(self, example: Example, labels: Sequence[int | None]) -> None:
        """Take an answer whose sentences have these labels."""
        if not example.spans:
            return
        for item, label in zip(sentences_of(example), labels, strict=True):
            if label != 1 or item.label is not None:
                continue
            marked, n = marked_letters(example, item.start, item.end)
            # Of signs alone: whatever is marked is all that it says.
            share = marked / n if n else 1.0
            (self._touched if _is_touched(example, item, marked) else self._others).append(share)

    def finish(self) -> WideMarks | None:
        """Return what was seen; None where no sentence is unsupported by marks."""
        n = len(self._touched)
        if not n and not self._others:
            return None

        def below(shares: Iterable[float], share: float) -> int:
            return sum(value < share for value in shares)

        share = next(
            (share for share in _SHARES if below(self._touched, share) >= _NEARLY_ALL * n),
            _SHARES[-1],
        )
        return WideMarks(
            n=n,
            of=n + len(self._others),
            letters=MOST,
            share=share,
            taken_back=below(self._touched, share),
            others=below(self._others, share),
        )


def _is_touched(example: Example, item: GivenSentence, marked: int) -> bool:
    """Say whether the marks on a sentence, few letters in all, lie in its neighbours for the most.

    A mark of as few letters within it is one that somebody meant: a year, a name.
    """
    if marked > MOST:
        return False
    for first, last in example.spans or ():
        if first < item.end and item.start < last:
            inside, _ = marked_letters(example, max(first, item.start), min(last, item.end))
            whole, _ = marked_letters(example, first, last)
            if inside and 2 * inside >= whole:
                return False
    return True
