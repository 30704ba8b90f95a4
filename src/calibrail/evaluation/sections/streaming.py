"""How much has been shown of an answer when it is stopped at its first sentence to be removed?"""

from typing import Any, Final

import numpy as np

from calibrail.conformal import exact_bound
from calibrail.conformal.mean_bound import mean_bound
from calibrail.conformal.pvalues import add_tolerance
from calibrail.evaluation.sample import TEST
from calibrail.evaluation.stats.arrays import Floats, Ints, Mask
from calibrail.evaluation.stats.measure import Measure, missing
from calibrail.evaluation.stats.rates import wilson
from calibrail.evaluation.stats.resampling import draws_for
from calibrail.evaluation.trimmed import Rows, Trimmed
from calibrail.scores.sentence_table import SentenceTable
from calibrail.settings.promise import Undefined

#: Numbers drawn at once.
_CHUNK: Final = 2_000_000
_METHOD: Final = "bootstrap, by answer"

#: Why a judge's sentences are not measured.
MORE_REQUESTS: Final = "more_requests"


def streaming(trimmed: Trimmed, confidence: float) -> dict[str, Any]:
    """Return what readers of a stream get: `stopped_streams` on the test part."""
    sample = trimmed.sample
    faithful = sample.labels == 0
    return stopped_streams(
        trimmed.sentences,
        trimmed.trimming.reached,
        hallucinated=trimmed.hallucinated,
        faithful=np.flatnonzero(sample.drawn(TEST, sample.labels) & faithful),
        confidence=confidence,
    )


def stops_of_worst(
    sentences: SentenceTable,
    key: str,
    thresholds: Floats,
    undefined: Undefined,
    tolerance: float,
) -> Mask:
    """Return which sentences are not shown where an answer's value is its highest sentence score.

    Parameters
    ----------
    sentences : SentenceTable
        The m sentences of n answers.
    key : str
        The score of sentences.
    thresholds : ndarray of float64, shape (n,)
        Those of answers: a sentence is not shown at ``score + tolerance >= threshold``.
    undefined : {"flag", "review", "pass"}
        Of answers without a score. Unless these pass, the sentences before the first one with a
        score wait for it: they are not shown where it reaches the threshold, or never comes.
    tolerance : float
        As the score's.

    Returns
    -------
    ndarray of bool, shape (m,)
        Whoever reads along has seen what stands before the first of them.
    """
    scores = sentences.columns[key]
    lost = np.isnan(scores)
    above = add_tolerance(scores, tolerance) >= np.repeat(thresholds, np.diff(sentences.first))
    reached = above & ~lost
    if undefined == "pass":
        return reached
    judged = _first(sentences, ~lost)
    withheld = np.append(reached, True)[judged] | (judged == sentences.first[1:])
    waits = np.arange(len(sentences)) < np.repeat(judged, np.diff(sentences.first))
    return np.asarray(reached | (waits & np.repeat(withheld, np.diff(sentences.first))))


def stopped_streams(
    sentences: SentenceTable,
    reached: Mask,
    *,
    hallucinated: Rows,
    faithful: Rows,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Return what is shown of answers that are stopped at the first sentence that is reached.

    A sentence is shown once it is over and was judged, so that the one at which an answer is
    stopped is not. Words are those of unsupported sentences.

    Parameters
    ----------
    sentences : SentenceTable
        The m sentences of n answers, with their labels.
    reached : ndarray of bool, shape (m,)
        Which of them reach the threshold.
    hallucinated, faithful : ndarray of int
        The answers of each class that count, independent of one another.
    confidence : float
        Level of every interval; those of hallucinated answers' shares are exact, that of ``cut`` is
        Wilson's, as the false alarms' is.
    seed : int
        Of the bootstrap, which draws answers.

    Returns
    -------
    dict
        ``stopped``: the shares of hallucinated answers that are stopped ``before``, ``at`` and
        ``after`` their first unsupported sentence, or ``never``; ``cut``: the share of faithful
        ones that are stopped; ``delay``: sentences from the first unsupported one to the stop, of
        answers stopped there or later, with ``counts`` (how many answers by delay);
        ``words_shown``: unsupported words that were shown, ``words``: those of the whole answer,
        both per hallucinated answer; ``share_shown``: the share of them, answer by answer.
    """
    stop = _first(sentences, reached)
    wrong = _first(sentences, sentences.labels == 1)
    never = stop == sentences.first[1:]
    n = len(hallucinated)

    def share(which: Mask) -> dict[str, Any]:
        return exact_bound(int(which[hallucinated].sum()), n, confidence).to_dict()

    caught = hallucinated[~never[hallucinated] & (stop >= wrong)[hallucinated]]
    delays = (stop - wrong)[caught]
    words = np.where(sentences.labels == 1, sentences.words, 0)
    shown = np.arange(len(sentences)) < np.repeat(stop, np.diff(sentences.first))
    total = _sums(sentences, words)[hallucinated]
    seen = _sums(sentences, np.where(shown, words, 0))[hallucinated]
    said = total > 0
    return {
        "stopped": {
            "before": share(stop < wrong),
            "at": share(~never & (stop == wrong)),
            "after": share(~never & (stop > wrong)),
            "never": share(never),
        },
        "cut": wilson(int((~never)[faithful].sum()), len(faithful), confidence).to_dict(),
        "delay": _mean(delays, confidence, seed).to_dict()
        | {"counts": {str(k): int((delays == k).sum()) for k in np.unique(delays).tolist()}},
        "words_shown": _mean(seen, confidence, seed).to_dict(),
        "words": _mean(total, confidence, seed).to_dict(),
        "share_shown": mean_bound(seen[said] / total[said], confidence).to_dict(),
    }


def _first(sentences: SentenceTable, which: Mask) -> Ints:
    """Return where the first of some sentences stands in each answer, its end where none does."""
    places = np.where(which, np.arange(len(sentences)), len(sentences))
    ends = sentences.first[1:]
    following = np.minimum.accumulate(np.append(places, len(sentences))[::-1])[::-1]
    return np.minimum(following[sentences.first[:-1]], ends)


def _sums(sentences: SentenceTable, numbers: Ints) -> Ints:
    before = np.concatenate(([0], np.cumsum(numbers, dtype=np.int64)))
    return np.asarray(before[sentences.first[1:]] - before[sentences.first[:-1]])


def _mean(values: Ints, confidence: float, seed: int) -> Measure:
    """Return a mean over answers with the interval of means over answers drawn again."""
    n = len(values)
    if n == 0:
        return missing(_METHOD, "no_such_answer", confidence)
    rng, tail = np.random.default_rng(seed), (1.0 - confidence) / 2.0
    draws, at_once = draws_for(n), max(1, _CHUNK // n)
    sizes = [min(at_once, draws - begun) for begun in range(0, draws, at_once)]
    means = np.concatenate([values[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])
    lower, upper = (float(end) for end in np.quantile(means, [tail, 1.0 - tail]))
    return Measure(float(values.mean()), lower, upper, _METHOD, confidence)
