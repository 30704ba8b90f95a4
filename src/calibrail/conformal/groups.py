"""Which thresholds keep the promise in each group, not only on average over all of them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrail.conformal import validation
from calibrail.conformal.rank import minimum_n
from calibrail.conformal.threshold import Calibration, calibrate
from calibrail.errors import InputError
from calibrail.settings.promise import Guarantee, Undefined

Scope = Literal["small groups", "all groups"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCalibration:
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

    def thresholds(self, groups: Sequence[str]) -> NDArray[np.float64]:
        """Return each answer's threshold, shape (m,)."""
        return np.array([self.of(group).threshold for group in groups], dtype=np.float64)

    def flags(
        self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0
    ) -> NDArray[np.bool_]:
        """Return which responses are not passed; an undefined score (NaN) follows the policy."""
        queries = _paired(values, groups)
        result = np.zeros(len(queries), dtype=bool)
        for calibration, members in self._parts(groups):
            result[members] = calibration.flags(queries[members], tolerance)
        return result

    def p_value(
        self, values: ArrayLike, groups: Sequence[str], tolerance: float = 0.0
    ) -> NDArray[np.float64]:
        """Return Mondrian p-values: each answer among the hallucinations of its own group."""
        queries = _paired(values, groups)
        result = np.ones(len(queries))
        for calibration, members in self._parts(groups):
            result[members] = calibration.p_value(queries[members], tolerance)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return {
            "groups": {name: item.to_dict() for name, item in self.groups.items()},
            "fallback": self.fallback.to_dict(),
            "scope": self.scope,
            "small": dict(self.small),
            "min_n": self.min_n,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> GroupedCalibration:
        """Rebuild it; each group's calibration is checked against its own scores."""
        try:
            own, small = content["groups"], content["small"]
            parts = {name: Calibration.from_dict(item) for name, item in own.items()}
            found = cls(
                parts,
                Calibration.from_dict(content["fallback"]),
                content["scope"],
                {name: validation.whole(count, "small") for name, count in small.items()},
                validation.whole(content["min_n"], "min_n", least=1),
            )
        except KeyError as error:
            raise InputError(f"the grouped calibration lacks the field {error}") from error
        except (AttributeError, TypeError) as error:
            raise InputError(f"the grouped calibration is damaged: {error}") from error
        found._refuse_contradictions()
        return found

    def _refuse_contradictions(self) -> None:
        of_all = sum(item.n for item in self.groups.values()) + sum(self.small.values())
        expected = {"small groups": sum(self.small.values()), "all groups": of_all}
        like = self.fallback
        sound = (
            self.scope in expected
            and like.n == expected[self.scope]
            and (self.scope == "small groups") == (expected["small groups"] >= self.min_n)
            and self.min_n >= minimum_n(like.alpha, like.guarantee, like.delta or 0.1)
            and all(item.n >= self.min_n for item in self.groups.values())
            and all(count < self.min_n for count in self.small.values())
            and not self.groups.keys() & self.small.keys()
        )
        if not sound:
            raise InputError("the grouped calibration contradicts itself; calibrate again")

    def _parts(self, groups: Sequence[str]) -> list[tuple[Calibration, NDArray[np.intp]]]:
        return [(self.of(name), rows) for name, rows in _members(groups).items()]


def calibrate_groups(
    scores: ArrayLike,
    groups: Sequence[str],
    alpha: float,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    undefined: Undefined = "flag",
    min_n: int | None = None,
    allow_flag_all: bool = False,
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
    alpha, guarantee, delta, undefined
        As for ``calibrate``.
    min_n : int, optional
        Fewest examples for a group's own threshold; the least the promise needs when left out. A
        smaller number than that is raised to it.
    allow_flag_all : bool
        Let the fallback flag everything where even all examples are too few.

    Raises
    ------
    TooFewExamplesError
        If no group, nor all of them together, has enough examples.
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> scores = [*range(30), *range(100, 130), 5]
    >>> found = calibrate_groups(scores, ["a"] * 30 + ["b"] * 30 + ["c"], alpha=0.1)
    >>> {name: item.threshold for name, item in found.groups.items()}
    {'a': 2.0, 'b': 102.0}
    >>> found.scope, dict(found.small), found.fallback.threshold
    ('all groups', {'c': 1}, 5.0)
    """
    values = _paired(scores, groups)
    least = minimum_n(alpha, guarantee, delta)
    if min_n is not None:
        least = max(least, validation.whole(min_n, "min_n", least=1))
    found, small = {}, {}
    members = _members(groups)
    for name in sorted(members):
        rows = members[name]
        if len(rows) >= least:
            try:
                found[name] = calibrate(values[rows], alpha, guarantee, delta, undefined)
            except InputError as error:
                raise InputError(f"group {name!r}: {error}") from error
        else:
            small[name] = len(rows)
    rest = np.concatenate([values[members[name]] for name in small]) if small else values[:0]
    enough = len(rest) >= least
    fallback = calibrate(
        rest if enough else values, alpha, guarantee, delta, undefined, allow_flag_all
    )
    return GroupedCalibration(
        found, fallback, "small groups" if enough else "all groups", small, least
    )


def _paired(values: ArrayLike, groups: Sequence[str]) -> NDArray[np.float64]:
    array = validation.vector(values, "scores")
    if isinstance(groups, str):
        raise InputError("groups must hold strings, one per score; got one string")
    if len(array) != len(groups):
        raise InputError(f"groups must have {len(array)} entries, one per score; got {len(groups)}")
    return array


def _members(groups: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Return the positions of each group's members, ascending."""
    numbers: dict[str, int] = {}
    try:
        found = (numbers.setdefault(name, len(numbers)) for name in groups)
        codes = np.fromiter(found, np.intp, count=len(groups))
    except TypeError as error:
        raise InputError("groups must hold strings, one per score") from error
    if not all(isinstance(name, str) for name in numbers):
        raise InputError("groups must hold strings, one per score")
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(numbers)))
    return dict(zip(numbers, np.split(order, ends[:-1]), strict=True)) if numbers else {}
