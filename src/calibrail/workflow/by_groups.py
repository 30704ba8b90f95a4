"""In which groups is an answer to whom a promise is made by columns of the data?"""

from typing import Final, NamedTuple

import numpy as np

from calibrail.conformal.group_keys import (
    LENGTH,
    THIRDS,
    columns_of_groups,
    group_key,
    reads_length,
)
from calibrail.conformal.validation import Floats
from calibrail.data.columns import CHARACTERS
from calibrail.data.splits import CALIBRATION, FIT
from calibrail.errors import DataError
from calibrail.settings import Promise, SplitOptions
from calibrail.settings.option import option_of
from calibrail.workflow.scored import Scored

#: Fewest answers whose lengths are cut into thirds.
_LEAST: Final = 30


class Groups(NamedTuple):
    """The groups of answers.

    Attributes
    ----------
    names : list of str, or None
        One an answer; where several columns name groups, all of them joined. None without groups.
    cuts : tuple of float, or None
        Above how many characters the second and the last third of the lengths begin.
    """

    names: list[str] | None
    cuts: tuple[float, ...] | None


def columns_kept(promise: Promise) -> tuple[str, ...]:
    """Return the columns that must be kept to know the groups."""
    by = columns_of_groups(promise.by)
    return (*by, CHARACTERS) if reads_length(promise.by) else by


def groups_of(scored: Scored, promise: Promise) -> Groups:
    """Return the groups of all answers.

    Raises
    ------
    DataError
        If thirds of lengths are asked for and there are no texts, or too few answers to cut by.
    """
    kept = scored.table.kept
    if promise.by is None:
        return Groups(None, None)
    columns = columns_kept(promise)
    characters = np.zeros(len(scored.table))
    cuts = None
    if CHARACTERS in columns:
        characters = np.array([float(cell or 0) for cell in kept[CHARACTERS]])
        cuts = _thirds(scored, characters)
    rows = zip(*(kept[name] for name in columns), strict=True)
    return Groups(
        [
            group_key(promise.by, dict(zip(columns, cells, strict=True)), length, cuts)
            for cells, length in zip(rows, characters.tolist(), strict=True)
        ],
        cuts,
    )


def _thirds(scored: Scored, characters: Floats) -> tuple[float, ...]:
    """Return where thirds of the lengths end, by answers that no threshold comes from.

    Those are the fit part, or, without one, the faithful answers of the calibration part whose
    group holds no hallucinated one there. So the groups do not depend on the hallucinated answers,
    and the promise to them is exact.
    """
    if not characters.any():
        raise DataError(
            f"{LENGTH} stands for thirds of the answers' lengths, and no answer has a text; give "
            "the answers, or name other columns"
        )
    fit = scored.codes == FIT
    rows = fit
    if not fit.any():
        labels, calibrating = scored.table.labels, scored.codes == CALIBRATION
        wrong = scored.groups[calibrating & (labels == 1)]
        rows = calibrating & (labels == 0) & ~np.isin(scored.groups, wrong)
    if (n := int(rows.sum())) < _LEAST:
        raise DataError(
            f"{LENGTH} needs at least {_LEAST} answers that set no threshold, to cut their lengths "
            f"into thirds; there are {n}; set some apart with "
            f"{option_of(SplitOptions, 'fit_share', 0.2)}"
        )
    shares = np.arange(1, len(THIRDS)) / len(THIRDS)
    return tuple(np.quantile(characters[rows], shares, method="inverted_cdf").tolist())
