"""Token-level detectors."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.models.batching import shared
from calibrail.models.token_classifier import Reading, TokenClassifier, reading
from calibrail.scores.base import JSON, MOST_READ, TOO_LONG_TO_READ, Valued
from calibrail.scores.detector import LocalScore, filled, one_of
from calibrail.scores.entailment import SPOKEN

Aggregate = Literal["max", "mean"]

#: LettuceDetect's base model (Kovács and Recski, arXiv 2502.17125).
TOKEN_MODEL = "KRLabsOrg/lettucedect-base-modernbert-en-v1"


class TokenScore(LocalScore):
    """P(hallucinated) of the answer's tokens, as a classifier of the LettuceDetect kind sees them.

    The model reads contexts and question first, then the answer (Kovács and Recski, arXiv
    2502.17125). Of a sentence it reads the answer up to its end, and the sentence's tokens count.
    In [0, 1]; higher means more likely hallucinated. Evidence: the stretches of tokens from 0.5 on.

    Parameters
    ----------
    model : str
        Hub name or folder of a token classifier.
    revision : str or None
        Revision of a hub model.
    label : str or None
        The output that means a hallucinated token; None where the outputs' names tell.
    aggregate : {"max", "mean"}
        Which of its tokens' probabilities is an answer's: the highest, or their mean.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int or None
        Most tokens of the contexts a pass; None for what the model reads.
    backend, device
        See ``LocalScore``.
    """

    model: str = TOKEN_MODEL
    revision: str | None = None
    label: str | None = None
    aggregate: Aggregate = "max"
    dtype: str = "float32"
    window: int | None = None

    name = "tokens"
    explains = True
    uses = ("classifier",)
    reads_all = of_response = True

    def __post_init__(self) -> None:
        one_of(self.aggregate, "aggregate", get_args(Aggregate))
        self.classifier = shared(
            TokenClassifier,
            self.model,
            self.revision,
            self.dtype,
            self.window,
            label=self.label,
            **self.computed,
        )

    def lacks(self, example: Example) -> str | None:
        """Return why an example has no value; what stands before a sentence is read, too."""
        if len(_answer(example)) > MOST_READ:
            return TOO_LONG_TO_READ
        return super().lacks(example)

    def inputs(self, example: Example) -> list[Reading]:
        """Return the answer, up to the end of a sentence, with its question and contexts."""
        return [reading(example.question, filled(example.contexts), _answer(example))]

    def value(self, example: Example) -> Valued | str:
        """Return the highest probability of a token, or their mean."""
        (found,) = self.classifier.probabilities(self.inputs(example))
        start = len(example.before or "")
        tokens = _written(_answer(example), zip(*found, strict=True), start)
        if not tokens:
            return "the model reads no token of the response"
        values = [token.hallucinated for token in tokens]
        items = _stretches(example.response, tokens)
        value = max(values) if self.aggregate == "max" else float(np.mean(values))
        return value, {"kind": "spans", "items": items}


class _Token(NamedTuple):
    """A token of a sentence or an answer, by its characters there."""

    start: int
    end: int
    hallucinated: float


def _answer(example: Example) -> str:
    """Return an answer, or as much of it as is known at the end of a sentence."""
    return (example.before or "") + example.response


def _written(
    answer: str, tokens: Iterable[tuple[tuple[int, int], float]], start: int
) -> list[_Token]:
    """Return the tokens that hold a character from ``start`` on which is no white space."""
    found = []
    for (first, last), hallucinated in tokens:
        text = answer[max(first, start) : last]
        place = max(first, start) - start + len(text) - len(text.lstrip())
        if text.strip():
            found.append(_Token(place, place + len(text.strip()), hallucinated))
    return found


def _stretches(response: str, tokens: Sequence[_Token]) -> list[dict[str, JSON]]:
    """Return the runs of tokens that are more likely hallucinated than not, each as one item."""
    items: list[dict[str, JSON]] = []
    for is_marked, run in groupby(tokens, key=lambda token: token.hallucinated >= SPOKEN):
        if is_marked:
            part = list(run)
            start, end = part[0].start, part[-1].end
            highest = max(token.hallucinated for token in part)
            place = {"text": response[start:end], "start": start, "end": end}
            items.append({**place, "verdict": "unsupported", "probability": highest})
    return items
