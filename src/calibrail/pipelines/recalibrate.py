"""The recalibrate command: a new threshold from audited answers."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from calibrail.atomic_files import whole_folder, write_atomically
from calibrail.conformal import Calibration
from calibrail.conformal.argument_checks import Bools
from calibrail.conformal.sequential import audited_calibration
from calibrail.conformal.sequential.audited_calibration import AuditedScores, AuditedVerdict
from calibrail.conformal.threshold_rule import Rule
from calibrail.data.duplicates import sketched
from calibrail.data.example import Example
from calibrail.data.outputs import Output, refuse_foreign, refuse_other
from calibrail.errors import DataError, InputError, error_text, file_errors
from calibrail.formatting import Scale, ShownContent
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, Logs, log_sources, read_on
from calibrail.guardrail.decision_rule import shown_within
from calibrail.guardrail.file import DataRecord, FrozenConfig, Headline, write_file
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.guardrail.signing import SignatureTerms
from calibrail.labelling.folder import POOL_FILE, read_plan
from calibrail.labelling.log_sampling import LabelledSample, seconds
from calibrail.labelling.sampling import Pool
from calibrail.monitoring.promise import is_first_asked, take_rows, wider
from calibrail.options import Promise, RecalibrateOptions, Requirement, fields
from calibrail.options.data import judge_of
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import look_overlap, monitor_inputs, run
from calibrail.report.documents import recalibrate as words
from calibrail.report.messages import say
from calibrail.serialization import json_parts, plain

SCHEMA: Final = "calibrail.recalibration/1"
#: Files of a folder of labels that say what the labels are.
_FILES: Final = ("draws.jsonl", "labels.jsonl")
#: Answers of each kind that the comparison names.
_LISTED: Final = 20


@dataclass(frozen=True, slots=True, repr=False)
class Recalibration(ShownContent):
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

    @property
    def verdict(self) -> str:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.config.headline.verdict

    @property
    def guardrail(self) -> Guardrail:
        """The new guardrail, with its detector built."""
        return Guardrail(self.config)

    def save(
        self,
        path: str | PathLike[str],
        *,
        sign: str | PathLike[str] | None = None,
        force: bool = False,
        terms: SignatureTerms | None = None,
    ) -> Path:
        """Write the guardrail's file, and beside it the comparison as JSON and as a page.

        Parameters
        ----------
        path : path
            Of the new guardrail; ``NAME.recalibration.json`` and ``NAME.html`` stand beside it.
        sign : path, optional
            Private Ed25519 key (PEM): ``PATH.dsse`` then holds the signature.
        force : bool
            Whether a file of another content that stands there is replaced.
        terms : SignatureTerms, optional
            Until when, and from which version of calibrail on, the signature holds.

        Returns
        -------
        Path
            The page.
        """
        file = fields.path(path, "path")
        page, comparison = file.with_suffix(".html"), file.with_suffix(".recalibration.json")
        refuse_other(file, self.config.to_bytes(), force=force)
        beside = Output("", page, kind="page"), Output("", comparison, kind="recalibration")
        refuse_foreign(beside, force=force)
        told = file_errors(f"cannot write {file}", "; name another place")
        with told, whole_folder(file.parent) as made:
            write_atomically(made / comparison.name, json_parts(self.content))
            run.write_page(words.document(self.to_dict()).naming(NEW=file), made / page.name)
            # Where it cannot stand, they do not; that they can is known by now.
            write_file(self.config, file, sign, force=True, terms=terms)
        return page


@options_from_keywords(requirement=Requirement)
def recalibrate(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    labels: str | PathLike[str],
    logs: Logs | None = None,
    requirement: Requirement | None = None,
    options: RecalibrateOptions | None = None,
    *,
    max_false_alarms: float | None = None,
    min_caught: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
) -> Recalibration:
    """Make a new guardrail from answers that people audited: same detector, new threshold.

    The threshold keeps the guarantee ``anytime``: with probability at least 1 - delta none made so,
    whenever and however often, ever misses more than alpha, while answers stay alike and those to
    label are drawn at random. Where draws repeat a question, it is the lower one of two: from all
    draws, and from the first of each question. Nothing is scored again. Answers that have no label
    yet, or of which nobody can tell, count as what speaks against the threshold.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        The one that decided about the answers.
    labels : path
        Folder that ``calibrail label --from-log`` made.
    logs : path or sequence of paths, optional
        Its decision logs: how much of all that they hold either threshold flags.
    requirement : Requirement, optional
        ``max_false_alarms`` and ``min_caught``; what the guardrail was to meet when left out.
    options : RecalibrateOptions, optional
        ``delta``, and since when answers take part.
    max_false_alarms, min_caught : float, optional
        Share of faithful answers that may be flagged, and coverage that is required.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent, risks, min_kept, n_looks
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
    config, _ = run.frozen_config(guardrail)
    require_answers(config, "recalibrate")
    rule = Rule.from_dict(vars(config))
    kinds = {
        "by": rule.groups is not None,
        "beta": rule.upper is not None,
        "risk": rule.chosen is not None,
        "flag_all": rule.calibration.flag_all,
    }
    if why := [name for name, holds in kinds.items() if holds]:
        # More than one promise decides.
        raise InputError(say("refused.many_thresholds", why=why[0]))
    choices = fields.optional(options, RecalibrateOptions, "options")
    asked = fields.optional(requirement, Requirement, "requirement")
    asked.check_unit(config.promise)
    if asked.risks:
        raise InputError("risks are kept by a choice among thresholds; leave them out")
    # What is asked, and where nothing is, what was asked of the guardrail.
    then, usual = config.requirement, asked.confidence == Requirement().confidence
    required = Requirement(
        max_fpr=then.max_fpr if asked.max_fpr is None else asked.max_fpr,
        min_coverage=then.min_coverage if asked.min_coverage is None else asked.min_coverage,
        confidence=then.confidence if usual else asked.confidence,
    )
    folder = fields.path(labels, "labels")
    sample = monitor_inputs.audited_labels(folder, config)
    taken = np.ones(len(sample), np.bool_)
    if choices.since is not None:
        moment = seconds(choices.since)
        taken = np.asarray(sample.time >= (-np.inf if moment is None else moment))
        if not taken.any():
            raise InputError(say("refused.nothing_audited_since", since=choices.since))
    within = shown_within(config.score.tolerance)
    names = ("flagged", "label", "handed_out", "probability", "guess")
    drawn = take_rows(sample, taken)
    first = is_first_asked(drawn)
    # Draws of one question may be right or wrong together, or as good as any others: what is made
    # holds with all of them, and with the first of each question alone, as in a watch.
    answers, *_ = ways = [
        AuditedScores(
            score=part.score - within,
            **{name: getattr(part, name) for name in names},
            drawing=sample.drawing,
            threshold=rule.calibration.threshold,
            tolerance=config.score.tolerance,
            spread=2.0 * within,
        )
        for part in ([drawn] if first.all() else [drawn, take_rows(drawn, first)])
    ]
    alpha = config.promise.alpha
    if config.promise.guarantee == "fixed":
        # Of such a threshold no more is promised than what is required.
        alpha = 1.0 - required.stated_coverage(config.promise)
    frozen, delta = config.promise, cast(Any, choices.delta)
    kept = frozen.of_this_threshold and frozen.delta < 1.0 - required.confidence
    if delta is None and (kept or not required.limits):
        delta = frozen.delta
    promise = Promise(alpha, "anytime", delta, frozen.undefined).settled(required)
    required = required.beside(promise)
    grid = audited_calibration.grid_of(rule.calibration)
    calibrated = [audited_calibration.calibrate_audited(way, promise, grid) for way in ways]
    calibration = min(calibrated, key=lambda made: made.threshold)
    decide = audited_calibration.audited_verdict
    verdict = reduce(_both, [decide(way, calibration, required, grid) for way in ways])
    level = float(required.confidence)
    thresholds = {
        "old": plain(float(rule.calibration.threshold)),
        "new": plain(float(calibration.threshold)),
    }
    scale = Scale.of(config.score.model_dump())
    shown = {name: scale.in_column(value) for name, value in thresholds.items()}
    content = {
        "schema": SCHEMA,
        "old": config.digest,
        "score": {"name": config.score.name, "params": config.score.params},
        "promise": promise.to_dict(),
        "before": config.promise.to_dict(),
        "labels": {
            **_labels(folder, sample, taken, choices.since),
            "n_repeated": int(np.count_nonzero(~first)),
        },
        "threshold": thresholds,
        **({} if scale.column is None else {"column_threshold": shown}),
        "rank": calibration.rank,
        "n": calibration.n,
        "n_open_missed": getattr(calibration, "n_open", 0),
        **verdict.to_dict(),
        "level": level,
        "comparison": _comparison(sample, taken, answers, calibration, verdict, level),
        "log": None if logs is None else _logged(config, answers, calibration, logs),
    }
    limits = ("verdict", "max_fpr", "min_coverage", "confidence")
    made = config.model_copy(
        update={
            # What is not about the threshold stays as it was frozen.
            **Rule(calibration).to_dict(),
            "promise": promise,
            "requirement": required,
            "data": _data_record(config, folder, sample, taken, verdict.verdict),
            # Answers of a log are drawn by day or by guess: they are no random sample of it.
            "traffic": None,
            "headline": Headline(
                reason=words.reason(content),
                coverage=verdict.coverage.to_dict(),
                fpr=verdict.fpr.to_dict(),
                auroc=None,
                warnings=[],
                **{name: getattr(verdict, name) for name in limits},
            ),
            "digest": "",
        }
    )
    # Through the bytes and back, so that what is returned is what a file holds.
    new = FrozenConfig.from_bytes(made.to_bytes())
    new.__dict__["unvouched"] = config.unvouched
    return Recalibration(new, {**content, "new": new.digest})


