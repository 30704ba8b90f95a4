"""Shift()."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sources import Source, spoken
from calibrail.data.splits import FIT
from calibrail.errors import InputError, TooFewExamplesError
from calibrail.evaluation import shift as drifts
from calibrail.evaluation.scored_answers import Sample
from calibrail.formatting import Scale, ShownContent
from calibrail.options import Promise, ReadOptions, Requirement, ShiftSplit, fields, keywords
from calibrail.options.data import ReadKeywords
from calibrail.options.guarantee import Guarantee, Undefined, Unit, whole_answers
from calibrail.pipelines import data_reuse, look_overlap
from calibrail.pipelines.fixed_threshold import only_one, with_columns, with_unnamed
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import write_run
from calibrail.pipelines.scoring import Scored, require_defined, score_source
from calibrail.report.documents.shift import document, finding, sentence
from calibrail.report.messages import say, spell_reasons
from calibrail.report.text import last_part
from calibrail.scores.base import learns
from calibrail.scores.custom import ScoreLike

SCHEMA: Final = "calibrail.shift/1"


@dataclass(frozen=True, slots=True, repr=False)
class ShiftRun(ShownContent):
    """What ``calibrail shift`` writes.

    Attributes
    ----------
    content : mapping
        Score, promise and one entry a test under ``tests``, JSON-able.
    scored : tuple of Scored
        The scores behind it: of the one source, or of both.
    look : DataUse
        The look that it is, at the answers that test.
    """

    shown_as = "shift"

    content: Mapping[str, Any]
    scored: tuple[Scored, ...]
    look: look_overlap.DataUse

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``shift.json``, ``report.html``, ``cost.json``, ``looks.json`` and ``figures/``."""
        tables = (scored.table for scored in self.scored)
        files = data_reuse.with_look({"shift.json": self.content}, folder, self.look)
        return write_run(folder, files, document(self.content), *tables, force=force)


@keywords.options_from_keywords(
    split=ShiftSplit, promise=Promise, requirement=Requirement, reading=ReadOptions
)
def shift(
    source: Source,
    score: ScoreLike | Sequence[ScoreLike] | None = None,
    *,
    score_column: str | Sequence[str] | None = None,
    higher: str | None = None,
    split: ShiftSplit | None = None,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    reading: ReadOptions | None = None,
    context: Context | None = None,
    test: Source | None = None,
    by: str | None = None,
    calibrate_on: Sequence[str] = (),
    time: str | None = None,
    periods: int = 4,
    test_reading: ReadOptions | None = None,
    alpha: float = 0.05,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
    min_n: int | None = None,
    clustered: bool = False,
    beta: float | None = None,
    unit: Unit = "answer",
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
    **how: Unpack[ReadKeywords],
) -> ShiftRun:
    """Calibrate on some answers, test on others: the drift audit.

    Parameters
    ----------
    source : path, str or iterable of Example
        Labelled answers.
    score : str or Score, optional
        One detector that does not learn; left out, it is that of `calibrate`.
    score_column, higher
        As for `calibrate`.
    split : ShiftSplit
        Which answers set the threshold and which test it.
    promise : Promise, optional
        What the threshold keeps: alpha, guarantee, delta and the policy for undefined scores.
    requirement : Requirement, optional
        Its confidence is the level of every interval and of all tests together.
    reading : ReadOptions, optional
        How to read ``source``; its fields may stand by themselves in its place. Unusable rows of a
        test file go to a file of their own beside its quarantine file: ``quarantine-test.jsonl``.
    context : Context, optional
        The command that gives this again; who is told how far it is.
    test, by, calibrate_on, time, periods, test_reading
        Fields of ``split``, by themselves in its place: ``by`` names its groups.
    alpha, guarantee, delta, undefined, ...
        Fields of ``promise`` and ``requirement``, by themselves in their place; see `calibrate`.
        The threshold is one for all answers, so that the others are refused.

    Raises
    ------
    InputError
        If not exactly one way of splitting is named, or the score learns.
    DataError
        If a side holds no usable answers, a time cannot be read, or there are too many groups.
    TooFewExamplesError
        If no threshold short of flagging everything keeps the promise on any side.

    Examples
    --------
    >>> run = shift("example:facts", "novelty", by="kind", alpha=0.2)
    >>> len(run.to_dict()["tests"])
    10
    """
    split = fields.optional(split, ShiftSplit, "split")
    promise = fields.optional(promise, Promise, "promise")
    requirement = fields.optional(requirement, Requirement, "requirement")
    _refuse_unused(promise, requirement)
    promise = promise.settled()
    context = fields.optional(context, Context, "context")
    score = with_columns(score, score_column, higher)
    source, score, said = with_unnamed(source, score, reading)
    scored = tuple(
        _scored(source, score, split, fields.optional(reading, ReadOptions, "reading"), context)
    )
    sample, features, lot = _joined(scored)
    results, failures = [], list[TooFewExamplesError]()
    for item in _parts(scored, split, spoken(source)):
        # An answer on which no judge could be asked says nothing on either side.
        sides = np.where(sample.split == FIT, FIT, item.split).astype(np.int8)
        try:
            part = replace(sample, split=sides)
            if not requirement.assume_independent:
                # One answer of each group and class on either side: those are independent.
                part = part.thinned(part.split != FIT, lot, part.labels, part.split)
            measured = drifts.drift(part, features, promise, requirement.confidence)
        except TooFewExamplesError as error:
            more = error.more(error.minimum_n - error.n, error.of)
            where = f"{more} where the threshold is set ({item.calibrated_on})"
            message = error.message.replace("{labels}", where)
            failures.append(TooFewExamplesError(message, error.minimum_n, error.n, error.of))
            continue
        names = {"calibrated_on": item.calibrated_on, "tested_on": item.tested_on}
        results.append({**names, "n_set_aside": part.n_set_aside, **measured})
    if not results:
        raise failures[0]
    spec = scored[0].specs[scored[0].keys[0]]
    scale = Scale.of(spec)
    judged = drifts.judge_drift(results, promise.alpha, requirement.confidence)
    counts = "n_examples", "n_quarantined", "n_unanswered"
    content = {
        "schema": SCHEMA,
        "finding": finding(judged, promise.alpha, len(failures), shared := _shared(scored)),
        "score": spec,
        "alpha": promise.alpha,
        "guarantee": promise.guarantee,
        "delta": promise.delta if promise.of_this_threshold else None,
        "confidence": requirement.confidence,
        "undefined": promise.undefined,
        "split": {"by": split.by, "time": split.time, "test": split.test is not None},
        "tests": [
            scale.beside({**item, "sentence": sentence(item, promise.alpha, scale)})
            for item in judged
        ],
        "left_out": len(failures),
        "shared": shared,
        "data": {
            **{name: sum(side.data[name] for side in scored) for name in counts},
            "source": spoken(source),
            "test": None if split.test is None else spoken(split.test),
            "notes": list(said),
            "parts": [side.data["reading"]["part"] for side in scored],
        },
        "reproduce": context.reproduce(),
    }
    look = data_reuse.look_of_run(scored[-1], scored[-1].keys, requirement)
    return ShiftRun(spell_reasons(content), scored, look)


