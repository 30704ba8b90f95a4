"""How often does a watch raise a false alarm, about traffic or about a promise?

Traffic: streams are followed through the ranks, bins and detectors that ``Monitor`` uses, many at
once. A stream ends after so many rows, alarm or not, so that a mean run length is only ever bounded
from below: by that of streams which all raise an alarm in the end.

Promises: the true rates lie on their limits all the time, where that is likeliest. Draws, batches
and labels are what ``label --from-log`` and people would make of them, and the bets are those of
the watch, looked at after every draw.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from calibrail.conformal import labelling_probability
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.change_point import N_BETS, alarm_threshold, shiryaev_roberts, stream_ranks
from calibrail.conformal.sequential.forecast import gaussian
from calibrail.labelling.log_sampling import LabelledSample
from calibrail.monitoring.history import FEATURES, Bins, learn_bins, rows_for_bins
from calibrail.monitoring.promise import LabelledBets, Rate
from calibrail.options import Drawing, Requirement

from .check import Check, Kind, Observation, Setting, as_score

#: Rows of a stream after its reference.
ROWS: Final = 10_000
#: False alarms are counted within a tenth of the rows, and within all of them.
_PARTS: Final = (10, 1)
#: The mean run length that is stated, as a part of the rows.
_STATED: Final = 10
#: Streams, and rows of each, that are followed in one go.
_STREAMS, _AT_ONCE = 50, 2048
#: Correlation of the features of one answer, and of the answers of one question.
_BETWEEN, _WITHIN = 0.7, 0.8
#: Most answers of a question.
_CLUSTER: Final = 10
#: Rows among which the answers of a question lie where they do not come one after the other.
_AMONG: Final = 1000
#: One in so many answers has no score.
_UNDEFINED: Final = 20
#: What the languages are called, the most frequent one first, and the edges between them.
_NAMES: Final = ("en", "de", "fr")
_LANGUAGES: Final = (0.75, 0.95)


def follow(
    reference: Floats,
    stream: Floats,
    thresholds: tuple[float, ...],
    *,
    feature: str = "score",
    seed: int = 0,
) -> Floats:
    """Return the row at which each stream raises its first alarm about one feature.

    Parameters
    ----------
    reference, stream : ndarray of float64, shape (streams, rows)
        Values of the feature, NaN where a row has none; languages as numbers from 0. The first part
        of a reference decides about the bins, the rest is counted.
    thresholds : tuple of float
        At which an alarm is raised; a stream is left once all are reached.
    feature : str
        One of those that a watch looks at.
    seed : int
        Of the draws between ties.

    Returns
    -------
    ndarray of float64, shape (streams, thresholds)
        Rows are numbered from 1; infinite where no alarm is raised.
    """
    rng, found = np.random.default_rng(seed), []
    for start in range(0, len(stream), _STREAMS):
        part = slice(start, start + _STREAMS)
        found.append(_first(reference[part], stream[part], thresholds, feature, rng))
    return np.concatenate(found) if found else np.empty((0, len(thresholds)))


def _first(
    reference: Floats,
    stream: Floats,
    thresholds: tuple[float, ...],
    feature: str,
    rng: np.random.Generator,
) -> Floats:
    begin = rows_for_bins(reference.shape[1])
    bins = [_bins(row[:begin], feature) for row in reference]
    widest = max(item.n for item in bins)
    counts = np.stack(
        [
            np.bincount(counted[counted >= 0], minlength=widest)
            for counted in _in_bins(bins, reference[:, begin:])
        ]
    )
    won, first = np.zeros((len(stream), N_BETS)), np.full((len(stream), len(thresholds)), np.inf)
    for done in range(0, stream.shape[1], _AT_ONCE):
        rows = _in_bins(bins, stream[:, done : done + _AT_ONCE])
        ranks, counts = stream_ranks(rows, rng.random(rows.shape), counts)
        detector, won = shiryaev_roberts(ranks, won)
        for at, threshold in enumerate(thresholds):
            above = detector >= threshold
            row = np.where(above.any(axis=1), done + above.argmax(axis=1) + 1.0, np.inf)
            first[:, at] = np.minimum(first[:, at], row)
        if np.isfinite(first).all():
            break
    return first


def _bins(sample: Floats, feature: str) -> Bins:
    table = np.full((len(FEATURES), len(sample)), np.nan)
    table[FEATURES.index(feature)] = sample
    (found,) = learn_bins(table, _NAMES)
    return found


def _in_bins(bins: list[Bins], values: Floats) -> Ints:
    return np.stack([item.assign(row, _NAMES) for item, row in zip(bins, values, strict=True)])


def one_feature(at: Setting) -> Iterator[Check]:
    """Raise a false alarm about one feature, in streams of independent answers."""
    yield from _checks(at, _scores, "one feature")


def several_features(at: Setting) -> Iterator[Check]:
    """Raise a false alarm about any of six features that depend on one another."""
    yield from _checks(at, _six, "six dependent features")


def clustered(at: Setting) -> Iterator[Observation]:
    """Raise a false alarm where answers to one question depend on each other.

    They come one after the other, or lie among those to other questions. Nothing is promised.
    """
    for order, traffic in (("in a row", _in_a_row), (f"within {_AMONG:,} rows", _among_others)):
        first = _alarms(at, traffic, _thresholds(at, 1))
        for part, column in zip(_PARTS, first.T, strict=False):
            rows = ROWS // part
            design = f"1 to {_CLUSTER} answers a question {order}, correlation {_WITHIN:g}"
            what = f"clustered traffic: false alarm within {rows:,} rows"
            yield at.observed(what, column <= rows, at.alpha, design=design)


#: From random numbers, scores' kind, streams and rows to the values of each feature.
Traffic = Callable[[np.random.Generator, Kind, tuple[int, int]], dict[str, Floats]]


def _checks(at: Setting, traffic: Traffic, design: str) -> Iterator[Check]:
    """Yield how often streams raise an alarm too soon.

    A mean has no binomial limits, so the first alarm is compared with a row drawn at random among
    all: the probability that it comes no later is 1 - E[min(T, rows)] / rows, and E[T] is at least
    that mean.
    """
    n_features = len(traffic(np.random.default_rng(0), at.kind, (1, 1)))
    thresholds = _thresholds(at, n_features)
    first = _alarms(at, traffic, thresholds)
    for part, column in zip(_PARTS, first.T, strict=False):
        rows = ROWS // part
        what = f"watch, false alarm within {rows:,} rows"
        yield at.check(what, column <= rows, at.alpha, design=design)
    row = at.rng("row").integers(1, ROWS + 1, at.runs)
    what = f"watch, mean run length of {ROWS // _STATED:,} rows"
    yield at.check(what, first[:, -1] < row, 1.0 - 1.0 / _STATED, design=design)


def _thresholds(at: Setting, n_features: int) -> tuple[float, ...]:
    """Return those of a false alarm within each part of the rows, and of the mean run length."""
    lengths = [ROWS / part / (2.0 * at.alpha) for part in _PARTS]
    return tuple(alarm_threshold(length, n_features) for length in (*lengths, ROWS / _STATED))


def _alarms(at: Setting, traffic: Traffic, thresholds: tuple[float, ...]) -> Floats:
    """Return the rows of the first alarm about any feature, shape (runs, thresholds)."""
    rng, found = at.rng(traffic.__name__), []
    for start in range(0, at.runs, _STREAMS):
        size = (min(_STREAMS, at.runs - start), at.n + ROWS)
        first = [
            follow(
                values[:, : at.n],
                values[:, at.n :],
                thresholds,
                feature=feature,
                seed=int(rng.integers(2**32)),
            )
            for feature, values in traffic(rng, at.kind, size).items()
        ]
        found.append(np.minimum.reduce(first))
    return np.concatenate(found)


def _scores(rng: np.random.Generator, kind: Kind, size: tuple[int, int]) -> dict[str, Floats]:
    return {"score": as_score(kind, rng.standard_normal(size))}


def _six(rng: np.random.Generator, kind: Kind, size: tuple[int, int]) -> dict[str, Floats]:
    """Return features of answers that share one factor; some have no score."""
    shared = _BETWEEN**0.5 * rng.standard_normal(size)

    def normal() -> Floats:
        return np.asarray(shared + (1.0 - _BETWEEN) ** 0.5 * rng.standard_normal(size))

    undefined = normal() > ndtri(1.0 - 1.0 / _UNDEFINED)
    return {
        "score": np.where(undefined, np.nan, as_score(kind, normal())),
        "undefined": undefined.astype(np.float64),
        "question_length": np.floor(np.exp(4.0 + 0.5 * normal())),
        "response_length": np.floor(np.exp(6.0 + 0.5 * normal())),
        "chunks": as_score("tied", normal()),
        "language": np.searchsorted(_LANGUAGES, ndtr(normal())).astype(np.float64),
    }


def _in_a_row(rng: np.random.Generator, kind: Kind, size: tuple[int, int]) -> dict[str, Floats]:
    """Return scores of questions with 1 to ten answers each, which come one after the other."""
    rows = np.arange(size[1])
    question = np.stack(
        [np.repeat(rows, row)[: len(rows)] for row in rng.integers(1, _CLUSTER + 1, size)]
    )
    effect = np.take_along_axis(rng.standard_normal(size), question, axis=1)
    own = rng.standard_normal(size)
    return {"score": as_score(kind, _WITHIN**0.5 * effect + (1.0 - _WITHIN) ** 0.5 * own)}


def _among_others(rng: np.random.Generator, kind: Kind, size: tuple[int, int]) -> dict[str, Floats]:
    """Return such scores where the answers of some hundred questions come in any order."""
    values = _in_a_row(rng, kind, size)["score"]
    for start in range(0, size[1], _AMONG):
        part = values[:, start : start + _AMONG]
        part[:] = rng.permuted(part, axis=1)
    return {"score": values}


#: Limit on the FPR, and most probable that a promise which is kept is ever said to be broken.
MAX_FPR, DELTA = 0.2, 0.05
#: Shares of hallucinated answers among those drawn.
BASE_RATES: Final = (0.1, 0.5)
#: Draws of a stream, and of a batch; a batch comes every day.
DRAWS, BATCH = 1000, 20
#: Labels that are read so many times while they come in.
_LOOKS: Final = 10
#: Days until a label comes, on average: of a missed hallucination, or a false alarm; of the others.
_DAYS: Final = (1.0, 10.0)
#: One in so many answers nobody can tell.
_UNSURE: Final = 20


def promise_uniform(at: Setting) -> Iterator[Check]:
    """Every answer drawn is labelled at once."""
    yield from _promise_checks(at, Drawing(), "every draw labelled", _broken)


def promise_active(at: Setting) -> Iterator[Check]:
    """Answers are labelled by a guess that is as good as the score allows."""
    yield from _promise_checks(at, Drawing("active"), "labelled by a guess", _broken)


def promise_late(at: Setting) -> Iterator[Check]:
    """Labels that speak against the promise come first; some never come."""
    rng = at.rng("late")

    def looked(audited: LabelledSample, limits: Requirement) -> bool:
        return _broken_while_waiting(rng, audited, limits)

    yield from _promise_checks(at, Drawing(), "bad news first", looked)


def _promise_checks(
    at: Setting,
    drawing: Drawing,
    design: str,
    broken: Callable[[LabelledSample, Requirement], bool],
) -> Iterator[Check]:
    limits = Requirement(MAX_FPR, 1.0 - at.alpha, 1.0 - DELTA)
    for base_rate in BASE_RATES:
        rng = at.rng(f"promise, {design}, {base_rate}")
        failed = [broken(audit(rng, limits, drawing, base_rate), limits) for _ in range(at.runs)]
        what = f"promise, falsely broken within {DRAWS:,} draws"
        yield at.check(what, failed, DELTA, design=f"{design}, base rate {base_rate:g}")


def audit(
    rng: np.random.Generator, limits: Requirement, drawing: Drawing, base_rate: float
) -> LabelledSample:
    """Return drawn answers of a guardrail whose rates lie on the limits."""
    draw = gaussian(float(limits.min_coverage or 0.0), float(limits.max_fpr or 0.0), base_rate)
    unit = draw(rng, 1, DRAWS)
    flagged, truth, guess = unit.flagged[0, :, 0], unit.hallucinated[0, :, 0], unit.guess[0, :, 0]
    n = len(flagged)
    chance: Floats = np.ones(n)
    if drawing.design == "active":
        chance = labelling_probability(flagged, guess, limits, drawing, base_rate=base_rate)
    handed_out = rng.random(n) < chance
    batch = 1 + np.arange(n) // BATCH
    return LabelledSample(
        flagged=flagged,
        label=np.where(handed_out, truth, np.nan),
        settled=np.ones(n, bool),
        unsure=np.zeros(n, bool),
        handed_out=handed_out,
        probability=chance,
        guess=guess if drawing.design == "active" else np.full(n, np.nan),
        share=np.full(n, 0.01),
        time=(batch * 86_400.0).astype(np.float64),
        batch=batch,
        score=guess,
        group=np.full(n, None, object),
        language=np.full(n, None, object),
        id=np.arange(n).astype(str).astype(object),
        drawing=drawing,
    )


def _broken(audited: LabelledSample, limits: Requirement) -> bool:
    """Return whether the promise is ever said to be broken."""
    rates: dict[Rate, float] = {
        "coverage": float(limits.min_coverage or 0.0),
        "fpr": float(limits.max_fpr or 0.0),
    }
    watched = LabelledBets(audited, rates, DELTA, len(audited))
    return any(bool((path >= watched.goal).any()) for path in watched.worth("broken").values())


def _broken_while_waiting(
    rng: np.random.Generator, audited: LabelledSample, limits: Requirement
) -> bool:
    """Return whether it ever is at any look while labels come in."""
    against: Bools = audited.flagged != (audited.label == 1.0)
    days = audited.batch + rng.exponential(np.where(against, *_DAYS))
    unsure = rng.random(len(audited)) < 1.0 / _UNSURE
    last = float(audited.batch[-1])
    for day in np.linspace(last / _LOOKS, 2.0 * last, _LOOKS):
        drawn = audited.batch <= day
        settled = days <= day
        here = replace(
            audited,
            **{
                name: values[drawn]
                for name, values in (
                    *((name, getattr(audited, name)) for name in _COLUMNS),
                    ("label", np.where(settled & ~unsure, audited.label, np.nan)),
                    ("settled", settled),
                    ("unsure", settled & unsure),
                )
            },
        )
        if _broken(here, limits):
            return True
    return False


#: Columns that do not change while labels come in.
_COLUMNS: Final = (
    *("flagged", "handed_out", "probability", "guess", "share", "time", "batch", "score"),
    *("group", "language", "id"),
)
