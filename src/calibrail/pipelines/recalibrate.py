"""The recalibrate command: a new threshold from audited answers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import numpy as np

from calibrail.atomic_files import write_atomically
from calibrail.conformal import Calibration
from calibrail.conformal.rule import Rule
from calibrail.conformal.sequential.importance_weighted import (
    AuditedScores,
    AuditedVerdict,
    audited_rates,
    audited_verdict,
    calibrate_audited,
    grid_of,
    threshold_rates,
)
from calibrail.conformal.validation import Bools
from calibrail.errors import DataError, InputError, file_errors
from calibrail.formatting import Shown
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, log_sources, read_on
from calibrail.guardrail.decision_rule import shown_within
from calibrail.guardrail.file import DataRecord, FrozenConfig, Headline, write_file
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling.folder import POOL_FILE, read_plan
from calibrail.labelling.log_sampling import LabelledSample, seconds
from calibrail.labelling.sampling import Pool
from calibrail.options import Promise, RecalibrateOptions, Requirement, fields
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines.calibration_overlap import KnownBy
from calibrail.pipelines.data_reuse import TestSetFingerprint
from calibrail.pipelines.monitor_inputs import audited_labels, none_used, rows_of, usable
from calibrail.pipelines.run import frozen_config, write_page
from calibrail.report.documents import recalibrate as words
from calibrail.serialization import plain

#: Files of a folder of labels that say what the labels are.
_FILES: Final = ("draws.jsonl", "labels.jsonl")


@dataclass(frozen=True, slots=True, eq=False)
class AuditedPart:
    """The audited answers of a folder, and which of them take part.

    Attributes
    ----------
    folder : Path
        That ``calibrail audit-sample`` made.
    sample : LabelledSample
        Everything drawn, n answers.
    taken : ndarray of bool, shape (n,)
        Which of them take part.
    answers : AuditedScores
        Those.
    since : str or None
        When the first of them may have been logged.
    """

    folder: Path
    sample: LabelledSample
    taken: Bools
    answers: AuditedScores
    since: str | None

    @classmethod
    def read(cls, folder: Path, config: FrozenConfig, since: str | None) -> Self:
        """Read a folder of labels about a guardrail of one threshold.

        Raises
        ------
        DataError
            A file is damaged, or holds another decision than the guardrail's.
        InputError
            The labels are about another guardrail, or no answer takes part.
        """
        sample = audited_labels(folder, config)
        taken = _taken(sample, since)
        names = ("flagged", "label", "handed_out", "probability", "guess")
        within = shown_within(config.score.tolerance)
        answers = AuditedScores(
            score=sample.score[taken] - within,
            **{name: getattr(sample, name)[taken] for name in names},
            drawing=sample.drawing,
            threshold=Rule.from_dict(vars(config)).calibration.threshold,
            tolerance=config.score.tolerance,
            spread=2.0 * within,
        )
        return cls(folder, sample, taken, answers, since)

    def counted(self) -> dict[str, Any]:
        """Return how many answers there are of each kind."""
        sample, taken = self.sample, self.taken
        label, times = sample.label[taken], sample.time[taken]
        waiting = sample.handed_out[taken] & np.isnan(label)
        unsure = sample.unsure[taken]
        known = times[~np.isnan(times)]
        return {
            "folder": str(self.folder),
            "design": sample.drawing.design,
            "since": self.since,
            "from": float(known.min()) if len(known) else None,
            "to": float(known.max()) if len(known) else None,
            "n_drawn": int(taken.sum()),
            "n_earlier": int((~taken).sum()),
            "n_hallucinated": int(np.sum(label == 1.0)),
            "n_faithful": int(np.sum(label == 0.0)),
            "n_waiting": int(np.sum(waiting & ~unsure)),
            "n_unsure": int(np.sum(unsure)),
            "n_disagreements": sample.n_disagreements,
            "problems": list(sample.problems),
        }

    def record(self, config: FrozenConfig, verdict: str) -> DataRecord:
        """Return which answers set the new threshold, and that they were looked at."""
        folder, sample = self.folder, self.sample
        pool = Pool(folder / POOL_FILE)
        pool.refresh()
        known, looked, digests, threshold = KnownBy(), TestSetFingerprint(), [], set()
        rows = np.flatnonzero(self.taken & ~np.isnan(sample.label))
        for row in rows.tolist():
            label, score = int(sample.label[row]), float(sample.score[row])
            example = replace(pool[row].example, label=label)
            known.add(example)
            looked.add(example, None if np.isnan(score) else score)
            digests.append(int(example.digest(), 16))
            if label == 1 or sample.drawing.design == "active":
                threshold.add(example.digest())
        look = replace(looked.look(assumed=False), verdict=verdict, reported=True)
        hasher = hashlib.sha256()
        for name in _FILES:
            with file_errors(f"cannot read {folder / name}"):
                hasher.update((folder / name).read_bytes())
        return DataRecord(
            source=str(folder),
            format="audit",
            sha256=hasher.hexdigest(),
            n_examples=len(rows),
            n_hallucinated=int(np.sum(sample.label[rows] == 1.0)),
            n_quarantined=0,
            seed=read_plan(folder).seed,
            calibration_examples=sorted(threshold),
            reading=config.data.reading,
            known_by=known.counts(np.array(digests, np.uint64)),
            looked_at=look.to_dict(),
        )


def _taken(sample: LabelledSample, since: str | None) -> Bools:
    """Return which answers take part."""
    if since is None:
        return np.ones(len(sample), np.bool_)
    moment = seconds(since)
    taken = sample.time >= (-np.inf if moment is None else moment)
    if not taken.any():
        raise InputError(f"no audited answer was logged since {since}; name an earlier time")
    return np.asarray(taken)


SCHEMA: Final = "calibrail.recalibration/1"
#: Answers of each kind that the comparison names.
_LISTED: Final = 20

Logs: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True, repr=False)
class Recalibration(Shown):
    """A new guardrail that audited answers allow, beside the old one; nothing is replaced by it.

    Attributes
    ----------
    config : FrozenConfig
        The content of the new guardrail's file.
    content : mapping
        Thresholds, verdict, what either guardrail does on the same answers.
    """

    shown_as = "recalibrate"

    config: FrozenConfig
    content: Mapping[str, Any]

    def shown(self) -> tuple[Any, ...]:
        """Return what the page says."""
        return (self.content,)

    @property
    def verdict(self) -> str:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.config.headline.verdict

    @property
    def guardrail(self) -> Guardrail:
        """The new guardrail, with its detector built."""
        return Guardrail(self.config)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as strict JSON can hold it."""
        return dict(self.content)

    def save(self, path: str | PathLike[str], *, sign: str | PathLike[str] | None = None) -> Path:
        """Write the guardrail's file, and beside it the comparison as JSON and as a page.

        Parameters
        ----------
        path : path
            Of the new guardrail; ``NAME.recalibration.json`` and ``NAME.html`` stand beside it.
        sign : path, optional
            Private Ed25519 key (PEM): ``PATH.dsse`` then holds the signature.

        Returns
        -------
        Path
            The page.
        """
        file = fields.path(path, "path")
        page = file.with_suffix(".html")
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        with file_errors(f"cannot write {file}", "; name another place"):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                file.with_suffix(".recalibration.json"), f"{text}\n".encode("utf-8", "replace")
            )
            write_page(words.document(self.to_dict()).naming(NEW=file), page)
            write_file(self.config, file, sign)
        return page


