"""Cheap score first, judge for the rest."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.formatting import percent
from calibrail.scores.base import JSON, Demand, Pinning, Score, Scores, scored_alone
from calibrail.scores.detector import FIT_SPLIT, Learning, both_classes, is_number, learns
from calibrail.scores.ensemble import Members, demands_of, member_items
from calibrail.scores.registry import build, parse_spec, spell

#: Why an example of the fit split has no value.
LEARNT_FROM: Final = "it is one of those that the hybrid learnt from, and is not judged"

_Floats = NDArray[np.float64]

#: The cheap score where none is named: it needs no model and takes milliseconds.
CHEAP: Final = "novel_stretch"


class Hybrid(Learning, Members):
    """A cheap score decides the clear cases, an expensive one, such as a judge, the rest.

    Below the band the cheap score clears an answer, above the band it condemns it, and in between
    the expensive score decides, which must lie in [0, 1]. The whole is one score with one order:
    what is cleared lies below 0, by its distance from the band; what the expensive score judged
    lies in [0, 1]; what is condemned lies at 1 or above. One calibration covers all of it (the
    hybrid architecture that Sinha, arXiv 2512.15068, appendix B, proposes). Where the cheap score
    is undefined the expensive one decides.

    Parameters
    ----------
    expensive : str
        The score that judges, e.g. ``"judge:model=gpt-4o-mini"``.
    cheap : str
        The score that decides the clear cases, e.g. ``"rad"``.
    low, high : float or None
        The band of the cheap score's values that the expensive one judges, both ends included.
        Without them the band is learnt from the fit split.
    lost : float
        When it is learnt: at most this share of the hallucinated fit examples is cleared, and at
        most this share of the faithful ones condemned, by the cheap score alone.
    """

    expensive: str
    cheap: str = CHEAP
    low: float | None = None
    high: float | None = None
    lost: float = 0.02

    name = "hybrid"
    version = "calibrail-hybrid/1"
    unfitted = (
        "learns from labelled examples which cases are clear before it can score: "
        f"{FIT_SPLIT}, or give low and high"
    )
    arrays = ("band",)
    # Neither is a part of its state.
    stays_here = "one process has to know whom it learnt from, and how many answers it judged"

    def __post_init__(self) -> None:
        specs = {"cheap": self.cheap, "expensive": self.expensive}
        self.members = {part: _member(part, spec) for part, spec in specs.items()}
        low, high, lost = self.low, self.high, self.lost
        if (low is None) != (high is None):
            raise InputError("low and high bound the band together; give both or neither")
        for name, edge in (("low", low), ("high", high)):
            if edge is not None and not is_number(edge):
                raise InputError(f"{name} must be a number; got {edge!r}")
        if low is not None and high is not None:
            if not -np.inf < low <= high < np.inf:
                raise InputError(f"low must not be above high; got low={low!r}, high={high!r}")
            self._state = {"band": np.array([low, high], dtype=np.float64)}
        if not is_number(lost) or not 0.0 <= lost < 0.5:
            raise InputError(f"lost must be a share from 0 to less than 0.5; got {lost!r}")
        self.lost = float(lost)
        #: Answers scored, and those among them that the expensive score judged; they only grow.
        self.n_scored = self.n_judged = 0
        self._learnt_from: frozenset[str] = frozenset()

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value; the members as specifications."""
        return {**super().params, **{part: spell(score) for part, score in self.members.items()}}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the cascade and the members' fingerprints."""
        return {"version": self.version, **self.fingerprints()}

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what the cheap score will look up; the expensive one's cases are not known yet."""
        return demands_of(self.members["cheap"], examples)

    def undecided(self, examples: Sequence[Example], cheap: _Floats | None = None) -> list[int]:
        """Return the positions of the examples that the expensive score has to judge.

        The cheap score's values are computed where they are not given.
        """
        cheap = self._cheap_values(examples) if cheap is None else cheap
        low, high = self.state()["band"]
        lacking = self.lacking(examples)
        inside = np.flatnonzero(~((cheap < low) | (cheap > high))).tolist()
        return [row for row in inside if row not in lacking]

    def eventual_demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return all that scoring will look up, the expensive score's part included."""
        judged = [examples[row] for row in self.undecided(examples)]
        return (*self.demands(examples), *demands_of(self.members["expensive"], judged))

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy with the widest clear regions that lose no more than ``lost``.

        Raises
        ------
        InputError
            If a label is missing or a class is too rare.
        """
        values = self.members["cheap"].score(examples).values
        usable = np.array(~np.isnan(values))
        labels = both_classes(self.name, examples, usable)
        known = values[usable]
        edges = band(known[labels == 1], known[labels == 0], self.lost)
        fitted = self.restore({"band": np.array(edges)})
        # They neither calibrate nor test, so nobody has to be paid for judging them.
        fitted._learnt_from = frozenset(example.id for example in examples)
        return fitted

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy with this band."""
        return super().restore(state)._anew(self.members)

    def pinned(self) -> Score:
        """Return a copy whose members are pinned."""
        other = copy.copy(self)
        members: dict[str, Any] = dict(self.members)
        other.members = {
            part: member.pinned() if isinstance(member, Pinning) else member
            for part, member in members.items()
        }
        return other

    @property
    def companions(self) -> tuple[Score, ...]:
        """The same cascade over what the expensive score shows beside itself at no further call."""
        companions = getattr(self.members["expensive"], "companions", ())
        return tuple(self._anew({**self.members, "expensive": other}) for other in companions)

    def _anew(self, members: dict[str, Score]) -> Self:
        other = copy.copy(self)
        other.members = members
        other.n_scored = other.n_judged = 0
        return other

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know: the band, and how much was judged."""
        if self._state is None or not self.n_scored:
            return ()
        low, high = self._state["band"].tolist()
        cheap, expensive = self.members["cheap"], self.members["expensive"]
        lesson = (
            f"hybrid: {cheap.name} decides below {low:.4g} and above {high:.4g}; "
            f"{expensive.name} judged {self.n_judged:,} of {self.n_scored:,} answers "
            f"({percent(self.n_judged / self.n_scored)})."
        )
        return (lesson, *getattr(expensive, "lessons", ()))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return where each answer stands in the cascade; undefined where its judge is."""
        low, high = self.state()["band"].tolist()
        cheap, expensive = self.members["cheap"], self.members["expensive"]
        reasons = self.lacking(examples)
        self.n_scored += len(examples) - len(reasons)
        decided = self._cheap_values(examples)
        values = np.where(decided < low, decided - low, 1.0 + (decided - high))
        judged = self.undecided(examples, decided)
        verdicts = expensive.score([examples[row] for row in judged])
        known = verdicts.values[~np.isnan(verdicts.values)]
        if not ((known >= 0.0) & (known <= 1.0)).all():
            raise InputError(
                "the expensive score of hybrid must lie in [0, 1], as judge, nli, sec and claims "
                f"do; {expensive.name} gave {known.min():.4g} to {known.max():.4g}"
            )
        values[judged] = verdicts.values
        reasons |= {judged[place]: why for place, why in verdicts.reasons.items()}
        values[list(reasons)] = np.nan
        self.n_judged += len(judged)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        places = {row: place for place, row in enumerate(judged)}
        for row in (row for row in range(len(examples)) if row not in reasons):
            value = None if np.isnan(decided[row]) else float(decided[row])
            said = member_items({expensive.name: verdicts}, places[row]) if row in places else []
            items = [{"score": cheap.name, "value": value}, *said]
            evidence[row] = {"kind": "scores", "items": items}
        return Scores(values, reasons, tuple(evidence))

    def lacking(self, examples: Sequence[Example]) -> dict[int, str]:
        """Return the examples that have no value whatever they hold, and why."""
        learnt_from = (row for row, item in enumerate(examples) if item.id in self._learnt_from)
        return {**super().lacking(examples), **dict.fromkeys(learnt_from, LEARNT_FROM)}

    def _cheap_values(self, examples: Sequence[Example]) -> _Floats:
        """Return the cheap values, those at an edge of the band as each is by itself.

        Rounding depends on the batch, and here it would decide who is judged.
        """
        cheap = self.members["cheap"]
        values = cheap.score(examples).values.copy()
        if cheap.tolerance == 0.0:
            return values
        near = np.abs(values[:, None] - self.state()["band"]).min(axis=1) <= cheap.tolerance
        for row in np.flatnonzero(near).tolist():
            values[row] = scored_alone(cheap, examples[row]).values[0]
        return values


