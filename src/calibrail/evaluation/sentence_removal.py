"""Effect of removing unsupported sentences, whole and while an answer is streamed.

Precision, recall and F1 by characters, over all answers together, as corpora of marked spans are
evaluated (Niu et al., RAGTruth, 2024). White space is counted nowhere: whether a mark takes in the
space behind its last word says nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

from calibrail.conformal import Calibration, exact_bound
from calibrail.conformal.bounds import mean_bound
from calibrail.conformal.threshold import add_tolerance
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import InputError
from calibrail.evaluation.measures import BaselineResult, RemovalOutcome, Rows
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.stats import intervals
from calibrail.evaluation.stats.intervals import Ints, Mask, Measure
from calibrail.options.guarantee import Undefined
from calibrail.scores.table import UNMARKED, SentenceTable, Trimming
from calibrail.text.structure import dangling, split_blocks

#: The share kept that every report is about.
HALF: Final = 0.5
#: The share that it is about, too, where none was asked.
_USUAL: Final = 0.7


def needed_auroc(unsupported: Ints, alpha: float, min_kept: float | None) -> dict[str, Any] | None:
    """Return the AUROC by sentence from which a share of what is supported is kept.

    Of scores that are normal with equal variances and independent of each other. Supported
    sentences have mean 0, unsupported ones d, so the AUROC is Phi(d / sqrt 2). With F the
    probability that an unsupported sentence lies below the threshold, all u of an answer are
    removed with probability (1 - F)^u; that the mean of these is 1 - alpha gives F, and the share
    of supported sentences below the threshold is Phi(d + Phi^-1(F)).

    Parameters
    ----------
    unsupported : ndarray of int
        How many unsupported sentences each of some hallucinated answers holds, at least one.
    alpha : float
        The share of answers that may keep one.
    min_kept : float or None
        The share of supported sentences that has to be kept, beside one half.

    Returns
    -------
    dict or None
        ``unsupported`` (mean per answer), and ``rows`` of ``kept`` and ``auroc``; None without
        answers.

    Examples
    --------
    >>> found = needed_auroc(np.repeat([1, 2, 3], [243, 27, 1]), 0.1, 0.9)
    >>> [(row["kept"], round(row["auroc"], 3)) for row in found["rows"]]
    [(0.5, 0.827), (0.9, 0.968)]
    """
    if not len(unsupported):
        return None
    numbers, counts = np.unique(unsupported, return_counts=True)
    from scipy.optimize import brentq  # takes long to import

    below = float(brentq(lambda f: counts @ (1.0 - f) ** numbers / counts.sum() - 1 + alpha, 0, 1))
    root = np.sqrt(2.0)
    shares: Sequence[float] = sorted({HALF, _USUAL if min_kept is None else min_kept} - {0.0, 1.0})
    return {
        "unsupported": float(np.mean(unsupported)),
        "rows": [
            # Guessing keeps as much as lies below.
            {"kept": share, "auroc": max(0.5, float(ndtr((ndtri(share) - ndtri(below)) / root)))}
            for share in shares
        ],
    }


#: Answers (groups) with something marked, or removed, below which there is no interval. Simulated
#: ones, stated to hold the truth in 0.95 of all cases, do in 0.92 with 15 of them, 0.95 with 40.
FEWEST: Final = 20

_METHOD: Final = "bootstrap-groups, characters"
# Columns of what is summed up by answer; the first is both.
_REMOVED: Final = 1
_MARKED: Final = 2
#: Why a share without an interval has none, by why it would have no value.
_FEW: Final = {"nothing_removed": "few_answers_removed", "nothing_marked": "few_answers_marked"}


def find_spans(
    first: Ints,
    chars: Ints,
    marked: Ints,
    outside: Ints,
    removed: Mask,
    groups: Ints | None = None,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Return precision, recall and F1 of removing some of the sentences of n answers.

    Parameters
    ----------
    first : ndarray of int64, shape (n + 1,)
        Where each answer's sentences begin among all m.
    chars, marked : ndarray of int64, shape (m,)
        Characters of each sentence, and those of them that are marked as unsupported; without
        white space.
    outside : ndarray of int64, shape (n,)
        Marked characters of each answer that are in no sentence: nothing removes them, so that
        they count against recall.
    removed : ndarray of bool, shape (m,)
        Sentences that are removed.
    groups : ndarray of int64, shape (n,), optional
        What answers share; negative for one that stands alone. Whole groups are drawn again.
    confidence : float
        Level of the two-sided intervals.
    draws, seed : int
        Bootstrap draws, fewer for very many answers; the same seed gives the same intervals.

    Returns
    -------
    dict
        ``precision`` (of the characters removed, the share that is marked), ``recall`` (of those
        marked, the share that is removed) and ``f1``, each as a `Measure`, without an estimate
        where nothing is removed or marked; ``characters``: how many are ``removed``, ``marked``
        and ``both``; ``answers``: in how many something is ``marked``, and ``removed``.

    Examples
    --------
    >>> first, chars = np.array([0, 2, 3]), np.array([10, 30, 20])
    >>> marked, outside = np.array([0, 15, 0]), np.array([0, 5])
    >>> found = find_spans(first, chars, marked, outside, np.array([False, True, False]))
    >>> [found[name]["estimate"] for name in ("precision", "recall", "f1")]
    [0.5, 0.75, 0.6]
    """
    by_answer = np.column_stack(
        [_sums(part, first) for part in (marked * removed, chars * removed, marked)]
    )
    by_answer[:, _MARKED] += outside
    shared = intervals.with_singletons(groups, len(by_answer))
    touched = by_answer > 0
    _, member = np.unique(shared, return_inverse=True)
    by_group = np.zeros((int(member.max(initial=-1)) + 1, 3), dtype=np.int64)
    np.add.at(by_group, member, by_answer)
    # By what they hold: the order of the answers makes no difference.
    by_group = by_group[np.lexsort(by_group.T)]
    # All in one stratum: how many answers hold a mark is chance, too, and moves precision.
    counts = intervals.bootstrap_counts(
        np.arange(len(by_group)),
        np.zeros(len(by_group), dtype=np.int8),
        draws=intervals.draws_for(len(by_answer), draws),
        seed=seed,
    )
    drawn = np.concatenate([part @ by_group for part in counts]) if len(by_group) else by_group
    total = by_answer.sum(axis=0)

    def measure(weights: tuple[int, int, int], reason: str, rows: Mask) -> Measure:
        """Return the share of characters that are both, of a mean of removed and marked ones."""
        # F1 is 2 both / (removed + marked), so that each is a part of a weighted whole.
        times, whole = weights[0], np.array([0, *weights[1:]])
        if not (total @ whole and rows.any()):
            return intervals.missing(_METHOD, reason, confidence)
        estimate = float(times * total[0] / (total @ whole))
        if len(np.unique(shared[rows])) < FEWEST:
            return Measure(estimate, None, None, _METHOD, confidence, f"{_FEW[reason]}:{FEWEST}")
        wholes = drawn @ whole
        ratios = times * drawn[wholes > 0, 0] / wholes[wholes > 0]
        tail = (1.0 - confidence) / 2.0
        lower, upper = (float(end) for end in np.quantile(ratios, [tail, 1.0 - tail]))
        return Measure(estimate, min(lower, estimate), max(upper, estimate), _METHOD, confidence)

    measures = {
        "precision": measure((1, 1, 0), "nothing_removed", touched[:, _REMOVED]),
        "recall": measure((1, 0, 1), "nothing_marked", touched[:, _MARKED]),
        "f1": measure((2, 1, 1), "nothing_marked", touched[:, _MARKED]),
    }
    return {
        **{name: found.to_dict() for name, found in measures.items()},
        "characters": dict(zip(("both", "removed", "marked"), total.tolist(), strict=True)),
        "answers": {
            "n": len(by_answer),
            "removed": int(touched[:, _REMOVED].sum()),
            "marked": int(touched[:, _MARKED].sum()),
        },
    }