def _both(one: AuditedVerdict, other: AuditedVerdict) -> AuditedVerdict:
    """Return what two verdicts about one threshold show alike, with bounds as far as either's."""
    most: dict[str, Any] = {
        name: None if None in (ends := [getattr(way, name) for way in (one, other)]) else max(ends)
        for name in ("fpr_at_most", "needed")
    }
    coverage, fpr = wider(one.coverage, other.coverage), wider(one.fpr, other.fpr)
    both = replace(one, coverage=coverage, fpr=fpr, **most)
    if (one.verdict, one.reason) == (other.verdict, other.reason):
        return both
    return replace(both, verdict="inconclusive", reason="fpr_open")


def _labels(
    folder: Path, sample: LabelledSample, taken: Bools, since: str | None
) -> dict[str, Any]:
    """Return how many answers there are of each kind."""
    label, times, unsure = sample.label[taken], sample.time[taken], sample.unsure[taken]
    known = times[~np.isnan(times)]
    return {
        "folder": str(folder),
        "design": sample.drawing.design,
        "since": since,
        "from": float(known.min()) if len(known) else None,
        "to": float(known.max()) if len(known) else None,
        "n_drawn": int(taken.sum()),
        "n_earlier": int((~taken).sum()),
        "n_hallucinated": int(np.sum(label == 1.0)),
        "n_faithful": int(np.sum(label == 0.0)),
        "n_waiting": int(np.sum(sample.handed_out[taken] & np.isnan(label) & ~unsure)),
        "n_unsure": int(np.sum(unsure)),
        "n_disagreements": sample.n_disagreements,
        "problems": list(sample.problems),
    }