def _refuse_unused(promise: Promise, requirement: Requirement) -> None:
    """Refuse what a drift audit would not do, rather than leave it out unsaid."""
    whole_answers("shift", promise, requirement)
    unused = replace(promise, by=None, min_n=None, clustered=False, beta=None, allow_flag_all=False)
    if promise != unused:
        raise InputError(say("refused.shift_one_threshold"))
    used = {name: getattr(requirement, name) for name in ("confidence", "assume_independent")}
    if requirement != Requirement(**used):
        raise InputError("shift gives no verdict; leave out max_false_alarms, min_caught and risks")


def _scored(
    source: Source, score: Any, split: ShiftSplit, reading: ReadOptions, context: Context
) -> Iterator[Scored]:
    """Score the answers, and those of another source where one tests."""
    detector = only_one(score, "shift takes")
    if learns(detector):
        raise InputError(say("refused.shift_without_learning", score=detector.name))
    sides, aside = [(source, reading)], None
    if reading.quarantine is not None:
        aside = reading.quarantine.with_stem(f"{reading.quarantine.stem}-test")
        # An earlier run's must not stand beside this run's results.
        aside.unlink(missing_ok=True)
    if split.test is not None:
        sides.append((split.test, split.test_reading or replace(reading, quarantine=aside)))
    keep = [name for name in (split.by, split.time) if name is not None]
    for answers, how in sides:
        scored = score_source(
            answers, detector, reading=how, companions=False, keep=keep, progress=context.progress
        )
        require_defined(scored)
        yield scored


def _shared(scored: tuple[Scored, ...]) -> float:
    """Return about which share of another source's answers set the threshold; of few of them 0."""
    *first, last = (look_overlap.look_at(side, side.keys[0], slice(None)) for side in scored)
    earlier = look_overlap.overlapping_uses(last, first)
    return look_overlap.exceeds_reuse_limit(earlier) * sum(share for _, share in earlier)


def _joined(scored: tuple[Scored, ...]) -> tuple[Sample, drifts.Features, NDArray[np.uint64]]:
    """Return all answers with the features that each side has, and what their content drew."""
    samples = [side.sample() for side in scored]
    # Two sources stand on two sides, so that equal numbers make no common group.
    sides = ((one.values, one.labels, one.split) for one in samples)
    values, labels, split = (np.concatenate(column) for column in zip(*sides, strict=True))
    groups = np.concatenate([side.groups for side in scored])
    sample = Sample(values, labels, split, groups, samples[0].tolerance)
    names = [name for name in scored[0].baselines if name in scored[-1].baselines]
    features = {it: np.concatenate([side.table.columns[it] for side in scored]) for it in names}
    return sample, features, np.concatenate([side.lots for side in scored])


def _parts(scored: tuple[Scored, ...], split: ShiftSplit, source: str) -> list[drifts.ShiftPart]:
    table = scored[0].table
    if split.by is not None:
        return drifts.group_parts(table.kept[split.by], split.by, split.calibrate_on)
    if split.time is not None:
        return drifts.time_parts(table.kept[split.time], split.time, split.periods)
    first = np.arange(sum(len(side.table) for side in scored)) < len(table)
    # Two names that are alike tell no sides apart.
    names = last_part(source), last_part(spoken(split.test))
    if names[0] == names[1]:
        names = "the first set", "the other set"
    return [drifts.ShiftPart(*names, first, ~first)]