def _sums(values: Ints, first: Ints) -> Ints:
    """Return the sum of each answer's sentences, 0 for an answer without any."""
    ends: Ints = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[first]
    return np.diff(ends)


#: The baseline by which a sentence overlaps least with the contexts.
OVERLAP: Final = "rouge_l"

#: Thresholds of the curve at most.
MOST: Final = 100


def sentences_section(trimmed: RemovalOutcome, confidence: float) -> dict[str, Any]:
    """Return what is removed of the test part, sentence by sentence, and at other thresholds.

    Everything counts answers that are independent of one another: one of each group.

    Parameters
    ----------
    trimmed : Trimmed
        What the detector's threshold leaves.
    confidence : float
        Level of every interval.

    Returns
    -------
    dict
        ``n_answers``, ``n_sentences``, ``n_unsupported``, ``n_supported`` and ``n_undefined``;
        ``removed`` (sentences that are not shown, by class, as ``count`` and ``n``);
        ``also_removed``, those among them that go because others do;
        ``reviewed_for``, answers that go to review since a sentence leans on a removed one, since
        what belongs ``together`` is divided, or since a sentence is ``undefined``;
        ``flagged_whole``, what showing no answer with a removed sentence would do; ``curve``, plain
        estimates at thresholds over the whole range; ``spans`` (``sections.spans``), None where
        nobody marked characters.
    """
    sample, sentences = trimmed.sample, trimmed.sentences
    counted = np.zeros(len(sample), np.bool_)
    counted[trimmed.everyone] = True
    among = np.repeat(counted, np.diff(sentences.first))
    scores, trimming = sentences.columns[trimmed.key], trimmed.trimming
    hidden = trimming.removed | np.repeat(trimming.reviewed, np.diff(sentences.first))
    classes = {"unsupported": sentences.labels == 1, "supported": sentences.labels == 0}

    reviewed_for = {
        "leans": dangling(sentences.joins, trimming.removed),
        "together": split_blocks(sentences.joins, trimming.removed),
        "undefined": np.isnan(scores) & (trimmed.undefined == "review"),
    }

    def number(which: Mask) -> int:
        return int(np.count_nonzero(which & among))

    withheld = sentences.any(trimming.removed) | trimming.reviewed
    whole = replace(trimming, reviewed=withheld)
    return {
        "n_answers": int(counted.sum()),
        "n_sentences": number(np.ones(len(sentences), np.bool_)),
        "n_unsupported": number(classes["unsupported"]),
        "n_supported": number(classes["supported"]),
        "n_undefined": number(np.isnan(scores)),
        "removed": {
            name: {"count": number(hidden & which), "n": number(which)}
            for name, which in classes.items()
        },
        "also_removed": number(trimming.removed & ~trimming.reached),
        "reviewed_for": {
            name: int(np.count_nonzero(counted & sentences.any(which)))
            for name, which in reviewed_for.items()
        },
        "flagged_whole": trimmed.with_trimming(whole).delivered(confidence).to_dict(),
        "curve": _curve(trimmed),
        "spans": _spans(trimmed, confidence),
    }


