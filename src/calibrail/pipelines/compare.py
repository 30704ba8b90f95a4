"""Compare()."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import ClassCounts, certify_counts
from calibrail.conformal.threshold_rule import Rule
from calibrail.data import splits
from calibrail.data.sources import Source
from calibrail.errors import InputError
from calibrail.evaluation import Others, ReportOrigin, Sample, evaluate
from calibrail.evaluation.compare import Comparison, compare_detectors
from calibrail.evaluation.evaluate import decided
from calibrail.evaluation.verdict import Reason
from calibrail.evaluation.winner import CHOOSING, CONFIRMING, Candidates
from calibrail.formatting import Shown
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import Promise, ReadOptions, Requirement, SplitOptions, fields, keywords
from calibrail.options.data import ReadKeywords, judge_of
from calibrail.options.guarantee import Guarantee, Undefined, Unit, whole_answers
from calibrail.pipelines import data_reuse, independence, look_overlap
from calibrail.pipelines.fixed_threshold import with_columns, with_unnamed
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import Run, chosen_run, cost_dict, run_of, write_run
from calibrail.pipelines.scoring import Scored, beside_of, require_usable, score_source, settle
from calibrail.report.documents.calibrate_sections import add_messages, possible
from calibrail.report.documents.compare import finding
from calibrail.report.documents.data import data_notes
from calibrail.report.messages import say, spell_reasons
from calibrail.scores.custom import ScoreLike


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonRun(Shown):
    """A comparison with the scores behind it: what ``calibrail compare`` writes.

    Attributes
    ----------
    comparison : Comparison
        Every detector's report, fewest false alarms first.
    scored : Scored
        The table of scores and the split.
    codes : ndarray of int8, shape (n,)
        The split, with the answers that count nowhere set aside; of the test part only the half
        that chooses is ``TEST``, and the other one ``CONFIRMING``.
    candidate : Run or None
        The detector with the fewest false alarms, tested on the half that did not choose it,
        whether it wins or not; None where none can be compared.
    """

    shown_as = "compare"

    comparison: Comparison
    scored: Scored
    codes: NDArray[np.int8]
    candidate: Run | None = None

    def chosen(self, *, best: bool = False) -> Run:
        """Return the winner's run, with the certificate of the half that did not choose it.

        Parameters
        ----------
        best : bool
            Whether the candidate is returned where there is no winner: its certificate holds
            all the same, since that half had no part in choosing it.

        Raises
        ------
        InputError
            If there is no winner, and ``best`` does not say to do without one.
        """
        return chosen_run(self.candidate, best=best)

    def freeze(
        self,
        on_failure: Literal["error", "flag", "review"] = "error",
        score: ScoreLike | None = None,
        *,
        best: bool = False,
        probe_endpoint: bool = False,
        probability: bool = False,
    ) -> Guardrail:
        """Freeze what `chosen` returns; the other parameters are those of ``Run.freeze``."""
        how = {"probe_endpoint": probe_endpoint, "probability": probability}
        return self.chosen(best=best).freeze(on_failure, score, **how)

    @property
    def data(self) -> Mapping[str, Any]:
        """Source, digests and counts."""
        return self.scored.data

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        content = self.comparison.to_dict()
        if self.candidate is not None and content["winner"]["name"] is not None:
            content["winner"]["possible"] = possible(self.candidate.report.to_dict())
        head = {name: content[name] for name in ("schema", "leader")}
        return {**head, "finding": finding(content), **content}

    @property
    def cost(self) -> dict[str, Any]:
        """What each score cost, with the times measured: the content of ``cost.json``."""
        return cost_dict(self.scored.table)

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``compare.json``, ``report.html``, ``figures/``, ``scores.parquet``, ``cost.json``.

        What `chosen` returns is in ``chosen.json``, for ``Run.load`` and ``calibrail export``.
        The same scores give the same bytes, except where times that were measured stand: in
        ``cost.json`` and in the page's table of costs.
        """
        from calibrail.report.documents.compare import document

        content, scored = self.to_dict(), self.scored
        page = document(content, self.cost)
        files = {
            "compare.json": content,
            **({} if self.candidate is None else self.candidate.kept()),
        }
        return write_run(folder, files, page, scored.table, codes=self.codes, force=force)