@options_from_keywords(requirement=Requirement)
def recalibrate(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    labels: str | PathLike[str],
    logs: Logs | None = None,
    requirement: Requirement | None = None,
    options: RecalibrateOptions | None = None,
    *,
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
) -> Recalibration:
    """Make a new guardrail from answers that people audited: same detector, new threshold.

    The threshold keeps the guarantee ``anytime``: with probability 1 - delta none that is made so,
    whenever and however often, ever misses more than alpha. Nothing is scored again. Answers that
    have no label yet, or of which nobody can tell, count as what speaks against the threshold.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        The one that decided about the answers.
    labels : path
        Folder that ``calibrail audit-sample`` made.
    logs : path or sequence of paths, optional
        Its decision logs: how much of all that they hold either threshold flags.
    requirement : Requirement, optional
        ``max_fpr`` and ``min_coverage``; what the guardrail was to meet when left out.
    options : RecalibrateOptions, optional
        ``delta``, and since when answers take part.
    max_fpr, min_coverage : float, optional
        Share of faithful answers that may be flagged, and coverage that is required.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept
        Further fields of `Requirement`, by themselves in its place.

    Returns
    -------
    Recalibration
        Its ``save`` writes the new guardrail. Nothing uses it unasked.

    Raises
    ------
    TooFewExamplesError
        The labels show of no threshold that it keeps the promise; says what is missing.
    InputError
        The guardrail has more than one threshold, or the labels are about another one.
    DataError
        A file of the folder is damaged, or the log holds no decision of this guardrail.
    """
    config, _ = frozen_config(guardrail)
    require_answers(config, "recalibrate")
    rule = Rule.from_dict(vars(config))
    _refuse_many(config, rule)
    choices = fields.optional(options, RecalibrateOptions, "options")
    asked = fields.optional(requirement, Requirement, "requirement")
    asked.check_unit(config.promise)
    required = _required(config, asked)
    folder = fields.path(labels, "labels")
    part = AuditedPart.read(folder, config, choices.since)
    answers = part.answers
    delta = config.promise.delta if choices.delta is None else choices.delta
    promise = Promise(config.promise.alpha, "anytime", delta, config.promise.undefined)
    grid = grid_of(rule.calibration)
    calibration = calibrate_audited(answers, promise, grid)
    verdict = audited_verdict(answers, calibration, required, grid)
    content = {
        "schema": SCHEMA,
        "old": config.digest,
        "score": {"name": config.score.name, "params": config.score.params},
        "promise": promise.to_dict(),
        "before": config.promise.to_dict(),
        "labels": part.counted(),
        "threshold": {
            "old": plain(float(rule.calibration.threshold)),
            "new": plain(float(calibration.threshold)),
        },
        "rank": calibration.rank,
        "n": calibration.n,
        "n_open_missed": getattr(calibration, "n_open", 0),
        **verdict.to_dict(),
        "level": float(required.confidence),
        "comparison": _comparison(part, calibration, float(required.confidence)),
        "log": None if logs is None else _logged(config, answers, calibration, logs),
    }
    new = _frozen(config, calibration, promise, required, part, verdict, content)
    return Recalibration(new, {**content, "new": new.digest})


