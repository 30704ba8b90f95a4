"""Repeat().

A further reply is another sample of the same question, and kept as the first one is: the same run
again sends nothing. What is compared with anchors is asked anew, whatever is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from operator import add
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from calibrail.atomic_files import write_atomically
from calibrail.conformal.argument_checks import Bools, Floats, Ints
from calibrail.conformal.threshold import flags_under
from calibrail.data.dataset import hex_digests
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.data.splits import CALIBRATION, FIT
from calibrail.engine.local import score_here
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.evaluation import Sample
from calibrail.evaluation.measures import differing_replies, ranked_replies, share_by_group
from calibrail.evaluation.stats.tests import changed_replies
from calibrail.formatting import Scale, ShownContent
from calibrail.guardrail.probes import asked_anew
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.models.llm.chat import RemoteModel, asked_again
from calibrail.models.llm.transport import account
from calibrail.options import Promise, ReadOptions, fields, keywords
from calibrail.options.data import ReadKeywords
from calibrail.options.guarantee import OF_ONE_THRESHOLD, Guarantee, Undefined, whole_answers
from calibrail.pipelines import run
from calibrail.pipelines.fixed_threshold import only_one, with_columns, with_unnamed
from calibrail.pipelines.loading import Context, open_for, open_source
from calibrail.pipelines.scoring import resolve_unlearnt
from calibrail.pipelines.splitting import named_groups
from calibrail.report.documents.agree import finding, repeat_document
from calibrail.report.messages import say
from calibrail.scores.base import DetectorFailure, Pinning, Score
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable
from calibrail.serialization import json_parts, plain

SCHEMA: Final = "calibrail.repeat/1"
ANCHORS: Final = "calibrail.anchors/1"

#: From one reply to each answer to whether it is flagged.
Decide = Callable[[Floats], Bools]


@dataclass(frozen=True, slots=True, repr=False)
class RepeatRun(ShownContent):
    """What ``calibrail repeat`` writes.

    Attributes
    ----------
    content : mapping
        Stability, what a vote brings, and how the replies compare with anchors, JSON-able.
    table : ScoreTable
        The first reply to each answer, and what all of them cost.
    """

    shown_as = "repeat"

    content: Mapping[str, Any]
    table: ScoreTable

    @property
    def changed(self) -> bool:
        """Whether the judge is another one than that of the anchors."""
        return bool((self.content["anchors"] or {}).get("changed"))

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``repeat.json``, ``report.html`` and ``cost.json``."""
        files = {"repeat.json": self.content}
        return run.write_run(folder, files, repeat_document(self.content), self.table, force=force)


@dataclass(frozen=True, slots=True)
class Judging:
    """Which answers are judged, and by what.

    Attributes
    ----------
    detector : Score
        Judges them.
    guardrail : Guardrail or None
        Decides about them.
    opened : Reading
        Where they come from.
    answers : mapping of str to Example
        By their digests, each text once; only those of the anchors, where there are some.
    anchors : mapping or None
        What was said of them before.
    """

    detector: Score
    guardrail: Guardrail | None
    opened: Reading
    answers: Mapping[str, Example]
    anchors: Mapping[str, Any] | None

    @classmethod
    def of(
        cls,
        source: Source,
        score: Any,
        *,
        guardrail: Guardrail | str | PathLike[str] | None = None,
        reading: ReadOptions | None = None,
        anchors: str | PathLike[str] | None = None,
    ) -> Self:
        """Read the answers, and the anchors where their file exists."""
        if guardrail is not None:
            if score is not None:
                raise InputError("a guardrail brings its detector; give it or a score, not both")
            frozen = Guardrail.coerce(guardrail)
            require_answers(frozen.config, "repeat")
            how = run.inherited_reading(reading, frozen, source, labelled=True)
            detector, opened = frozen.score, open_for(frozen, source, how, labelled=False)
        else:
            frozen, detectors = None, resolve_unlearnt(only_one(score, "repeat takes"))
            (detector,), opened = detectors, open_source(source, reading, detectors, labelled=False)
        before = _read_anchors(anchors, detector)
        answers = {answer.digest("plain"): answer for answer in opened}
        if before is not None:
            answers = {key: answers[key] for key in before["replies"] if key in answers}
            if not answers:
                raise DataError(say("refused.no_anchor", path=anchors))
        return cls(detector, frozen, opened, answers, before)

    def asking(self) -> AbstractContextManager[None]:
        """Let endpoints be asked anew within the block where anchors are compared."""
        return nullcontext() if self.anchors is None else asked_anew()

    def judged(self, times: int, context: Context, level: float) -> tuple["Replies", ScoreTable]:
        """Return the replies to the answers of which no call failed, and the first ones' table."""
        tables, key = list[ScoreTable](), key_of(self.detector)
        with self.asking():
            for number in range(times):
                with asked_again(number):
                    answers, progress = self.answers.values(), context.progress
                    tables.append(score_here(answers, [self.detector], progress=progress)[0])
        first, failed = tables[0], dict[int, str]()
        for table in tables:
            whys = table.reasons[key].items()
            failed |= {row: why for row, why in whys if isinstance(why, DetectorFailure)}
        rows = np.setdiff1d(np.arange(len(first)), list(failed))
        if not len(rows):
            raise DataError(f"{key}: {failed[0]}")
        values = np.stack([table.columns[key][rows] for table in tables], axis=1)
        about = (first.labels[rows], named_groups(first)[rows], first.digests[rows])
        costs = [reduce(add, each) for each in zip(*(table.costs for table in tables), strict=True)]
        replies = Replies(values, *about, self.detector.tolerance, level)
        return replies, replace(first, costs=tuple(costs))


