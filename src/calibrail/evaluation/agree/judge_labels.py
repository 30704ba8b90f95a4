"""What do answers hold that a judge has labelled, and people a few of them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import fisher_exact

from calibrail.errors import InputError

#: Index of "no label" in ``LabelCounts.cells``; 0 is faithful and 1 hallucinated.
NONE: Final = 2

#: A difference between rows with and without a human label is reported below this p-value. A
#: random sample gives a false alarm in at most 1 of 100 files, over both tests together.
SAMPLE_LEVEL: Final = 0.01

#: The same for errors of the judge that differ between flagged and other answers.
ALIKE_LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class LabelCounts:
    """How many rows have which labels: all that the estimates need to know.

    Parameters
    ----------
    cells : ndarray of int64, shape (3, 3, 2)
        Rows by human label, judge label (0 faithful, 1 hallucinated, 2 none) and flag (0 passed,
        1 flagged).
    decided : bool
        Whether the flags mean anything. Without, every row counts as passed.

    Raises
    ------
    InputError
        If the shape is another or a count is negative.
    """

    cells: NDArray[np.int64]
    decided: bool = True

    def __post_init__(self) -> None:
        """Check shape and sign, and make the counts read-only."""
        given = np.asarray(self.cells)
        if given.shape != (3, 3, 2) or given.dtype.kind not in "iu":
            raise InputError(
                f"cells must be whole numbers of shape (3, 3, 2); got {given.dtype} of shape "
                f"{given.shape}"
            )
        if (given < 0).any():
            raise InputError(f"cells must not be negative; got {given.min()}")
        if not self.decided and given[..., 1].any():
            raise InputError("cells must hold no flagged row where decided is False")
        cells = given.astype(np.int64)
        cells.setflags(write=False)
        object.__setattr__(self, "cells", cells)

    @property
    def n(self) -> int:
        """Rows with a label of either kind."""
        return int(self.cells.sum() - self.cells[NONE, NONE].sum())

    @property
    def n_human(self) -> int:
        """Rows with a human label."""
        return int(self.cells[:NONE].sum())

    @property
    def n_judge(self) -> int:
        """Rows with a judge label."""
        return int(self.cells[:, :NONE].sum())

    @property
    def n_both(self) -> int:
        """Rows with both."""
        return int(self.both.sum())

    @property
    def both(self) -> NDArray[np.int64]:
        """Rows with both labels by human label, judge label and flag, shape (2, 2, 2)."""
        return self.cells[:NONE, :NONE]

    @property
    def judge_alone(self) -> NDArray[np.int64]:
        """Rows with a judge label alone, by judge label and flag, shape (2, 2)."""
        return self.cells[NONE, :NONE]

    def turned(self) -> LabelCounts:
        """Return the same rows with hallucinated and faithful exchanged."""
        order = [1, 0, NONE]
        return LabelCounts(self.cells[order][:, order], self.decided)

    def to_dict(self) -> dict[str, int]:
        """Return the numbers of rows by who labelled them."""
        return {
            "n": self.n,
            "n_human": self.n_human,
            "n_judge": self.n_judge,
            "n_both": self.n_both,
            "n_human_alone": self.n_human - self.n_both,
            "n_judge_alone": self.n_judge - self.n_both,
        }


def count_labels(
    human: ArrayLike, judge: ArrayLike, flagged: ArrayLike | None = None
) -> LabelCounts:
    """Count rows by human label, judge label and flag.

    Parameters
    ----------
    human, judge : array_like of integers, shape (n,)
        1 = hallucinated, 0 = faithful, -1 = no label.
    flagged : array_like of bool, shape (n,), optional
        Decisions.

    Raises
    ------
    InputError
        If a value is another, or the lengths differ.

    Examples
    --------
    >>> counts = count_labels([1, 0, -1, -1], [1, 1, 0, 1], [True, False, False, True])
    >>> counts.n_human, counts.n_judge, counts.judge_alone.tolist()
    (2, 4, [[1, 0], [0, 1]])
    """
    labels = [_labels(human, "human"), _labels(judge, "judge")]
    flags = np.zeros(len(labels[0]), np.int64)
    if flagged is not None:
        flags = np.asarray(flagged)
        if flags.ndim != 1 or not np.isin(flags, (0, 1)).all():
            raise InputError("flagged must hold true and false, of shape (n,)")
        flags = flags.astype(np.int64)
    if not len(labels[0]) == len(labels[1]) == len(flags):
        raise InputError(
            f"human, judge and flagged must have one length; got {len(labels[0])}, "
            f"{len(labels[1])} and {len(flags)}"
        )
    cells = np.zeros((3, 3, 2), np.int64)
    np.add.at(cells, (labels[0], labels[1], flags), 1)
    return LabelCounts(cells, flagged is not None)


@dataclass(frozen=True, slots=True)
class ShareTest:
    """Whether a share differs between two kinds of rows, by Fisher's exact test.

    Attributes
    ----------
    share : str
        The share of what.
    first, second : str
        The two kinds of rows.
    first_count, first_n, second_count, second_n : int
        Rows with the property, and rows of the kind.
    p_value : float or None
        Two-sided; None where one kind has no row.
    level : float
        Below it the shares are said to differ.
    reason : str or None
        Why there is no p-value.
    """

    share: str
    first: str
    second: str
    first_count: int
    first_n: int
    second_count: int
    second_n: int
    p_value: float | None
    level: float
    reason: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the difference is more than chance explains. False is no proof of likeness."""
        return self.p_value is not None and self.p_value < self.level

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {
            "share": self.share,
            self.first: {"count": self.first_count, "n": self.first_n},
            self.second: {"count": self.second_count, "n": self.second_n},
            "p_value": self.p_value,
            "level": self.level,
            "differs": self.differs,
            "reason": self.reason,
        }