def _refuse_many(config: FrozenConfig, rule: Rule) -> None:
    """Refuse a guardrail that more than one promise decides for."""
    kinds = {
        "groups have thresholds of their own (by)": rule.groups is not None,
        "answers are reviewed between two thresholds (beta)": rule.upper is not None,
        "its threshold was chosen to keep several risks (risk)": rule.chosen is not None,
        "everything is flagged": rule.calibration.flag_all,
    }
    if why := [reason for reason, holds in kinds.items() if holds]:
        raise InputError(
            f"this guardrail is not one threshold with one promise: {why[0]}; calibrate it anew on "
            "labelled answers, e.g. calibrail calibrate AUDIT"
        )


def _required(config: FrozenConfig, asked: Requirement) -> Requirement:
    """Return what is asked, and where nothing is, what was asked of the guardrail."""
    then = config.requirement
    if asked.risks:
        raise InputError("risks are kept by a choice among thresholds; leave them out")
    usual = asked.confidence == Requirement().confidence
    return Requirement(
        max_fpr=then.max_fpr if asked.max_fpr is None else asked.max_fpr,
        min_coverage=then.min_coverage if asked.min_coverage is None else asked.min_coverage,
        confidence=then.confidence if usual else asked.confidence,
    )


def _comparison(part: AuditedPart, calibration: Calibration, level: float) -> dict[str, Any]:
    """Return what either threshold does on the same answers, and which of them it changes.

    One threshold is above the other, so that all changes go the same way, and the differences are
    the shares of either class that change.
    """
    answers = part.answers
    ids, scores = part.sample.id[part.taken], part.sample.score[part.taken]
    old = answers.flagged
    new = _decided(answers, calibration.threshold)
    changed = old != new
    rates = {
        "old": audited_rates(answers, old, level, answers.drawing.floors),
        "new": threshold_rates(answers, calibration.threshold, level),
        "changed": audited_rates(answers, changed, level, answers.floors()),
    }
    sides = {
        name: {"coverage": coverage.to_dict(), "fpr": fpr.to_dict()}
        for name, (coverage, fpr) in rates.items()
    }
    listed = {}
    for name, label in (("hallucinated", 1.0), ("faithful", 0.0)):
        rows = np.flatnonzero(changed & (answers.label == label))
        listed[name] = [
            {"id": ids[row], "score": float(scores[row]), "flagged": bool(new[row])}
            for row in rows[:_LISTED].tolist()
        ]
    direction = "same" if not changed.any() else "more" if bool(new[changed].all()) else "fewer"
    return {**sides, "new_flags": direction, "answers": listed}


