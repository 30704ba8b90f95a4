"""Does the context entail the answer, as a model of natural language inference sees it?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import ModelError
from calibrail.models.nli import Judgement, load_nli
from calibrail.scores.base import JSON, NO_SENTENCE, Valued
from calibrail.scores.detector import ModelScore
from calibrail.scores.evidence import judged, nearest
from calibrail.scores.neural import filled
from calibrail.text.sentences import Sentence, sentences, sentences_version

#: The model of the "Semantic Illusion" paper.
NLI_MODEL = "facebook/bart-large-mnli"

Pair = tuple[str, str]


class Entailing(ModelScore):
    """Base of the scores that ask an entailment model.

    Parameters
    ----------
    model : str
        Hub name or folder of the model.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int or None
        Most tokens of a premise a pass; None for what the model reads.
    """

    model: str = NLI_MODEL
    revision: str | None = None
    dtype: str = "float32"
    window: int | None = None

    explains = True

    def __post_init__(self) -> None:
        self.nli = load_nli(self.model, self.revision, self.dtype, self.window)

    @property
    def models(self) -> tuple[Any, ...]:
        """The entailment model."""
        return (self.nli,)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the model's fingerprint and the version of the sentence splitting."""
        return {**super().fingerprint(), "sentences": sentences_version()}


class Nli(Entailing):
    """1 - P(entailment of the whole response, given all chunks as one premise). In [0, 1]."""

    name = "nli"

    def inputs(self, example: Example) -> list[Pair]:
        """Return the one pair."""
        return [("\n".join(filled(example.contexts)), example.response)]

    def value(self, example: Example) -> Valued | str:
        """Return one minus the probability."""
        (judgement,) = self.nli.judge(self.inputs(example))
        whole = Sentence(example.response, 0, len(example.response))
        (item,) = judged([whole], [[judgement]], None)
        # The premise joins the chunks: the one that shares most words with the response is shown.
        item |= nearest(example.response, example.contexts)
        return 1.0 - judgement.entailment, {"kind": "sentences", "items": [item]}


class Sec(Entailing):
    """Semantic Entailment Calibration: 1 - min over sentences of max over chunks of P(entailment).

    Sinha, "The Semantic Illusion" (arXiv 2512.15068), equation 3. In [0, 1]; higher means more
    likely hallucinated: the least supported sentence decides.
    """

    name = "sec"

    def inputs(self, example: Example) -> list[Pair]:
        """Return every chunk with every sentence."""
        return sentence_grid(filled(example.contexts), example)

    def value(self, example: Example) -> Valued | str:
        """Return one minus the support of the least supported sentence."""
        pieces = sentences(example.response)
        if not pieces:
            return NO_SENTENCE
        table = rows(self.nli.judge(self.inputs(example)), len(pieces))
        items = judged(pieces, table, example.contexts)
        return 1.0 - float(best_support(table).min()), {"kind": "sentences", "items": items}


class SelfCheck(Entailing):
    """SelfCheckGPT with entailment: mean over sentences and samples of P(contradiction).

    Each sample of the model's own answers is a premise (Manakul et al., EMNLP 2023; here the
    probability among all three classes). In [0, 1].
    """

    name = "selfcheck"
    requires = ("response", "samples")

    def inputs(self, example: Example) -> list[Pair]:
        """Return every sample with every sentence."""
        return sentence_grid(filled(example.samples), example)

    def value(self, example: Example) -> Valued | str:
        """Return the mean contradiction."""
        pieces = sentences(example.response)
        if not pieces:
            return NO_SENTENCE
        table = rows(self.nli.judge(self.inputs(example)), len(pieces))
        against = np.array([[opposition(cell, self.nli.model) for cell in row] for row in table])
        items = [
            {
                **piece._asdict(),
                "contradiction": float(mean),
                "contradicted_by": int(np.count_nonzero(row >= 0.5)),
            }
            for piece, mean, row in zip(pieces, against.mean(axis=1), against, strict=True)
        ]
        return float(against.mean()), {"kind": "samples", "items": items}


def grid(premises: Sequence[str], hypotheses: Sequence[str]) -> list[Pair]:
    """Return every premise with every hypothesis, hypothesis by hypothesis."""
    return [(premise, hypothesis) for hypothesis in hypotheses for premise in premises]


def sentence_grid(premises: Sequence[str], example: Example) -> list[Pair]:
    """Return every premise with every sentence of the response."""
    return grid(premises, [part.text for part in sentences(example.response)])


def rows(judgements: Sequence[Judgement], n: int) -> list[list[Judgement]]:
    """Return the judgements of ``grid`` by hypothesis, n of them."""
    width = len(judgements) // n if n else 0
    return [list(judgements[i * width : (i + 1) * width]) for i in range(n)]


def best_support(table: Sequence[Sequence[Judgement]]) -> NDArray[np.float64]:
    """Return each row's highest probability of entailment, shape (n,)."""
    return np.array([max(cell.entailment for cell in row) for row in table])


def opposition(judgement: Judgement, model: str) -> float:
    """Return the probability of a contradiction, from a model that knows one."""
    if judgement.contradiction is None:
        raise ModelError(
            f"{model} tells entailed from not entailed only; a score of contradictions needs a "
            "model with three classes, such as facebook/bart-large-mnli"
        )
    return judgement.contradiction
