"""How well do a threshold and its score do on the test part?"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from calibrail.conformal import Bound, ClusteredCalibration, coverage_band
from calibrail.conformal.mean_bound import MeanBound
from calibrail.conformal.rule import Rule
from calibrail.evaluation.sample import CLASSES, TEST, Mask, Sample
from calibrail.evaluation.stats.auroc import auroc
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.overlap import median_overlap, overlap
from calibrail.evaluation.stats.rates import accuracy, wilson
from calibrail.evaluation.stats.separation import Moments, Welch, cohens_d, moments, welch
from calibrail.evaluation.stats.undefined import ranked_values
from calibrail.evaluation.trimmed import Trimmed
from calibrail.record import Record


@dataclass(frozen=True, slots=True)
class Band(Record):
    """Where the number of caught test hallucinations plausibly lies if the promise's model holds.

    Parameters
    ----------
    lowest, highest : int
        Caught counts out of ``n`` between which a BetaBinomial draw falls with ``confidence``.
    n : int
        Hallucinated test examples.
    confidence : float
        Level of the band.
    inside : bool
        Whether the observed count lies in it.
    lower, upper : float
        The ends as shares of ``n``.
    method : str
        How it was computed.
    """

    lowest: int
    highest: int
    n: int
    confidence: float
    inside: bool
    lower: float
    upper: float
    method: str = "beta-binomial"


@dataclass(frozen=True, slots=True)
class Tested(Record):
    """Every measure of a threshold and its score on the test part.

    Parameters
    ----------
    n_hallucinated, n_faithful : int
        Test examples per class.
    coverage, fpr, accuracy : Bound
        Shares caught, flagged wrongly and decided right, with Wilson intervals.
    coverage_band : Band or None
        Where chance alone puts the caught count; None where everything is flagged.
    auroc, overlap, median_overlap, cohens_d : Measure
        Separation of the classes, independent of the threshold. Cohen's d is over defined scores.
    means : mapping of str to Moments
        Under ``"hallucinated"`` and ``"faithful"``, over defined scores.
    welch : Welch
        Test of equal means.
    freed, kept_supported, emptied, untouched, reviewed : Bound and MeanBound, or None
        Where sentences are removed: what a reader gets (``trimmed.Delivered``). ``coverage`` is
        then the share of hallucinated answers whose unsupported sentences all reach the threshold,
        ``fpr`` that of faithful answers of which one does, ``accuracy`` that of answers of which
        exactly what is unsupported is removed; the classes of the other measures are those of
        sentences.
    """

    n_hallucinated: int
    n_faithful: int
    coverage: Bound
    coverage_band: Band | None
    fpr: Bound
    accuracy: Bound
    auroc: Measure
    overlap: Measure
    median_overlap: Measure
    means: Mapping[str, Moments]
    cohens_d: Measure
    welch: Welch
    freed: Bound | None = None
    kept_supported: MeanBound | None = None
    emptied: Bound | None = None
    untouched: Bound | None = None
    reviewed: Bound | None = None

    later = ("freed", "kept_supported", "emptied", "untouched", "reviewed")

    @classmethod
    def of(cls, rule: Rule, sample: Sample, flagged: Mask, confidence: float) -> Self:
        """Measure what a rule flags, and how its score ranks."""
        test = sample.rows(TEST)
        ranked = sample.by_class(ranked_values(sample.values, rule.undefined))
        values = sample.by_class(sample.values)
        coverage, fpr = sample.bounds(flagged, confidence)
        return cls(
            n_hallucinated=coverage.n,
            n_faithful=fpr.n,
            coverage=coverage,
            coverage_band=_band(rule, coverage, confidence),
            fpr=fpr,
            accuracy=accuracy(flagged[test], sample.labels[test], confidence),
            auroc=auroc(*ranked, confidence=confidence),
            overlap=overlap(*ranked, confidence=confidence),
            median_overlap=median_overlap(*ranked),
            means=dict(zip(CLASSES, map(moments, values), strict=True)),
            cohens_d=cohens_d(*values),
            welch=welch(*values),
        )

    @classmethod
    def by_sentence(cls, rule: Rule, trimmed: Trimmed, flagged: Mask, confidence: float) -> Self:
        """Measure what a rule removes of answers, and how its score ranks their sentences.

        ``flagged`` says which answers reach their threshold. Sentences of one answer are not
        independent: what would take them for that has no interval.
        """
        sample, outcomes = trimmed.sample, trimmed.outcomes
        coverage, fpr = sample.bounds(flagged, confidence)
        part = trimmed.sentences.of_answers(sample.rows(TEST))
        scores = part.columns[trimmed.key]
        classes = scores[part.labels == 1], scores[part.labels == 0]
        ranked = tuple(ranked_values(item, rule.undefined) for item in classes)
        shared = overlap(*ranked, confidence=confidence)
        if shared.estimate is not None:
            shared = Measure(shared.estimate, None, None, "sentences pooled")
        right = outcomes.freed & ~(outcomes.kept < 1.0) & ~outcomes.reviewed
        test = sample.rows(TEST)
        return cls(
            n_hallucinated=coverage.n,
            n_faithful=fpr.n,
            coverage=coverage,
            coverage_band=_band(rule, coverage, confidence),
            fpr=fpr,
            accuracy=wilson(int(np.sum(right & test)), int(np.sum(test)), confidence),
            auroc=trimmed.auroc(confidence),
            overlap=shared,
            median_overlap=median_overlap(*ranked),
            means=dict(zip(CLASSES, map(moments, classes), strict=True)),
            cohens_d=cohens_d(*classes),
            welch=Welch(None, None, None, "sentences_of_one_answer"),
            **{
                item.name: getattr(delivered, item.name)
                for delivered in (trimmed.delivered(confidence),)
                for item in fields(delivered)
            },
        )


def _band(rule: Rule, coverage: Bound, confidence: float) -> Band | None:
    calibration, n = rule.calibration, coverage.n
    # The law of the band is that of one threshold from independent examples.
    alone = rule.groups is None and rule.chosen is None
    clustered = isinstance(calibration, ClusteredCalibration)
    if not alone or clustered or calibration.flag_all or not n:
        return None
    lowest, highest = coverage_band(calibration, n, confidence)
    inside = lowest <= coverage.count <= highest
    return Band(lowest, highest, n, confidence, inside, lowest / n, highest / n)
