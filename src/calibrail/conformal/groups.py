"""Which thresholds keep the promise in each group, not only on average over all of them?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.group_keys import group_name
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, calibrate_threshold
from calibrail.conformal.validation import Bools, Floats
from calibrail.errors import InputError
from calibrail.phrases import count
from calibrail.record import Record
from calibrail.settings.promise import Promise

Scope = Literal["small groups", "all groups"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCalibration(Record):
    """One threshold per group, and a shared one for groups too small to have their own.

    Attributes
    ----------
    groups : mapping of str to Calibration
        The groups with a threshold of their own, by name.
    fallback : Calibration
        For every other group, also one never seen (for which nothing is promised).
    scope : {"small groups", "all groups"}
        What the fallback was made from. ``small groups``: the small ones together. ``all groups``:
        there were too few of those, so it comes from all examples. Either way nothing exact is
        promised for the answers that it decides: which groups are small depends on the data, and
        their mix in production may differ.
    small : mapping of str to int
        Hallucinated examples of each group below the minimum.
    min_n : int
        Fewest hallucinated examples for a threshold of a group's own.
    """

    groups: Mapping[str, Calibration]
    fallback: Calibration
    scope: Scope
    small: Mapping[str, int]
    min_n: int

    def of(self, group: str) -> Calibration:
        """Return the calibration that decides for a group, seen or not."""
        return self.groups.get(group, self.fallback)

    def known(self, value: object) -> str:
        """Return the name of a group that was calibrated on, small ones too; empty for others."""
        name = group_name(value)
        return name if name in self.groups or name in self.small else ""

    def deciding(self) -> dict[float, str]:
        """Return every threshold with the name of a group that it decides for."""
        named = {item.threshold: name for name, item in self.groups.items()}
        named.setdefault(self.fallback.threshold, "")
        return named

    @property
    def described(self) -> str:
        """Say in a few words how many groups have a threshold of their own."""
        return count(len(self.groups), "group")

    @property
    def flag_all(self) -> bool:
        """Whether nothing can ever pass."""
        return self.fallback.flag_all and not self.groups

    def thresholds(self, groups: Sequence[str]) -> Floats:
        """Return each answer's threshold, shape (m,)."""
        return np.array([self.of(group).threshold for group in groups], dtype=np.float64)

    def flags(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Bools:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = _paired(values, groups)
        result = np.zeros(len(queries), dtype=bool)
        for calibration, members in self._parts(groups):
            result[members] = calibration.flags(queries[members], tolerance)
        return result

    def p_value(self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0) -> Floats:
        """Return Mondrian p-values: each answer among the hallucinations of its own group."""
        queries = _paired(values, groups)
        result = np.ones(len(queries))
        for calibration, members in self._parts(groups):
            result[members] = calibration.p_value(queries[members], tolerance)
        return result

    def __post_init__(self) -> None:
        of_small = sum(dict(self.small).values())
        of_large = sum(item.n for item in dict(self.groups).values())
        expected = {"small groups": of_small, "all groups": of_small + of_large}
        like = self.fallback
        sound = (
            isinstance(like, Calibration)
            and self.scope in expected
            and like.n == expected[self.scope]
            and (self.scope == "small groups") == (of_small >= self.min_n)
            and self.min_n >= minimum_n(like.alpha, like.guarantee, like.promise.delta)
            and all(item.n >= self.min_n for item in self.groups.values())
            and all(count < self.min_n for count in self.small.values())
            and not self.groups.keys() & self.small.keys()
        )
        if not sound:
            raise InputError("the grouped calibration contradicts itself; calibrate again")

    def _parts(self, groups: Sequence[str]) -> list[tuple[Calibration, NDArray[np.intp]]]:
        return [(self.of(name), rows) for name, rows in _members(groups).items()]


def calibrate_groups(
    scores: ArrayLike, groups: Sequence[str], promise: Promise
) -> GroupedCalibration:
    """Find one threshold per group from hallucinated examples (Mondrian; Vovk et al., 2005).

    The promise then holds within each group that has its own threshold: P(miss | group) <= alpha
    under ``marginal``; under ``pac`` each group's threshold keeps it with probability 1 - delta, so
    all G of them together with at least 1 - G delta. A shared threshold keeps it only on average,
    and may fail in one group while it is too strict in another.

    Parameters
    ----------
    scores : array-like of float, shape (n,)
        Scores of hallucinated calibration examples, higher = more likely hallucinated; NaN where
        undefined.
    groups : sequence of str, length n
        Group of each example: a topic, a source, a model. Known for every future answer too.
    promise : Promise
        As for ``calibrate_threshold``; the fallback alone may flag everything. A ``min_n`` below
        the least that the promise needs is raised to it.

    Raises
    ------
    TooFewExamplesError
        If no group, nor all of them together, has enough examples.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> scores = [*range(30), *range(100, 130), 5]
    >>> grouped = calibrate_groups(scores, ["a"] * 30 + ["b"] * 30 + ["c"], Promise(alpha=0.1))
    >>> {name: item.threshold for name, item in grouped.groups.items()}
    {'a': 2.0, 'b': 102.0}
    >>> grouped.scope, dict(grouped.small), grouped.fallback.threshold
    ('all groups', {'c': 1}, 5.0)
    """
    values = _paired(scores, groups)
    least = minimum_n(promise.alpha, promise.guarantee, promise.delta)
    least = max(least, promise.min_n or 0)
    large, small = {}, {}
    members = _members(groups)
    for name in sorted(members):
        rows = members[name]
        if len(rows) >= least:
            try:
                large[name] = calibrate_threshold(values[rows], promise)
            except InputError as error:
                raise InputError(f"group {name!r}: {error}") from error
        else:
            small[name] = len(rows)
    rest = np.concatenate([values[members[name]] for name in small]) if small else values[:0]
    enough = len(rest) >= least
    fallback = calibrate_threshold(rest if enough else values, promise)
    return GroupedCalibration(
        large, fallback, "small groups" if enough else "all groups", small, least
    )


def _paired(values: ArrayLike, groups: Sequence[str]) -> Floats:
    array = validation.vector(values, "scores")
    if isinstance(groups, str):
        raise InputError("groups must hold strings, one per score; got one string")
    validation.paired(groups, len(array), "groups")
    return array


def _members(groups: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return the positions of each group's members, ascending."""
    if not all(issubclass(kind, str) for kind in set(map(type, groups))):
        raise InputError("groups must hold strings, one per score")
    numbers: dict[str, int] = {}
    each = (numbers.setdefault(name, len(numbers)) for name in groups)
    codes = np.fromiter(each, np.intp, count=len(groups))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(numbers)))
    return dict(zip(numbers, np.split(order, ends[:-1]), strict=True)) if numbers else {}
