"""Compare()."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sources import Source
from calibrail.errors import InputError
from calibrail.evaluation import Comparison, ReportOrigin, Sample, compare_detectors
from calibrail.evaluation.winner import Candidates
from calibrail.formatting import Shown
from calibrail.options import Promise, ReadOptions, Requirement, SplitOptions, fields, keywords
from calibrail.options.data import ReadKeywords
from calibrail.options.guarantee import Guarantee, Undefined, Unit, whole_answers
from calibrail.pipelines import data_reuse
from calibrail.pipelines.independence import (
    at_worst,
    certified_by_all,
    independent,
    joint_comparison,
    readings,
    settled,
    settled_report,
)
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import cost_dict, write_run
from calibrail.pipelines.scoring import Scored, beside_of, require_usable, score_source
from calibrail.report.documents.calibrate_sections import add_messages
from calibrail.report.documents.compare import finding
from calibrail.report.documents.data import data_notes
from calibrail.report.messages import say, spell_reasons
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import DEFAULT_SCORE


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
    """

    shown_as = "compare"

    comparison: Comparison
    scored: Scored
    codes: NDArray[np.int8]

    @property
    def data(self) -> Mapping[str, Any]:
        """Source, digests and counts."""
        return self.scored.data

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``compare.json``."""
        content = self.comparison.to_dict()
        head = {name: content[name] for name in ("schema", "leader")}
        return {**head, "finding": finding(content), **content}

    @property
    def cost(self) -> dict[str, Any]:
        """What each score cost, with the times measured: the content of ``cost.json``."""
        return cost_dict(self.scored.table)

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``compare.json``, ``report.html``, ``figures/``, ``scores.parquet``, ``cost.json``.

        The same scores give the same bytes, except where times that were measured stand: in
        ``cost.json`` and in the page's table of costs.
        """
        from calibrail.report.documents.compare import document

        content, scored = self.to_dict(), self.scored
        page = document(content, self.cost)
        return write_run(
            folder, {"compare.json": content}, page, scored.table, codes=self.codes, force=force
        )


@keywords.options_from_keywords(promise=Promise, requirement=Requirement, reading=ReadOptions)
def compare(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike] = DEFAULT_SCORE,
    promise: Promise | None = None,
    requirement: Requirement | None = None,
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: Context | None = None,
    looks: str | PathLike[str] | None = None,
    alpha: float = 0.05,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "flag",
    allow_flag_all: bool = False,
    by: str | Sequence[str] | None = None,
    min_n: int | None = None,
    clustered: bool = False,
    beta: float | None = None,
    unit: Unit = "answer",
    max_fpr: float | None = None,
    min_coverage: float | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    risks: Sequence[str] = (),
    min_kept: float | None = None,
    n_looks: int | None = None,
    baselines: bool = True,
    **how: Unpack[ReadKeywords],
) -> ComparisonRun:
    """Calibrate several detectors to the same target on the same split, and name a winner.

    Parameters are those of ``calibrate``, with ``baselines=False`` to do without them; the seed of
    the split also halves the test part and draws every bootstrap. A detector that cannot be
    calibrated keeps its row, with the reason.

    Returns
    -------
    ComparisonRun
        ``to_dict()["detectors"]`` holds one report a detector, fewest false alarms first.

    Raises
    ------
    InputError
        If ``by``, ``min_n``, ``beta`` or ``risks`` is asked for: all are compared by one threshold.
    """
    beside = beside_of(baselines)
    promise = fields.optional(promise, Promise, "promise")
    requirement = fields.optional(requirement, Requirement, "requirement")
    _refuse_unused(promise, requirement)
    context = fields.optional(context, Context, "context")
    splitting = fields.optional(splitting, SplitOptions, "splitting")
    history = data_reuse.DataUseHistory(looks)
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
    look, standing = data_reuse.begin_report(history, scored, keys, promise, requirement)
    promise, requirement = standing.part_of(promise), standing.strict(requirement)
    notes = data_notes(scored.data, scored.lessons)
    reproduce = context.reproduce()
    ways = readings(scored, requirement)
    # Where near copies count at worst tells of one detector, and only what is certified may fall.
    *_, (each, _) = counted = [independent(way, promise, requirement, halved=True) for way in ways]
    each = tuple(replace(sample, near=table.copies) for sample in each)
    halves = None
    if len(ways) > 1:
        # One division for all ways: what one shows, the other may not keep for a winner.
        every = replace(counted[0][0][0], split=scored.codes)
        halves = Candidates.on(every, [], seed=splitting.seed).halves

    def made(samples: Sequence[Sample], kept: Promise) -> Comparison:
        if len(ways) > 1:
            samples = [
                replace(sample, otherwise=other)
                for sample, other in zip(samples, each, strict=True)
            ]
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
        )

    samples, promise = counted[0]
    comparisons, worst = [made(*way) for way in counted], {}
    for name in certified_by_all(comparisons) if len(ways) > 1 else ():
        sample = each[keys.index(name)]
        flagged = sample.calibrated(promise).flags(sample.values, sample.tolerance)
        way = at_worst(scored, flagged)
        worst[name] = made(*independent(way, promise, requirement, halved=True))
    comparison = joint_comparison(comparisons, worst)
    winner = comparison.winner
    assumed, reports = requirement.assume_independent, []
    for name, report in comparison.detectors:
        report = data_reuse.report_after_reuse(settled_report(report), standing)
        reports.append((name, add_messages(report)))
    if winner.certificate is not None and winner.name is not None:
        certificate = settled(winner.certificate, scored.data["n_alike"], assumed=assumed)
        winner = replace(
            winner,
            certificate=data_reuse.certificate_after_reuse(certificate, standing),
        )
    history.conclude(data_reuse.SPLIT, look, reports[0][1].verdict if reports else None)
    comparison = replace(comparison, winner=winner)
    comparison = spell_reasons(replace(comparison, detectors=tuple(reports)))
    everyone = Candidates.on(samples[0], [], seed=splitting.seed, drawn=halves)
    return ComparisonRun(comparison, scored, everyone.without_confirming().split)


def _refuse_unused(promise: Promise, requirement: Requirement) -> None:
    """Refuse what a comparison would not do, rather than leave it out unsaid."""
    whole_answers("compare", promise, requirement)
    if promise != replace(promise, by=None, min_n=None, beta=None):
        raise InputError(say("refused.compare_one_threshold"))
    if requirement.risks:
        raise InputError(say("refused.compare_without_risks"))