@dataclass(frozen=True, slots=True, eq=False)
class Replies:
    """Replies to answers, and what is known of these.

    Attributes
    ----------
    values : ndarray of float64, shape (n, times)
        NaN where undefined.
    labels, groups, digests : ndarray, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = not known; what is shared; what the answer is.
    tolerance : float
        Of the detector.
    level : float
        Of every interval.
    """

    values: Floats
    labels: NDArray[np.int8]
    groups: Ints
    digests: NDArray[np.uint64]
    tolerance: float
    level: float

    def share(self, shares: Floats, rows: Bools | None = None) -> dict[str, Any]:
        """Return the mean of shares, of all answers or of some, with its interval."""
        rows = np.full(len(shares), True) if rows is None else rows
        about = shares[rows], self.groups[rows], self.digests[rows]
        return share_by_group(*about, self.level).to_dict()

    def stability(self, states: Floats, tolerance: float = 0.0) -> dict[str, Any]:
        """Return of how many answers, and of how many pairs of replies to one, states differ."""
        differ, k = differing_replies(states, tolerance), states.shape[1]
        pairs: Floats = np.add.reduce(differ, axis=(1, 2), dtype=np.float64) / (k * (k - 1))
        some = (pairs > 0.0).astype(np.float64)
        return {"answers": self.share(some), "pairs": self.share(pairs)}

    def voting(self, promise: Promise) -> dict[str, Any]:
        """Return what one reply and the mean of all miss and flag, at thresholds set alike."""
        known = ~np.isnan(self.values)
        # As among votes, most must be readable.
        n = np.where(2 * known.sum(axis=1) > known.shape[1], known.sum(axis=1), np.nan)
        means = np.where(known, self.values, 0.0).sum(axis=1) / n
        codes = np.where(self.labels < 0, FIT, CALIBRATION).astype(np.int8)
        shares, result = [], {}
        for name, replies in (("one", self.values), ("vote", means[:, None])):
            sample = Sample(replies[:, 0], self.labels, codes, self.groups, self.tolerance)
            sample = sample.thinned(codes == CALIBRATION, self.digests, self.labels)
            calibration = sample.calibrated(promise)
            shares.append(decided(replies, partial(calibration.flags, tolerance=self.tolerance)))
            result[name] = {"threshold": float(calibration.threshold), **self.rates(shares[-1])}
        less = self.rates((1.0 + shares[0].mean(axis=1) - shares[1].mean(axis=1))[:, None] / 2.0)
        result["difference"] = {
            name: rate | {end: 2.0 * (rate[end] or 0.0) - 1.0 for end in _ENDS}
            for name, rate in less.items()
            if rate["estimate"] is not None
        }
        return result

    def rates(self, flagged: Floats) -> dict[str, dict[str, Any]]:
        """Return the shares missed of the hallucinated answers, and flagged of the faithful."""
        shares = flagged.mean(axis=1)
        missed = self.share(1.0 - shares, self.labels == 1)
        return {"missed": missed, "false_alarms": self.share(shares, self.labels == 0)}


