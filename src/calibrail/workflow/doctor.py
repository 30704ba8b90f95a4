"""What is in this file, what does it support, and what is wrong with it?"""

from dataclasses import replace
from typing import Any, Final, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.diagnosis import Diagnosis, NumericColumn, ScoreSupport, Support
from calibrail.data.duplicates import CrossSplitDuplicates, cross_split_duplicates
from calibrail.data.example import TEXT_FIELDS
from calibrail.data.findings import findings
from calibrail.data.profile import Survey, group_sizes, median_and_p95, repeats, text_lengths
from calibrail.data.reading import read
from calibrail.data.sources import Source, reusable
from calibrail.data.splits import CALIBRATION, split
from calibrail.evaluation.stats.auroc import auroc
from calibrail.scores.registry import build, parse_specs
from calibrail.settings import ReadOptions, ReadShort

#: Guarantees that are looked up, each at every one of these tolerated miss rates.
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)
GUARANTEES: Final = ("marginal", "pac")
DELTA: Final = 0.1

# What can be computed from texts without a choice to make.
_SCORES: Final = "rouge_l,novelty,novel_count,sgi,rad,tfg,numbers,entities,length"


def diagnose(
    source: Source, reading: ReadOptions | None = None, **fields: Unpack[ReadShort]
) -> Diagnosis:
    """Read a whole source and describe it.

    A row needs a response where the source has responses, and a label where it has a label
    column; whatever else is missing is counted, since some scores do without.

    Parameters
    ----------
    source, reading, **fields
        As in `read`: how to read it, as an object or field by field.

    Returns
    -------
    Diagnosis
        Also where no row is usable: then its counts say why.

    Raises
    ------
    DataError
        No such file, its format cannot be guessed, or a named column is not there.
    """
    how = replace(reading or ReadOptions(), **cast(Any, fields))
    source = reusable(source)
    first = read(source, how, require=(), labelled=False, allow_none=True)
    present = first.columns.present
    used = {first.columns.by_field[field] for field in present} | {*first.columns.label_columns}
    keep = tuple(name for name in first.fields if name not in used)
    require = ("response",) if "response" in present else ()
    opened = read(
        source, how, keep=keep, require=require, labelled="label" in present, allow_none=True
    )
    survey = Survey(opened, keep)
    repeated, contradictory = repeats(survey)
    response_chars = survey.chars[:, TEXT_FIELDS.index("response")]
    cross_split, supports = _at_the_default_split(survey)
    median_chunks, p95_chunks = median_and_p95(survey.chunks[survey.chunks > 0])
    facts = Diagnosis(
        source=opened.source,
        format=opened.format,
        sha256=opened.digest(),
        fields=opened.fields,
        columns={field: opened.columns.by_field[field] for field in sorted(present)},
        rows=opened.n_rows,
        usable=opened.n_examples,
        quarantined=opened.n_quarantined,
        filtered=opened.n_filtered,
        reasons=tuple((*kind, count) for kind, count in opened.reasons.most_common()),
        n_faithful=int(np.count_nonzero(survey.labels == 0)),
        n_hallucinated=int(np.count_nonzero(survey.labels == 1)),
        n_unlabelled=int(np.count_nonzero(survey.labels < 0)),
        groups=group_sizes(survey),
        lengths=text_lengths(survey),
        median_chunks=median_chunks,
        p95_chunks=p95_chunks,
        repeated=repeated,
        contradictory=contradictory,
        cross_split=cross_split,
        length_auroc=_area(np.where(response_chars, response_chars, np.nan), survey.labels),
        supports=supports,
        scores=_score_support(survey),
        numeric_columns=_numeric_columns(survey),
        empty_columns=survey.empty_columns,
        warnings=(),
    )
    return findings(facts)


def _at_the_default_split(
    survey: Survey,
) -> tuple[CrossSplitDuplicates | None, tuple[Support, ...]]:
    """Return near-duplicates across the default split, and the guarantees that it allows."""
    from calibrail.conformal import minimum_n

    labelled = np.flatnonzero(survey.labels >= 0)
    if not labelled.size:
        return None, ()
    groups = [survey.groups[i] for i in labelled.tolist()]
    labels = survey.labels[labelled]
    codes = split(labels, groups)
    available = int(np.count_nonzero((codes == CALIBRATION) & (labels == 1)))
    supports = tuple(
        Support(alpha, guarantee, needed, available, available >= needed)
        for guarantee in GUARANTEES
        for alpha in ALPHAS
        for needed in (minimum_n(alpha, guarantee, DELTA),)
    )
    if not survey.sketches.exact.any() or len(labelled) < len(survey.labels):
        return None, supports
    ids = survey.ids
    return cross_split_duplicates(survey.sketches, codes, groups, ids=ids), supports


def _score_support(survey: Survey) -> tuple[ScoreSupport, ...]:
    there = survey.chars > 0
    supports = []
    for score in map(build, parse_specs(_SCORES)):
        has_all = there[:, [TEXT_FIELDS.index(field) for field in score.requires]].all(axis=1)
        supports.append(ScoreSupport(score.name, tuple(score.requires), int(has_all.sum())))
    return tuple(supports)


def _numeric_columns(survey: Survey) -> tuple[NumericColumn, ...]:
    """Return the columns that hold numbers, with their AUROC against the label."""
    columns = []
    for name, values in survey.columns.items():
        known = values[~np.isnan(values)]
        counts = len(known), len(values) - len(known), len(np.unique(known))
        columns.append(NumericColumn(name, *counts, _area(values, survey.labels)))
    return tuple(columns)


def _area(values: NDArray[np.float64], labels: NDArray[np.int8]) -> float | None:
    """Return the AUROC of the examples that have a value and a label; None without both classes."""
    there = ~np.isnan(values)
    return auroc(values[there & (labels == 1)], values[there & (labels == 0)]).estimate
