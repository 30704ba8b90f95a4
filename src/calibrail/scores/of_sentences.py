"""Which scores say something of a single sentence?

All but those with an attribute ``whole_answers``, which says why they do not; a score of another
package may have it, too.
"""

from collections.abc import Iterable

from calibrail.errors import InputError
from calibrail.scores.base import Score


def whole_answers(scores: Iterable[Score]) -> str | None:
    """Return why one of the scores is of whole answers only; None where none is."""
    for score in scores:
        if why := getattr(score, "whole_answers", None):
            return str(why)
    return None


def require_sentences(scores: Iterable[Score]) -> None:
    """Refuse scores that say nothing of a single sentence.

    Raises
    ------
    InputError
        If one does not; it says why.
    """
    for score in scores:
        if (why := whole_answers([score])) is not None:
            raise InputError(
                f"{score.name} says nothing of a single sentence: {why}; score whole answers "
                "(unit answer), or name another score"
            )
