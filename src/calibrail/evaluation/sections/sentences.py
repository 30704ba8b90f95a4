"""What does removing sentences do on the test part, and what would something simpler do?"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from calibrail.conformal import Calibration
from calibrail.errors import InputError
from calibrail.evaluation.rows import Row
from calibrail.evaluation.sample import CALIBRATION, TEST, Sample
from calibrail.evaluation.sections.spans import find_spans
from calibrail.evaluation.stats.arrays import Mask
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.evaluation.trimmed import Trimmed
from calibrail.scores.sentence_table import UNMARKED, Trimming
from calibrail.text.joins import divided, leaning

#: The baseline by which a sentence overlaps least with the contexts.
OVERLAP: Final = "rouge_l"

#: Thresholds of the curve at most.
MOST: Final = 100


def sentences_section(trimmed: Trimmed, confidence: float) -> dict[str, Any]:
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
        "leans": leaning(sentences.joins, trimming.removed),
        "together": divided(sentences.joins, trimming.removed),
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
        "flagged_whole": _freed_and_kept(trimmed.with_trimming(whole), confidence),
        "curve": _curve(trimmed),
        "spans": _spans(trimmed, confidence),
    }


def simplest(trimmed: Trimmed, confidence: float) -> list[dict[str, Any]]:
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
        rows.append({"name": name, "threshold": None, **_freed_and_kept(other, confidence)})
    return rows


def trimmed_row(
    name: str, other: Sample, like: Calibration, beside: Trimmed, confidence: float
) -> tuple[Row, dict[str, Any]]:
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
    row = Row(name, None, n_calibration, None, None, bare.auroc(confidence))
    try:
        calibration = other.calibrated(replace(like.promise, allow_flag_all=False))
    except InputError as error:
        why = str(error)
        return replace(row, reason=why), {"name": name, "threshold": None, "reason": why}
    trimmed = bare.again(np.full(len(other), calibration.threshold))
    gap = trimmed.kept_beyond(beside, confidence)
    flagged = calibration.flags(other.values, other.tolerance)
    coverage, fpr = other.bounds(flagged, confidence)
    row = replace(
        row,
        threshold=calibration.threshold,
        coverage=coverage,
        fpr=fpr,
        beats_detector=gap.lies_above(0.0),
        detector_beats=gap.lies_below(0.0),
    )
    measured = _freed_and_kept(trimmed, confidence)
    about = {"name": name, "threshold": calibration.threshold, **measured}
    return row, {**about, "kept_beyond_detector": gap.to_dict(), "reason": None}


def _freed_and_kept(trimmed: Trimmed, confidence: float) -> dict[str, Any]:
    return trimmed.delivered(confidence).to_dict()


def _curve(trimmed: Trimmed) -> dict[str, list[float]] | None:
    """Return the shares freed and kept at thresholds over the whole range; None without scores."""
    sample, everyone = trimmed.sample, trimmed.everyone
    test = trimmed.sentences.of_answers(sample.rows(TEST))
    ranked = ranked_values(test.columns[trimmed.key], trimmed.undefined)
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


def _spans(trimmed: Trimmed, confidence: float) -> dict[str, Any] | None:
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