_ENDS: Final = ("estimate", "lower", "upper")


def decided(replies: Floats, decide: Decide) -> Floats:
    """Return which replies are flagged, as 0 and 1."""
    return np.stack([decide(column) for column in replies.T], axis=1).astype(np.float64)


@keywords.options_from_keywords(promise=Promise, reading=ReadOptions)
def repeat(
    source: Source,
    score: ScoreLike | Sequence[ScoreLike] | None = None,
    *,
    score_column: str | Sequence[str] | None = None,
    higher: str | None = None,
    times: int = 3,
    threshold: float | None = None,
    guardrail: Guardrail | str | PathLike[str] | None = None,
    anchors: str | PathLike[str] | None = None,
    promise: Promise | None = None,
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    context: Context | None = None,
    alpha: float = 0.05,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    undefined: Undefined = "flag",
    **how: Unpack[ReadKeywords],
) -> RepeatRun:
    """Judge every answer several times: how stable the judge is, and what a vote brings.

    Parameters
    ----------
    source : path, str or iterable of Example
        Answers; where some are labelled, a threshold is calibrated on these, and so is a vote.
    score : str or Score, optional
        One detector that does not learn; left out, it is that of `calibrate`.
    score_column, higher
        As for `calibrate`.
    times : int
        Replies to each answer, 2 or more. The first is the one that ``calibrate`` gets.
    threshold : float, optional
        Decides in place of a calibrated one.
    guardrail : Guardrail or path, optional
        Brings the detector, and decides.
    anchors : path, optional
        Replies to compare with, of the same detector; written where there is no such file.
    promise : Promise, optional
        What a calibrated threshold keeps.
    confidence : float
        Level of every interval. A judge that is the same is called changed with at most the rest,
        at each comparison.
    reading : ReadOptions, optional
        How to read the source; its fields may stand by themselves in its place.
    context : Context, optional
        The command that gives this again; who is told how far it is.
    alpha, guarantee, delta, undefined
        Fields of ``promise``, by themselves in its place.

    Raises
    ------
    DataError
        If there is no answer, or none of which every call was answered.
    InputError
        If the score learns, or the anchors are those of another detector.

    Examples
    --------
    >>> run = repeat("example:facts", "novelty", alpha=0.2)
    >>> run.to_dict()["decisions"]["answers"]["count"]
    0.0
    """
    times, level = fields.whole(times, "times", least=2), fields.share(confidence, "confidence")
    if threshold is not None and guardrail is not None:
        raise InputError("a guardrail has its threshold; leave out the other one")
    promise = fields.optional(promise, Promise, "promise")
    whole_answers("repeat", promise)
    if promise != _of_one(promise):
        raise InputError(say("refused.repeat_one_threshold"))
    context = fields.optional(context, Context, "context")
    if account().limits.batch:
        raise InputError(say("refused.repeat_batch"))
    said: tuple[str, ...] = ()
    score = with_columns(score, score_column, higher)
    if guardrail is None:
        source, score, said = with_unnamed(source, score, reading)
    asked = Judging.of(source, score, guardrail=guardrail, reading=reading, anchors=anchors)
    if asked.guardrail is not None:
        promise = _of_one(asked.guardrail.config.promise)
    promise = promise.settled()
    replies, table = asked.judged(times, context, level)
    detector, opened = asked.detector, asked.opened
    pinned = detector.pinned() if isinstance(detector, Pinning) else detector
    spec = {**run.score_config(pinned), "key": key_of(pinned)}
    voting, why = None, None
    if (replies.labels == 1).any():
        try:
            voting = replies.voting(promise)
        except TooFewExamplesError as error:
            why = str(error)
    if asked.guardrail is not None:
        rule = asked.guardrail.rule
        source_of, edge = "guardrail", np.inf if rule.groups else rule.calibration.threshold
    elif threshold is not None:
        source_of, edge = "given", Scale.of(spec).shown(fields.number(threshold, "threshold"))
    else:
        source_of, edge = "calibrated", voting["one"]["threshold"] if voting else np.nan
    decide = _decider(asked, replies, edge, promise)
    flagged = None if np.isnan(edge) else decided(replies.values, decide)
    compared = None
    if asked.anchors is not None:
        compared = _compared(asked.anchors, replies, decide if flagged is not None else None)
        renamed = asked.anchors["pinned"] != run.score_config(pinned)
        served = asked.anchors["pinned"]["params"].get("served"), spec["params"].get("served")
        changed = renamed or compared["p_value"] <= 1.0 - level + 1e-12
        compared |= {"changed": changed, "renamed": renamed, "served": served, "file": str(anchors)}
    elif anchors is not None:
        _write_anchors(Path(anchors), replies, run.score_config(detector), run.score_config(pinned))
    content = {
        "schema": SCHEMA,
        "score": spec,
        "times": times,
        "confidence": level,
        "alpha": promise.alpha,
        "guarantee": promise.guarantee,
        "undefined": promise.undefined,
        "threshold": None if flagged is None else {"from": source_of, "value": plain(edge)},
        "asks": any(isinstance(model, RemoteModel) for model in getattr(detector, "models", ())),
        "decisions": None if flagged is None else replies.stability(flagged),
        "scores": replies.stability(replies.values, replies.tolerance),
        "voting": voting,
        "no_voting": why,
        "anchors": compared,
        "data": {
            "source": spoken(source),
            "sha256": opened.digest(),
            "n_examples": len(replies.labels),
            "n_labelled": int((replies.labels >= 0).sum()),
            "n_groups": len(np.unique(replies.groups)),
            "n_quarantined": opened.n_quarantined,
            "n_unanswered": len(table) - len(replies.labels),
            "n_undefined": int(np.isnan(replies.values).sum()),
            "part": opened.part(),
            "notes": list(said),
        },
        "reproduce": context.reproduce(),
    }
    return RepeatRun({**content, "finding": finding(content)}, table)


