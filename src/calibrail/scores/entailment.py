"""Entailment of sentences and claims, token-level detectors, and their evidence."""

from bisect import bisect, bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import ModelError
from calibrail.models.classifiers import EntailmentModel, Judgement, Reading, TokenClassifier
from calibrail.options.fields import one_of, share
from calibrail.scores import base
from calibrail.text.claims import Claim, claims, claims_version
from calibrail.text.sentences import Sentence, sentences, sentences_version
from calibrail.text.words import content_words, remembered

#: A probability from which on a verdict is spoken.
SPOKEN: Final = 0.5


def judged(
    pieces: Sequence[Sentence],
    table: Sequence[Sequence[Judgement]],
    contexts: Sequence[str] | None,
    threshold: float = SPOKEN,
) -> list[dict[str, base.JSON]]:
    """Return one item per piece: its verdict, and the chunk and place that speak for it.

    Parameters
    ----------
    pieces : sequence of Sentence
        Sentences or claims of the response, with their places there.
    table : sequence of sequences of Judgement
        Per piece the judgement given each chunk that holds anything, in order.
    contexts : sequence of str, or None
        The example's chunks; None where the premise was none of them.
    threshold : float
        Probability from which on a piece is supported, or contradicted.
    """
    items = []
    chunks = [] if contexts is None else filled_places(contexts)
    for piece, row in zip(pieces, table, strict=True):
        chosen = max(range(len(row)), key=lambda i: row[i].entailment)
        strength = row[chosen].entailment
        start, end = row[chosen].start, row[chosen].end
        verdict = "supported" if strength >= threshold else "unsupported"
        item: dict[str, base.JSON] = {**piece._asdict(), "support": strength}
        if row[chosen].contradiction is not None:
            opposed = max(range(len(row)), key=lambda i: row[i].contradiction or 0.0)
            against = item["contradiction"] = row[opposed].contradiction
            if strength < threshold <= (against or 0.0):
                verdict, chosen = "contradicted", opposed
                start, end = row[opposed].contradiction_start, row[opposed].contradiction_end
        item["verdict"] = verdict
        if contexts is not None:
            item |= quoted(piece.text, contexts, chunks[chosen], start, end)
        items.append(item)
    return items


def supported(pieces: Sequence[Sentence], support: Sequence[float]) -> dict[str, base.JSON]:
    """Return sentences of the response, each with a number that says how well it is supported."""
    pairs = zip(pieces, support, strict=True)
    items = [{**piece._asdict(), "support": number} for piece, number in pairs]
    return {"kind": "sentences", "items": items}


def whole_response(example: Example) -> Sentence:
    """Return the response as one piece."""
    return Sentence(example.response, 0, len(example.response))


def quoted(
    text: str, contexts: Sequence[str], chunk: int, start: int = 0, end: int | None = None
) -> dict[str, base.JSON]:
    """Return the chunk and the sentence in it that shares most words with ``text``.

    Only sentences that lie between start and end count, the window that the model read.
    """
    source = contexts[chunk]
    end = len(source) if end is None else end
    wanted = frozenset(word.text for word in content_words(text))
    # Ties go to the sentence that says less besides.
    parts = _parts(source)
    first = bisect(parts, start, key=itemgetter(1))
    inside = parts[first : bisect_left(parts, end, key=itemgetter(0))]
    best = max(inside, key=lambda part: (len(part[2] & wanted), -len(part[2])), default=None)
    # Without a word in common no sentence stands out: then it is all that the model read.
    if best is not None and best[2] & wanted:
        start, end = best[0], best[1]
    return {"chunk": chunk, "chunk_start": start, "chunk_end": end, "quote": source[start:end]}


def nearest(text: str, contexts: Sequence[str]) -> dict[str, base.JSON]:
    """Return the sentence of all chunks that shares most words with ``text``, and its place."""
    wanted = frozenset(word.text for word in content_words(text))

    def shared(chunk: int) -> int:
        return max((len(part[2] & wanted) for part in _parts(contexts[chunk])), default=0)

    return quoted(text, contexts, max(filled_places(contexts), key=shared))


def filled_places(contexts: Sequence[str]) -> list[int]:
    """Return the positions of the chunks that hold anything."""
    return [index for index, chunk in enumerate(contexts) if chunk.strip()]


