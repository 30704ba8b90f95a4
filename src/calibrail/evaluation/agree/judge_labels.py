"""What do answers hold that a judge has labelled, and people a few of them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

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
    """

    cells: NDArray[np.int64]
    decided: bool = True

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
        counts = {name: getattr(self, name) for name in ("n", "n_human", "n_judge", "n_both")}
        alone = {f"{name}_alone": counts[name] - self.n_both for name in ("n_human", "n_judge")}
        return counts | alone


@dataclass(frozen=True, slots=True)
class ShareTest:
    """Whether a share differs between two kinds of rows, by Fisher's exact test.

    Attributes
    ----------
    share : str
        Of what: ``called`` hallucinated by the judge, ``flagged``, or, among the answers of one
        class, ``called_of_hallucinated`` and ``called_of_faithful``.
    rows : mapping of str to mapping of str to int
        By kind of row, the ``count`` of those with the property, and ``n``.
    p_value : float or None
        Two-sided; None where one kind has no row.
    level : float
        Below it the shares are said to differ.
    reason : str or None
        The kind without a row, e.g. ``no_flagged``.
    """

    share: str
    rows: Mapping[str, Mapping[str, int]]
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
            **self.rows,
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
    sides = {"human_labelled": counts.both.sum(axis=0), "others": counts.judge_alone}
    shares = ("called", "flagged") if counts.decided else ("called",)
    return tuple(
        _share_test(
            share,
            {name: rows.sum(axis=1 - axis) for name, rows in sides.items()},
            SAMPLE_LEVEL / len(shares),
        )
        for axis, share in enumerate(shares)
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
    return tuple(
        _share_test(
            f"called_of_{name}", {"flagged": rows[:, 1], "passed": rows[:, 0]}, ALIKE_LEVEL / 2
        )
        for name, rows in (("hallucinated", counts.both[1]), ("faithful", counts.both[0]))
    )


def _share_test(share: str, rows: Mapping[str, NDArray[np.int64]], level: float) -> ShareTest:
    """Compare rows counted as (without, with) the property."""
    sizes = {name: {"count": int(part[1]), "n": int(part.sum())} for name, part in rows.items()}
    if empty := [name for name, size in sizes.items() if not size["n"]]:
        return ShareTest(share, sizes, None, level, f"no_{empty[0]}")
    p_value = min(1.0, float(fisher_exact(np.stack(list(rows.values()))).pvalue))
    return ShareTest(share, sizes, p_value, level)
