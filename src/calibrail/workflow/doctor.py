"""What is in this file, what does it support, and what is wrong with it?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from calibrail.data.diagnosis import Diagnosis, ScoreSupport, Support
from calibrail.data.duplicates import CrossSplitDuplicates, cross_split_duplicates
from calibrail.data.example import TEXT_FIELDS
from calibrail.data.findings import findings
from calibrail.data.profile import (
    Survey,
    Surveyor,
    auroc,
    group_sizes,
    median_and_p95,
    numeric_columns,
    repeats,
    text_lengths,
)
from calibrail.data.reader import Reading
from calibrail.data.reading import read
from calibrail.data.splits import CALIBRATION, split

#: Guarantees that are looked up, each at every one of these tolerated miss rates.
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)
GUARANTEES: Final = ("marginal", "pac")
DELTA: Final = 0.1

_GROUNDED: Final = ("contexts", "response")
_SCORES: Final[Mapping[str, tuple[str, ...]]] = {
    "sgi": TEXT_FIELDS,
    "rad": _GROUNDED,
    "tfg": _GROUNDED,
    "novelty": _GROUNDED,
    "novel_count": _GROUNDED,
    "rouge_l": _GROUNDED,
    "numbers": _GROUNDED,
    "entities": _GROUNDED,
    "length": ("response",),
}


def diagnose(
    source: str | Path,
    *,
    format: str | None = None,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    id_column: str | None = None,
    quarantine: str | Path | None = None,
    options: Mapping[str, object] | None = None,
) -> Diagnosis:
    """Read a whole source and describe it.

    A row needs a response where the source has responses, and a label where it has a label
    column; whatever else is missing is counted, since some scores do without.

    Parameters
    ----------
    source, format, preset, mapping, label_column, group_column, id_column, quarantine, options
        As in `read`.

    Returns
    -------
    Diagnosis
        Also where no row is usable: then its counts say why.

    Raises
    ------
    DataError
        No such file, its format cannot be guessed, or a named column is not there.
    """

    def opened(require: tuple[str, ...], labelled: bool, keep: tuple[str, ...]) -> Reading:
        return read(
            source,
            format=format,
            preset=preset,
            mapping=mapping,
            label_column=label_column,
            group_column=group_column,
            id_column=id_column,
            quarantine=quarantine,
            options=options,
            require=require,
            labelled=labelled,
            keep=keep,
            allow_none=True,
        )

    first = opened((), False, ())
    present = first.columns.present
    used = {first.columns.by_field[field] for field in present}
    keep = tuple(name for name in first.fields if name not in used)
    require = ("response",) if "response" in present else ()
    reading = opened(require, "label" in present, keep)
    surveyor = Surveyor(keep)
    for example in reading:
        surveyor.add(example)
    return _describe(reading, surveyor.finish())


def _describe(reading: Reading, survey: Survey) -> Diagnosis:
    repeated, contradictory = repeats(survey)
    response_chars = survey.chars[:, TEXT_FIELDS.index("response")]
    spoken = np.where(response_chars > 0, response_chars, np.nan)
    cross_split, supports = _at_the_default_split(survey)
    median_chunks, p95_chunks = median_and_p95(survey.chunks[survey.chunks > 0])
    columns = reading.columns
    facts = Diagnosis(
        source=reading.source,
        format=reading.format,
        sha256=reading.digest(),
        fields=reading.fields,
        columns={field: columns.by_field[field] for field in sorted(columns.present)},
        rows=reading.n_rows,
        usable=reading.n_examples,
        quarantined=reading.n_quarantined,
        filtered=reading.n_filtered,
        reasons=tuple((*kind, count) for kind, count in reading.reasons.most_common()),
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
        length_auroc=auroc(spoken, survey.labels),
        supports=supports,
        scores=_score_support(survey),
        numeric_columns=numeric_columns(survey),
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
        Support(alpha, guarantee, minimum_n(alpha, guarantee, DELTA), available)
        for guarantee in GUARANTEES
        for alpha in ALPHAS
    )
    if not survey.sketches.exact.any() or len(labelled) < len(survey.labels):
        return None, supports
    ids = survey.ids
    return cross_split_duplicates(survey.sketches, codes, groups, ids=ids), supports


def _score_support(survey: Survey) -> tuple[ScoreSupport, ...]:
    there = survey.chars > 0
    found = []
    for name, requires in _SCORES.items():
        wanted = [TEXT_FIELDS.index(field) for field in requires]
        found.append(ScoreSupport(name, requires, int(there[:, wanted].all(axis=1).sum())))
    return tuple(found)
