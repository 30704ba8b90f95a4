"""What is the score of one answer by itself, whatever was scored before or is scored beside it?"""

from calibrail.data.example import Example
from calibrail.models.remote import RemoteModel
from calibrail.models.store import apart
from calibrail.scores.base import Score, Scores


def scored_alone(score: Score, example: Example) -> Scores:
    """Score one example as a process does that has scored nothing else.

    What models know of other examples is left as it is. A reply of an endpoint does not depend on
    what else is asked, so that none is asked for twice.

    Parameters
    ----------
    score : Score
        The detector; what it, or a model of its author's, keeps by itself is forgotten.
    example : Example
        The answer.
    """
    with apart():
        # A model's own store is empty here; that of a model of somebody else's need not be.
        for keeper in getattr(score, "models", (score,)):
            forget = getattr(keeper, "forget", None)
            if callable(forget) and not isinstance(keeper, RemoteModel):
                forget()
        return score.score([example])