@keywords.options_from_keywords(promise=Promise, requirement=Requirement, reading=ReadOptions)
def compare(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike] | None = None,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    *,
    score_column: str | Sequence[str] | None = None,
    higher: str | None = None,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: Context | None = None,
    looks: str | PathLike[str] | None = None,
    alpha: float = 0.05,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
    by: str | Sequence[str] | None = None,
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
    baselines: bool = True,
    reference: str | None = None,
    margin: float | None = None,
    **how: Unpack[ReadKeywords],
) -> ComparisonRun:
    """Calibrate several detectors to the same target on the same split, and name a winner.

    Left out, ``scores`` are all of the data's own. Parameters are those of ``calibrate``, with
    ``baselines=False`` to do without them; the seed of the split also halves the test part and
    draws every bootstrap. A detector that cannot be calibrated keeps its row, with the reason. A
    ``margin`` asks of every detector whether its FPR exceeds that of the ``reference``, one of
    them, at the same coverage by so much at most; the intervals hold for all pairs of detectors
    together, whichever is the reference: approximately, by bootstrap, for independent groups.

    Returns
    -------
    ComparisonRun
        ``to_dict()["detectors"]`` holds one report a detector, fewest false alarms first.

    Raises
    ------
    InputError
        If ``by``, ``min_n``, ``beta`` or ``risks`` is asked for: all are compared by one threshold;
        or if one of ``reference`` and ``margin`` is missing.
    """
    beside = beside_of(baselines)
    promise = fields.optional(promise, Promise, "promise")
    requirement = fields.optional(requirement, Requirement, "requirement")
    _refuse_unused(promise, requirement)
    named = promise
    promise, requirement, more = settle(promise, requirement)
    if (reference is None) != (margin is None):
        raise InputError(say("refused.reference_and_margin"))
    against = None if reference is None else (reference, fields.share(margin, "margin"))
    context = fields.optional(context, Context, "context")
    splitting = fields.optional(splitting, SplitOptions, "splitting")
    history = data_reuse.DataUseHistory(looks)
    scores = with_columns(scores, score_column, higher)
    source, scores, said = with_unnamed(source, scores, reading, several=True, unit=promise.unit)
    scored = score_source(
        source,
        scores,
        reading=reading,
        splitting=splitting,
        beside=beside,
        progress=context.progress,
    )
    keys, table = scored.keys, scored.table
    usable = [i for i, key in enumerate(keys) if not np.isnan(table.columns[key]).all()]
    # One that is undefined everywhere keeps its row; where all are, there is nothing to compare.
    for index in usable or [0]:
        require_usable(scored, index)
    look, standing = data_reuse.begin_report(
        history, scored, keys, promise, requirement, given=named
    )
    promise, requirement = standing.part_of(promise), standing.strict(requirement)
    notes = (*said, *data_notes(scored.data, scored.lessons), *more)
    reproduce, ways = context.reproduce(), independence.readings(scored, requirement)
    # Where near copies count at worst, or at best, tells of one detector, on which all decide.
    *_, (each, _) = counted = [
        independence.independent(way, promise, requirement, halved=True) for way in ways
    ]
    once, promise = counted[0]
    each = tuple(replace(sample, once=one) for one, sample in zip(once, each, strict=True))

    def joined(samples: Sequence[Sample]) -> Sequence[Sample]:
        if len(ways) == 1:
            return samples
        pairs = zip(samples, each, strict=True)
        return [replace(sample, otherwise=other) for sample, other in pairs]

    halves = None
    if len(ways) > 1:
        # One division for all ways: what one shows, the other may not keep for a winner.
        every = replace(counted[0][0][0], split=scored.codes)
        halves = Candidates.on(every, [], seed=splitting.seed).halves

    def made(samples: Sequence[Sample], kept: Promise) -> Comparison:
        samples = joined(samples)
        return compare_detectors(
            dict(zip(keys, samples, strict=True)),
            kept,
            requirement,
            {
                key: ReportOrigin(spec, scored.data, reproduce, notes)
                for key, spec in scored.specs.items()
            },
            baselines={
                name: samples[0].with_scores(table.columns[name]) for name in scored.baselines
            },
            seed=splitting.seed,
            halves=halves,
            against=against,
        )

    samples = once
    comparisons, ends = [made(*way) for way in counted], dict[str, independence.Ends]()
    for name in dict(comparisons[0].detectors) if len(ways) > 1 else ():
        one, other = (samples[keys.index(name)] for samples in (once, each))
        assert halves is not None
        ends[name] = _ends(name, one, other, promise, requirement, halves == CONFIRMING)
    comparison = independence.joint_comparison(comparisons, ends)
    winner = comparison.winner
    winner = winner if standing.share else winner.without_winner("looked_before")
    if winner.reference is not None and not standing.share:
        rows = [{**row, "verdict": "looked before"} for row in winner.reference["detectors"]]
        winner = replace(winner, reference={**winner.reference, "detectors": rows})
    assumed, reports = requirement.assume_independent, []
    if (certificate := winner.candidate_certificate) is not None:
        judge = judge_of(scored.data["reading"])
        left = independence.settled(
            certificate, scored.data["n_alike"], assumed=assumed, judge=judge
        )
        left = data_reuse.certificate_after_reuse(left, standing)
        winner = replace(winner, candidate_certificate=left)
    wins = (winner.certificate or {}).get("verdict") == "certified"
    for name, report in comparison.detectors:
        report = independence.settled_report(report)
        alone = wins and name == winner.name
        report = data_reuse.report_after_reuse(report, standing, wins=alone)
        reports.append((name, add_messages(report)))
    history.conclude(data_reuse.SPLIT, look, reports[0][1].verdict if reports else None)
    comparison = replace(comparison, winner=winner)
    comparison = spell_reasons(replace(comparison, detectors=tuple(reports)))
    everyone = Candidates.on(samples[0], [], seed=splitting.seed, drawn=halves)
    candidate = None
    best = comparison.winner.candidate
    # A test part of one group has but the half that chooses.
    if best is not None and (everyone.halves == CONFIRMING).any():
        sample = joined(samples)[keys.index(best)]
        chosen = (everyone.halves if halves is None else halves) == CHOOSING

        def spared(sample: Sample) -> Sample:
            split = np.where(chosen & (sample.split == splits.TEST), splits.CHOOSING, sample.split)
            return replace(sample, split=split.astype(np.int8))

        apart = sample.otherwise and spared(sample.otherwise)
        sample = replace(spared(sample), otherwise=apart)
        candidate = _candidate(scored, comparison, sample, promise, requirement, standing)
    return ComparisonRun(comparison, scored, everyone.without_confirming().split, candidate)