def _decided(answers: AuditedScores, threshold: float) -> Bools:
    """Return what a threshold decides about what another one has decided about.

    A lower one flags all that the higher one does, whatever a log leaves open.
    """
    flags = answers.flags(threshold)
    lower = threshold <= answers.threshold
    return np.asarray(flags | answers.flagged if lower else flags & answers.flagged)


def _logged(
    config: FrozenConfig, answers: AuditedScores, calibration: Calibration, logs: Logs
) -> dict[str, Any]:
    """Return how much of a log either threshold flags."""
    cursor, tally = Cursor(), LogCounts()
    n, old, new = 0, 0, 0
    for lines in read_on(log_sources(logs), cursor, tally):
        if not (own_lines := usable(lines, config, tally)):
            continue
        rows = rows_of(own_lines)
        score = rows.score - answers.spread / 2.0
        as_logged = replace(answers, score=score, flagged=rows.flagged)
        n += len(own_lines)
        old += int(np.count_nonzero(rows.flagged))
        new += int(np.count_nonzero(_decided(as_logged, calibration.threshold)))
    if not n:
        raise DataError(
            none_used(tally, config)
            or "the log holds no decision of this guardrail; name the log that the answers were "
            "drawn from"
        )
    return {"n": n, "old": old, "new": new, **tally.to_dict()}


def _frozen(
    config: FrozenConfig,
    calibration: Calibration,
    promise: Promise,
    required: Requirement,
    part: AuditedPart,
    verdict: AuditedVerdict,
    content: Mapping[str, Any],
) -> FrozenConfig:
    """Return the new guardrail: what is not about the threshold stays as it was frozen."""
    headline = Headline(
        verdict=verdict.verdict,
        reason=words.reason(content),
        max_fpr=verdict.max_fpr,
        min_coverage=verdict.min_coverage,
        confidence=verdict.confidence,
        coverage=verdict.coverage.to_dict(),
        fpr=verdict.fpr.to_dict(),
        auroc=None,
        warnings=[],
    )
    made = config.model_copy(
        update={
            **Rule(calibration).to_dict(),
            "promise": promise,
            "requirement": required,
            "data": part.record(config, verdict.verdict),
            "headline": headline,
            "digest": "",
        }
    )
    # Through the bytes and back, so that what is returned is what a file holds.
    return FrozenConfig.from_bytes(made.to_bytes())