def simplest(trimmed: RemovalOutcome, confidence: float) -> list[dict[str, Any]]:
    """Return what removing nothing, everything and the least overlapping sentence would do.

    The last is that of each answer that shares least with the contexts (`rouge_l`), the first of
    several, where that was computed; nothing is calibrated for it.
    """
    sentences = trimmed.sentences
    nobody = np.zeros(sentences.n_answers, np.bool_)
    removes = {
        "nothing": np.zeros(len(sentences), np.bool_),
        "everything": np.ones(len(sentences), np.bool_),
    }
    if OVERLAP in sentences.columns:
        removes["least_overlapping"] = sentences.highest(OVERLAP)
    rows = []
    for name, removed in removes.items():
        other = trimmed.with_trimming(Trimming(removed, removed, nobody))
        rows.append({"name": name, "threshold": None, **other.delivered(confidence).to_dict()})
    return rows


def trimmed_row(
    name: str, other: Sample, like: Calibration, beside: RemovalOutcome, confidence: float
) -> tuple[BaselineResult, dict[str, Any]]:
    """Return a score calibrated by the promise of ``like``, tested beside the reported one.

    It beats the detector where the paired interval of what it keeps lies above what the detector
    keeps, answer by answer; the detector beats it where it lies below.

    Parameters
    ----------
    name, other : str and Sample
        The score's column of the sentences, and the answers with its values.
    like : Calibration
        Gives the target, the guarantee and the policy for undefined scores.
    beside : Trimmed
        What the reported detector leaves.
    confidence : float
        Level of the intervals.

    Returns
    -------
    (Row, dict)
        As every report has it, and what it frees and keeps.
    """
    n_calibration = len(other.scores(CALIBRATION, 1))
    bare = replace(beside, sample=other, key=name)
    row = BaselineResult(name, None, n_calibration, None, None, bare.auroc(confidence))
    try:
        calibration = other.calibrated(replace(like.promise, allow_flag_all=False))
    except InputError as error:
        why = str(error)
        return replace(row, reason=why), {"name": name, "threshold": None, "reason": why}
    trimmed = bare.again(np.full(len(other), calibration.threshold))
    gap = trimmed.kept_beyond(beside, confidence)
    coverage, fpr = other.bounds(calibration.flags(other.values, other.tolerance), confidence)
    row = replace(
        row,
        threshold=calibration.threshold,
        coverage=coverage,
        fpr=fpr,
        beats_detector=gap.lies_above(0.0),
        detector_beats=gap.lies_below(0.0),
    )
    measured = trimmed.delivered(confidence).to_dict()
    about = {"name": name, "threshold": calibration.threshold, **measured}
    return row, {**about, "kept_beyond_detector": gap.to_dict(), "reason": None}


