"""What is the score of one answer by itself, whatever was scored before or is scored beside it?"""

from calibrail.data.example import Example
from calibrail.models.remote import RemoteModel
from calibrail.models.store import alone
from calibrail.scores.base import Demand, Score, Scores, prepare


def scored_alone(score: Score, example: Example) -> Scores:
    """Score one example so that the result depends on it alone, to the last digit.

    What models know of other examples is left as it is. What they are asked whatever the response
    is, they compute before the rest, so that all sentences of an answer share it. A reply of an
    endpoint does not depend on what else is asked, so that none is asked for twice.

    Parameters
    ----------
    score : Score
        The detector; what it, or a model of its author's, keeps by itself is forgotten.
    example : Example
        The answer.
    """
    background = background_of(score, example)
    # What is scored by its parts is scored by each of them alone, where that costs no more.
    by_parts = None if background is None else getattr(score, "score_parts", None)
    if callable(by_parts):
        found: Scores = by_parts(example)
        return found
    with alone():
        # A model's own store is empty here; that of a model of somebody else's need not be.
        for keeper in getattr(score, "models", (score,)):
            forget = getattr(keeper, "forget", None)
            if callable(forget) and not isinstance(keeper, RemoteModel):
                forget()
        prepare(background or ())
        return score.score([example])


def background_of(score: object, example: Example) -> tuple[Demand, ...] | None:
    """Return what a score asks its models of an example whatever its response is.

    None where that is not known: then all of it is computed again for each sentence of an answer
    that is scored alone.
    """
    if callable(own := getattr(score, "background", None)):
        found: tuple[Demand, ...] | None = own(example)
        return found
    # Where nothing is kept there is nothing to forget.
    keeps = getattr(score, "models", ()) or callable(getattr(score, "forget", None))
    return None if keeps else ()
