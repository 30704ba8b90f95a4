"""Which of several detectors costs the fewest false alarms at the same coverage?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sources import Source
from calibrail.errors import InputError
from calibrail.evaluation import Comparison, Origin, compare_detectors
from calibrail.report.documents.compare_finding import finding
from calibrail.report.documents.data_notes import data_notes
from calibrail.scores.custom import ScoreLike
from calibrail.scores.registry import DEFAULT_SCORE
from calibrail.settings import Promise, ReadOptions, Requirement, SplitOptions
from calibrail.settings.checks import optional
from calibrail.settings.short import ComparedShort, collect
from calibrail.settings.units import whole_answers
from calibrail.shown import Shown
from calibrail.workflow.alike import settled, settled_report
from calibrail.workflow.beside import beside_of
from calibrail.workflow.context import Context
from calibrail.workflow.independence import independent
from calibrail.workflow.look import Earlier
from calibrail.workflow.looked_at import look_at
from calibrail.workflow.looks import SPLIT, Looks, left, looked_at
from calibrail.workflow.run_folder import cost_dict, write_run
from calibrail.workflow.scored import Scored
from calibrail.workflow.scoring import score_source
from calibrail.workflow.usable import require_usable
from calibrail.workflow.wording import spelled, worded


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
        The split, with the answers that count nowhere set aside.
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

    def save(self, folder: str | Path) -> Path:
        """Write ``compare.json``, ``report.html``, ``figures/``, ``scores.parquet``, ``cost.json``.

        The same scores give the same bytes, except where times that were measured stand: in
        ``cost.json`` and in the page's table of costs.
        """
        from calibrail.report.documents.compare import document

        content, scored = self.to_dict(), self.scored
        page = document(content, self.cost)
        return write_run(folder, {"compare.json": content}, page, scored.table, codes=self.codes)


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
    **short: Unpack[ComparedShort],
) -> ComparisonRun:
    """Calibrate several detectors to the same coverage on the same split, and name a winner.

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
    keywords = dict[str, Any](short)
    beside = beside_of(keywords)
    promise, requirement = collect(promise, requirement, keywords, compare)
    _refuse_unused(promise, requirement)
    context, splitting = (
        optional(context, Context, "context"),
        optional(splitting, SplitOptions, "splitting"),
    )
    history = Looks(looks)
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
    samples, promise = independent(scored, promise, requirement)
    notes = data_notes(scored.data, scored.lessons)
    reproduce = context.reproduce()
    comparison = compare_detectors(
        dict(zip(keys, samples, strict=True)),
        promise,
        requirement,
        {key: Origin(spec, scored.data, reproduce, notes) for key, spec in scored.specs.items()},
        baselines={name: samples[0].with_scores(table.columns[name]) for name in scored.baselines},
        seed=splitting.seed,
    )
    winner = comparison.winner
    assumed, earlier, reports = requirement.assume_independent, dict[str, Earlier](), []
    for name, report in comparison.detectors:
        report = settled_report(report)
        look = replace(look_at(scored, name, promise, assumed=assumed), verdict=report.verdict)
        earlier[name] = history.record(SPLIT, look)
        reports.append((name, worded(looked_at(report, earlier[name]))))
    if winner.certificate is not None and winner.name is not None:
        certificate = settled(winner.certificate, scored.data["n_alike"], assumed=assumed)
        winner = replace(winner, certificate=left(certificate, earlier[winner.name]))
    comparison = replace(comparison, winner=winner)
    comparison = spelled(replace(comparison, detectors=tuple(reports)))
    return ComparisonRun(comparison, scored, samples[0].split)


def _refuse_unused(promise: Promise, requirement: Requirement) -> None:
    """Refuse what a comparison would not do, rather than leave it out unsaid."""
    whole_answers("compare", promise, requirement)
    if promise != replace(promise, by=None, min_n=None, beta=None):
        raise InputError(
            "compare sets one threshold a detector for all answers; leave out by, min_n and beta, "
            "and give them to calibrate for the detector you choose"
        )
    if requirement.risks:
        raise InputError(
            "compare asks for one coverage and one limit on false alarms; in place of risks give "
            "min_coverage and max_fpr"
        )