def _of_one(promise: Promise) -> Promise:
    """Return what a promise says of one threshold."""
    return Promise(**{name: getattr(promise, name) for name in OF_ONE_THRESHOLD})


def _decider(asked: Judging, replies: Replies, edge: float, promise: Promise) -> Decide:
    """Return what decides about replies: the guardrail's rule, or a threshold."""
    if (frozen := asked.guardrail) is None:
        about = {"threshold": edge, "tolerance": replies.tolerance}
        return partial(flags_under, promise.undefined, **about)
    with frozen.rules():
        answers = map(asked.answers.__getitem__, hex_digests(replies.digests))
        names = list(map(frozen.group_of, answers))
    return partial(frozen.rule.flags, groups=names, tolerance=replies.tolerance)


def _read_anchors(path: str | PathLike[str] | None, detector: Score) -> Mapping[str, Any] | None:
    """Return what the file of anchors holds; None where there is none yet.

    Raises
    ------
    DataError
        If it is no such file.
    InputError
        If its replies are those of another detector.
    """
    if path is None or not Path(path).exists():
        return None
    content = run.read_json(Path(path), "repeat")
    if content.get("schema") != ANCHORS:
        raise DataError(say("refused.no_anchors", path=path))
    if content["score"] != run.score_config(detector):
        raise InputError(say("refused.other_anchors", path=path))
    return content


def _write_anchors(
    path: Path, replies: Replies, score: Mapping[str, Any], pinned: Mapping[str, Any]
) -> None:
    """Write what was said of each answer, by its digest; no text."""
    content = {
        "schema": ANCHORS,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "score": score,
        "pinned": pinned,
        "replies": dict(zip(hex_digests(replies.digests), plain(replies.values), strict=True)),
    }
    write_atomically(path, json_parts(content))


def _compared(
    anchors: Mapping[str, Any], replies: Replies, decide: Decide | None
) -> dict[str, Any]:
    """Return how the replies of before compare with these."""
    rows = [anchors["replies"][key] for key in hex_digests(replies.digests)]
    both = np.concatenate([np.array(rows, dtype=np.float64), replies.values], axis=1)
    k, ranked = len(rows[0]), ranked_replies(both)
    parts = both if decide is None else decided(both, decide)
    differ = differing_replies(parts, replies.tolerance if decide is None else 0.0)
    now = both.shape[1] - k
    within = differ[:, :k, :k].sum() + differ[:, k:, k:].sum()
    return {
        "created": anchors["created"],
        "n": len(rows),
        "n_missing": len(anchors["replies"]) - len(rows),
        "across": float(differ[:, :k, k:].mean()),
        "within": float(within / (len(rows) * (k * (k - 1) + now * (now - 1)))),
        "means": [float(ranked[:, :k].mean()), float(ranked[:, k:].mean())],
        "p_value": changed_replies(ranked, k),
    }
