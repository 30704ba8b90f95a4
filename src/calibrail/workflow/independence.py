"""Which answers are independent, so that thresholds and verdicts may rest on them?"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.copies import first_sides
from calibrail.data.ids import n_repeated
from calibrail.errors import InputError
from calibrail.evaluation import Sample
from calibrail.evaluation.sample import CALIBRATION, TEST
from calibrail.scores.table import ScoreTable
from calibrail.settings import Promise, ReadOptions, Requirement
from calibrail.settings.option import option_of
from calibrail.workflow.lot import lots
from calibrail.workflow.scored import Scored


def independent(
    scored: Scored,
    promise: Promise,
    requirement: Requirement,
    names: Sequence[str] | None = None,
) -> tuple[tuple[Sample, ...], Promise]:
    """Return every detector's sample in which independent answers count, and what is promised.

    Of answers that are copies of one another one of each class counts (with risks, one), on the
    first side that they are on. Where groups hold several answers of a class, these are not
    independent. Then one answer of each group and class counts on the test part and among the
    faithful calibration answers, and the threshold counts each group of the hallucinated ones once.
    Thresholds by a column take one answer of each group, class and value, those by several columns,
    which come of all answers at once, one of each group and class; risks, which are about
    answers of both classes together, one answer of each group. Which answer it is, a hash of its
    content decides.

    Parameters
    ----------
    scored : Scored
        Scores, split and groups.
    promise, requirement : Promise and Requirement
        What was asked for. ``assume_independent`` lets every answer count.
    names : sequence of str, length n, optional
        The values of the promise's ``by``.

    Returns
    -------
    (tuple of Sample, Promise)
        One sample a detector, on the same answers; the promise with ``clustered`` as it is kept.

    Raises
    ------
    InputError
        If ``clustered`` was asked for and no answer has a group.
    """
    table = scored.table
    samples = tuple(scored.sample(index) for index in range(len(scored.detectors)))
    if promise.clustered and table.groups.null_count == len(table):
        raise InputError(
            "clustered needs groups, and no answer has one; name their column "
            f"({option_of(ReadOptions, 'group_column')})"
        )
    first, paper = samples[0], promise.guarantee == "paper"
    if promise.unit == "sentence":
        # What is kept of answers is measured in an order that is not that of their rows.
        drawn = lots(table.digests, first.values, first.labels, first.tolerance)
        samples = tuple(replace(sample, lot=drawn) for sample in samples)
    if requirement.assume_independent:
        return tuple(replace(sample, independent=True) for sample in samples), promise
    both = bool(requirement.risks)
    alike = table.copies is not None and bool((table.copies >= 0).any())
    groups = first.groups
    if not alike and (groups is None or not n_repeated(groups)):
        return samples, promise
    drawn = lots(table.digests, first.values, first.labels, first.tolerance)
    if alike:
        samples = tuple(_each_once(sample, table, drawn, both=both) for sample in samples)
        first = samples[0]
    used = first.rows(CALIBRATION) | first.rows(TEST)
    # Risks are about answers of both classes, so that one of each in a group are two already.
    pairs = both and groups is not None and len(np.unique(groups[used])) < np.sum(used)
    if not (pairs or first.n_sharing(used)):
        return samples, promise
    hallucinated = first.rows(CALIBRATION, 1)
    rows = first.rows(TEST) | first.rows(CALIBRATION, 0)
    shared: list[NDArray[Any]] = [first.labels]
    if requirement.risks:
        rows, shared = used, []
    elif names is not None:
        rows = rows | hallucinated
        if not isinstance(promise.by, tuple):
            shared = [first.labels, np.unique(names, return_inverse=True)[1]]
    thinned = tuple(sample.thinned(rows, drawn, *shared) for sample in samples)
    return thinned, replace(promise, clustered=not paper)


def _each_once(
    sample: Sample, table: ScoreTable, drawn: NDArray[np.uint64], *, both: bool
) -> Sample:
    """Return the sample in which of copies one of each class counts, or one of both classes."""
    assert table.copies is not None
    # A user's own split may put copies on two sides: what set a threshold cannot test it.
    again = first_sides(table.copies, sample.split) != sample.split
    first = sample.aside(again)
    alike = replace(first, groups=table.copies)
    rows = alike.rows(CALIBRATION) | alike.rows(TEST)
    once = alike.thinned(rows, drawn, *([] if both else [sample.labels]))
    return replace(once, groups=sample.groups)