def _data_record(
    config: FrozenConfig, folder: Path, sample: LabelledSample, taken: Bools, verdict: str
) -> DataRecord:
    """Return which answers set the new threshold, and that they were looked at."""
    pool, reading = Pool(folder / POOL_FILE), config.data.reading
    pool.refresh()
    if reading is not None and judge_of(reading) is not None:
        # These labels are people's, whoever gave those before.
        reading = {**reading, "settings": {**reading["settings"], "labelled_by": "people"}}
    looked, threshold = look_overlap.TestSetFingerprint(), dict[str, Example]()
    rows = np.flatnonzero(taken & ~np.isnan(sample.label))
    for row in rows.tolist():
        label, score = int(sample.label[row]), float(sample.score[row])
        example = replace(pool[row].example, label=label)
        looked.add(example, None if np.isnan(score) else score)
        if label == 1 or sample.drawing.weighted:
            threshold[example.digest()] = example
    every = sketched(pool[row].example for row in rows.tolist())
    look = replace(looked.look(every, assumed=False), verdict=verdict, reported=True)
    sketches = sketched(threshold[digest] for digest in sorted(threshold))
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
        sketches=sketches.to_text() if sketches.exact.any() else None,
        reading=reading,
        known_by=looked.known_by.counts(),
        looked_at=look.to_dict(),
    )


def _comparison(
    sample: LabelledSample,
    taken: Bools,
    answers: AuditedScores,
    calibration: Calibration,
    verdict: AuditedVerdict,
    level: float,
) -> dict[str, Any]:
    """Return what either threshold does on the same answers, and which of them it changes.

    One threshold is above the other, so that all changes go the same way, and the differences are
    the shares of either class that change.
    """
    ids, scores = sample.id[taken], sample.score[taken]
    old, new = answers.flagged, _decided(answers, calibration.threshold)
    changed = old != new
    rated = audited_calibration.audited_rates
    rates = {
        "old": rated(answers, old, level, answers.drawing.floors),
        "new": (verdict.coverage, verdict.fpr),
        "changed": rated(answers, changed, level, answers.floors()),
    }
    sides = {k: {"coverage": it.to_dict(), "fpr": v.to_dict()} for k, (it, v) in rates.items()}
    listed = {
        name: [
            {"id": ids[row], "score": float(scores[row]), "flagged": bool(new[row])}
            for row in np.flatnonzero(changed & (answers.label == label))[:_LISTED].tolist()
        ]
        for name, label in (("hallucinated", 1.0), ("faithful", 0.0))
    }
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
    tally, own = LogCounts(), monitor_inputs.OwnDecisions(config)
    n = old = new = 0
    for lines in read_on(log_sources(logs), Cursor(), tally):
        if not (own_lines := own.usable(lines, tally)):
            continue
        rows = monitor_inputs.rows_of(own_lines)
        score = rows.score - answers.spread / 2.0
        as_logged = replace(answers, score=score, flagged=rows.flagged)
        n += len(own_lines)
        old += int(np.count_nonzero(rows.flagged))
        new += int(np.count_nonzero(_decided(as_logged, calibration.threshold)))
    if not n:
        raise DataError(monitor_inputs.none_used(tally, config) or error_text("not_of_this_log"))
    return {"n": n, "old": old, "new": new, **tally.to_dict()}