@remembered(64)
def _parts(source: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """Return place and content words of every sentence; a chunk is asked about piece by piece."""
    return tuple(
        (part.start, part.end, frozenset(word.text for word in content_words(part.text)))
        for part in sentences(source)
    )


#: The model of the "Semantic Illusion" paper.
NLI_MODEL = "facebook/bart-large-mnli"

Pair = tuple[str, str]


class Entailing(base.LocalScore):
    """Base of the scores that ask an entailment model.

    Parameters
    ----------
    model : str
        Hub name or folder of the model.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    window : int, str or None
        Most tokens of a premise a pass; None for what the model reads. "500 words" and "400 tokens"
        are those of whole sentences, read without overlap.
    backend, device
        See ``LocalScore``.
    """

    model: str = NLI_MODEL
    revision: str | None = None
    dtype: str = "float32"
    window: int | str | None = None

    explains = True
    uses = ("nli",)
    of_response = True
    versions = (("sentences", sentences_version),)

    def __post_init__(self) -> None:
        self.nli = self.opened(EntailmentModel)


class Nli(Entailing):
    """1 - P(entailment of the whole response, given all chunks as one premise). In [0, 1]."""

    name = "nli"

    def inputs(self, example: Example) -> list[Pair]:
        """Return the one pair."""
        return [(base.joined(example), example.response)]

    def value(self, example: Example) -> base.Valued | str:
        """Return one minus the probability."""
        (judgement,) = self.nli.judge(self.inputs(example))
        (item,) = judged([whole_response(example)], [[judgement]], None)
        # The premise joins the chunks: the one that shares most words with the response is shown.
        item |= nearest(example.response, example.contexts)
        return 1.0 - judgement.entailment, {"kind": "sentences", "items": [item]}


class Sec(Entailing):
    """Semantic Entailment Calibration: 1 - min over sentences of max over chunks of P(entailment).

    Sinha, "The Semantic Illusion" (arXiv 2512.15068), equation 3. In [0, 1]; higher means more
    likely hallucinated: the least supported sentence decides.
    """

    name = "sec"
    splitter = staticmethod(sentences)

    def inputs(self, example: Example) -> list[Pair]:
        """Return every chunk with every sentence."""
        return sentence_grid(example.contexts, example)

    def value(self, example: Example) -> base.Valued | str:
        """Return one minus the support of the least supported sentence."""
        if not (pieces := sentences(example.response)):
            return base.NO_SENTENCE
        table = rows(self.nli.judge(self.inputs(example)), len(pieces))
        items = judged(pieces, table, example.contexts)
        return 1.0 - float(best_support(table).min()), {"kind": "sentences", "items": items}


class SelfCheck(Entailing):
    """SelfCheckGPT with entailment: mean over sentences and samples of P(contradiction).

    Each sample of the model's own answers is a premise (Manakul et al., EMNLP 2023; here the
    probability among all three classes). In [0, 1].
    """

    name = "selfcheck"
    splitter = staticmethod(sentences)
    requires = ("response", "samples")

    def inputs(self, example: Example) -> list[Pair]:
        """Return every sample with every sentence."""
        return sentence_grid(example.samples, example)

    def value(self, example: Example) -> base.Valued | str:
        """Return the mean contradiction."""
        if not (pieces := sentences(example.response)):
            return base.NO_SENTENCE
        table = rows(self.nli.judge(self.inputs(example)), len(pieces))
        against = np.array([[opposition(cell, self.nli.model) for cell in row] for row in table])
        means, counts = against.mean(axis=1).tolist(), (against >= 0.5).sum(axis=1).tolist()
        items = [
            {**piece._asdict(), "contradiction": mean, "contradicted_by": count}
            for piece, mean, count in zip(pieces, means, counts, strict=True)
        ]
        return float(against.mean()), {"kind": "samples", "items": items}


class Claims(Entailing):
    """1 - share of the response's claims that some chunk entails. In [0, 1].

    Source: "Retrieval is not grounding". A statement that the sources do not hold the answer is no
    claim that they could support; a response that claims nothing is undefined, not grounded.

    Parameters
    ----------
    threshold : float
        A claim is entailed from this probability on; in (0, 1).
    model, revision, dtype, window
        See ``Entailing``.
    """

    threshold: float = SPOKEN

    name = "claims"
    splitter = staticmethod(claims)
    versions = (("claims", claims_version),)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.threshold = share(self.threshold, "threshold")

    def inputs(self, example: Example) -> list[Pair]:
        """Return every chunk with every claim."""
        claimed = _claimed(example)
        stated = [f"{claim.lead} {claim.text}" if claim.lead else claim.text for claim in claimed]
        return grid(example.contexts, stated)

    def value(self, example: Example) -> base.Valued | str:
        """Return one minus the share of claims entailed."""
        if not (claimed := _claimed(example)):
            return "the response makes no claim"
        pairs = self.inputs(example)
        # A count jumps where rounding carries a claim over the threshold.
        self.nli.settle(
            pair
            for pair, judgement in zip(pairs, self.nli.judge(pairs), strict=True)
            if abs(judgement.entailment - self.threshold) <= self.tolerance
        )
        table = rows(self.nli.judge(pairs), len(claimed))
        share = float(np.mean(best_support(table) >= self.threshold))
        pieces = [Sentence(claim.text, claim.start, claim.end) for claim in claimed]
        items = judged(pieces, table, example.contexts, self.threshold)
        return 1.0 - share, {"kind": "claims", "items": items}


def grid(premises: Sequence[str], hypotheses: Sequence[str]) -> list[Pair]:
    """Return every premise that holds anything with every hypothesis, hypothesis by hypothesis."""
    return [(premise, hypothesis) for hypothesis in hypotheses for premise in base.filled(premises)]


def sentence_grid(premises: Sequence[str], example: Example) -> list[Pair]:
    """Return every premise that holds anything with every sentence of the response."""
    return grid(premises, [part.text for part in sentences(example.response)])


def rows(judgements: Sequence[Judgement], n: int) -> list[Sequence[Judgement]]:
    """Return the judgements of ``grid`` by hypothesis, n of them."""
    width = len(judgements) // n
    return [judgements[i : i + width] for i in range(0, len(judgements), width)]


def best_support(table: Sequence[Sequence[Judgement]]) -> NDArray[np.float64]:
    """Return each row's highest probability of entailment, shape (n,)."""
    return np.array([max(cell.entailment for cell in row) for row in table])


def opposition(judgement: Judgement, model: str) -> float:
    """Return the probability of a contradiction, from a model that knows one."""
    if judgement.contradiction is None:
        raise ModelError.on("model_tells_no_contradiction", model=model)
    return judgement.contradiction


def _claimed(example: Example) -> list[Claim]:
    return [claim for claim in claims(example.response) if not claim.abstains]


Aggregate = Literal["max", "mean"]

#: LettuceDetect's base model (Kovács and Recski, arXiv 2502.17125).
TOKEN_MODEL = "KRLabsOrg/lettucedect-base-modernbert-en-v1"


class TokenScore(base.LocalScore):
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
        one_of(self.aggregate, Aggregate, "aggregate")
        self.classifier = self.opened(TokenClassifier, label=self.label)

    def lacks(self, example: Example) -> str | None:
        """Return why an example has no value; what stands before a sentence is read, too."""
        if len(_answer(example)) > base.MOST_READ:
            return base.TOO_LONG_TO_READ
        return super().lacks(example)

    def inputs(self, example: Example) -> list[Reading]:
        """Return the answer, up to the end of a sentence, with its question and contexts."""
        chunks = base.filled(example.contexts)
        return [self.classifier.reading(example.question, chunks, _answer(example))]

    def value(self, example: Example) -> base.Valued | str:
        """Return the highest probability of a token, or their mean."""
        (found,) = self.classifier.probabilities(self.inputs(example))
        tokens = _written(_answer(example), zip(*found, strict=True), len(example.before or ""))
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


def _stretches(response: str, tokens: Sequence[_Token]) -> list[dict[str, base.JSON]]:
    """Return the runs of tokens that are more likely hallucinated than not, each as one item."""
    items: list[dict[str, base.JSON]] = []
    for is_marked, run in groupby(tokens, key=lambda token: token.hallucinated >= SPOKEN):
        if is_marked:
            part = list(run)
            start, end = part[0].start, part[-1].end
            highest = max(token.hallucinated for token in part)
            place = {"text": response[start:end], "start": start, "end": end}
            items.append({**place, "verdict": "unsupported", "probability": highest})
    return items