def _curve(trimmed: RemovalOutcome) -> dict[str, list[float]] | None:
    """Return the shares freed and kept at thresholds over the whole range; None without scores."""
    sample, everyone = trimmed.sample, trimmed.everyone
    test = trimmed.sentences.of_answers(sample.rows(TEST))
    ranked = intervals.ranked_values(test.columns[trimmed.key], trimmed.undefined)
    distinct = np.unique(ranked[np.isfinite(ranked)])
    if not len(distinct):
        return None
    if len(distinct) > MOST:
        distinct = distinct[np.linspace(0, len(distinct) - 1, MOST).round().astype(np.intp)]
    freed, kept = [], []
    for threshold in distinct.tolist():
        other = trimmed.again(np.full(len(sample), threshold)).outcomes
        freed.append(_mean(other.freed[trimmed.hallucinated]))
        kept.append(_mean(other.shares(everyone)))
    return {"thresholds": distinct.tolist(), "freed": freed, "kept": kept}


def _spans(trimmed: RemovalOutcome, confidence: float) -> dict[str, Any] | None:
    """Return how much of what is marked the threshold finds, of all test answers with marks."""
    sample, sentences = trimmed.sample, trimmed.sentences
    rows = sample.rows(TEST) & ~sentences.any(sentences.marked == UNMARKED)
    if not rows.any():
        return None
    part = sentences.of_answers(rows)
    return find_spans(
        part.first,
        part.written.astype(np.int64),
        part.marked.astype(np.int64),
        part.outside.astype(np.int64),
        trimmed.trimming.reached[np.repeat(rows, np.diff(sentences.first))],
        None if sample.groups is None else sample.groups[rows],
        confidence=confidence,
    )


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


#: Numbers drawn at once.
_CHUNK: Final = 2_000_000
_STREAMING_METHOD: Final = "bootstrap, by answer"

#: Why a judge's sentences are not measured.
MORE_REQUESTS: Final = "more_requests"


def streaming(trimmed: RemovalOutcome, confidence: float) -> dict[str, Any]:
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
    thresholds: intervals.Floats,
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
    total = _sums(words, sentences.first)[hallucinated]
    seen = _sums(np.where(shown, words, 0), sentences.first)[hallucinated]
    said = total > 0
    return {
        "stopped": {
            "before": share(stop < wrong),
            "at": share(~never & (stop == wrong)),
            "after": share(~never & (stop > wrong)),
            "never": share(never),
        },
        "cut": intervals.wilson(int((~never)[faithful].sum()), len(faithful), confidence).to_dict(),
        "delay": _mean_streaming(delays, confidence, seed).to_dict()
        | {"counts": {str(k): int((delays == k).sum()) for k in np.unique(delays).tolist()}},
        "words_shown": _mean_streaming(seen, confidence, seed).to_dict(),
        "words": _mean_streaming(total, confidence, seed).to_dict(),
        "share_shown": mean_bound(seen[said] / total[said], confidence).to_dict(),
    }


def _first(sentences: SentenceTable, which: Mask) -> Ints:
    """Return where the first of some sentences stands in each answer, its end where none does."""
    places = np.where(which, np.arange(len(sentences)), len(sentences))
    ends = sentences.first[1:]
    following = np.minimum.accumulate(np.append(places, len(sentences))[::-1])[::-1]
    return np.minimum(following[sentences.first[:-1]], ends)


def _mean_streaming(values: Ints, confidence: float, seed: int) -> Measure:
    """Return a mean over answers with the interval of means over answers drawn again."""
    n = len(values)
    if n == 0:
        return intervals.missing(_STREAMING_METHOD, "no_such_answer", confidence)
    rng, tail = np.random.default_rng(seed), (1.0 - confidence) / 2.0
    draws, at_once = intervals.draws_for(n), max(1, _CHUNK // n)
    sizes = [min(at_once, draws - begun) for begun in range(0, draws, at_once)]
    means = np.concatenate([values[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])
    lower, upper = (float(end) for end in np.quantile(means, [tail, 1.0 - tail]))
    return Measure(float(values.mean()), lower, upper, _STREAMING_METHOD, confidence)