def band(hallucinated: _Floats, faithful: _Floats, lost: float) -> tuple[float, float]:
    """Return the smallest band outside which a score errs on no more than ``lost`` of a class.

    Parameters
    ----------
    hallucinated, faithful : ndarray of float64, shapes (n,) and (m,)
        The cheap score's values, at least one of each; higher = more likely hallucinated.
    lost : float
        Share of the hallucinated that may lie below, and of the faithful that may lie above.

    Returns
    -------
    (float, float)
        Lower and upper end, both belonging to the band. Where the classes are so far apart that no
        value is unclear, both ends are one value between them.

    Examples
    --------
    >>> band(np.array([3.0, 5.0, 8.0, 9.0]), np.array([1.0, 2.0, 4.0, 6.0]), 0.0)
    (3.0, 6.0)
    """
    ascending, descending = np.sort(hallucinated), np.sort(faithful)[::-1]
    low = float(ascending[int(lost * len(ascending))])
    high = float(descending[int(lost * len(descending))])
    if low > high:
        low = high = (low + high) / 2.0
    return low, high


def _member(name: str, text: object) -> Score:
    """Build one member from its specification."""
    if not isinstance(text, str):
        raise InputError(f'{name} must name a score, e.g. {name}="rad"; got {text!r}')
    spec = parse_spec(text)
    if spec.name == Hybrid.name:
        raise InputError(f"{name} cannot be a hybrid itself")
    member = build(spec)
    if learns(member):
        raise InputError(f"{name} cannot be {member.name}, which learns itself")
    return member