def _ends(
    name: str,
    once: Sample,
    each: Sample,
    promise: Promise,
    requirement: Requirement,
    confirming: NDArray[np.bool_],
) -> independence.Ends:
    """Return a detector's verdict, and that of a candidate, as near copies count at its ends.

    These are at worst and at best. The candidate's is the one of the half that confirms.
    """
    calibration, made = each.calibrated(promise), []
    flagged = calibration.flags(each.values, each.tolerance)
    asked = replace(requirement, min_coverage=requirement.coverage(promise))
    for apart in (flagged != (each.labels == 1), flagged == (each.labels == 1)):
        sample = replace(each.between(once, apart), once=None)
        test = sample.split == splits.TEST
        shown, spared = (
            replace(sample, split=np.where(test & half, splits.CONFIRMING, sample.split))
            for half in (confirming, ~confirming)
        )
        if shown.whole:
            calibration = replace(shown.calibrated(promise), threshold=calibration.threshold)
        verdict = decided(Rule(calibration), shown, promise, requirement, name)
        counts = ClassCounts(0, 0, 0, 0) if spared.whole else spared.one_per_group(flagged)
        made.append((verdict, certify_counts(counts, asked).to_dict()))
    return made


def _candidate(
    scored: Scored,
    comparison: Comparison,
    sample: Sample,
    promise: Promise,
    requirement: Requirement,
    standing: data_reuse.Standing,
) -> Run:
    """Return the run of the candidate, which only the half that confirms tests.

    Its certificate is that of counts there: neither the rank of its threshold nor the calibration
    answers prove anything of the one of several that happened to flag least.
    """
    winner, table, name = comparison.winner, scored.table, comparison.winner.candidate
    assert name is not None and winner.candidate_certificate is not None
    index, specs = scored.keys.index(name), scored.specs
    columns = {key: table.columns[key] for key in (name, *scored.baselines)}
    alone = replace(
        scored, table=replace(table, columns=columns), detectors=(scored.detectors[index],)
    )
    rule, first = Rule(sample.calibrated(promise)), dict(comparison.detectors)[name]
    origin = ReportOrigin(specs[name], scored.data, first.reproduce, first.notes)
    baselines = {key: sample.with_scores(columns[key]) for key in scored.baselines}
    both = () if sample.otherwise is None else (sample, sample.otherwise)
    beside = Others(baselines, ways=both)
    report = evaluate(rule, sample, promise, requirement, origin, others=beside)
    report = add_messages(data_reuse.report_after_reuse(report, standing))
    certificate = winner.candidate_certificate
    code = certificate["reason_code"]
    report = replace(
        report,
        verdict=certificate["verdict"],
        reason=certificate["reason"],
        reason_code=code if code in get_args(Reason) else "bounds",
        certificate=certificate,
    )
    choice = {
        "n_detectors": len(comparison.detectors),
        "n_baselines": len(comparison.baselines),
        "winner": winner.name is not None,
        "confirming": winner.halves["confirming"],
    }
    report = replace(report, notes=(*report.notes, say("compare.chosen", choice)))
    tested = look_overlap.with_reuse_reported(alone, everyone=True, verdict=report.verdict)
    return run_of(alone, report, rule, sample.split, looked_at=tested.to_dict(), choice=choice)


def _refuse_unused(promise: Promise, requirement: Requirement) -> None:
    """Refuse what a comparison would not do, rather than leave it out unsaid."""
    whole_answers("compare", promise, requirement)
    if promise != replace(promise, by=None, min_n=None, beta=None):
        raise InputError(say("refused.compare_one_threshold"))
    if requirement.risks:
        raise InputError(say("refused.compare_without_risks"))