def sample_tests(counts: LabelCounts) -> tuple[ShareTest, ...]:
    """Test whether the rows with a human label look like a random sample of the judged rows.

    The judge's labels and the flags are known on both sides, so their shares can be compared
    (Fisher, 1922). Rows drawn at random pass; that they pass does not prove that they were.

    Returns
    -------
    tuple of ShareTest
        The share that the judge calls hallucinated, and with decisions the share flagged.
    """
    labelled, others = counts.both.sum(axis=0), counts.judge_alone
    views = [("called hallucinated by the judge", labelled.sum(axis=1), others.sum(axis=1))]
    if counts.decided:
        views.append(("flagged", labelled.sum(axis=0), others.sum(axis=0)))
    level = SAMPLE_LEVEL / len(views)
    return tuple(
        _share_test(share, ("human_labelled", "others"), (first, second), level)
        for share, first, second in views
    )


def alike_tests(counts: LabelCounts) -> tuple[ShareTest, ...]:
    """Test whether the judge errs alike on flagged and on other answers, as Rogan-Gladen assumes.

    Among answers of one class, the judge's label must not depend on the flag.

    Returns
    -------
    tuple of ShareTest
        Among hallucinated and among faithful answers (by the human label): the share called
        hallucinated by the judge. Empty without decisions.
    """
    if not counts.decided:
        return ()
    names = ("faithful", "hallucinated")
    return tuple(
        _share_test(
            f"called hallucinated by the judge, of answers that people call {names[label]}",
            ("flagged", "passed"),
            (counts.both[label, :, 1], counts.both[label, :, 0]),
            ALIKE_LEVEL / 2,
        )
        for label in (1, 0)
    )


def _share_test(
    share: str,
    names: tuple[str, str],
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    level: float,
) -> ShareTest:
    """Compare rows counted as (without, with) the property."""
    sizes = [int(part.sum()) for part in rows]
    counts = (int(rows[0][1]), sizes[0], int(rows[1][1]), sizes[1])
    for name, size in zip(names, sizes, strict=True):
        if not size:
            reason = f"no row is {name.replace('_', '-')}"
            if name == "others":
                reason = "no row has a judge label alone"
            return ShareTest(share, *names, *counts, None, level, reason)
    p_value = min(1.0, float(fisher_exact(np.stack(rows)).pvalue))
    return ShareTest(share, *names, *counts, p_value, level)


def _labels(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (-1, 0, 1)).all():
        raise InputError(f"{name} must hold 1 (hallucinated), 0 (faithful) and -1 (no label)")
    return np.where(array == -1, NONE, array).astype(np.int64)
