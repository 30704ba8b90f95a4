"""What does a cheap score decide by itself, and what does it leave to an expensive one?"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import (
    JSON,
    Demand,
    Demanding,
    Pinning,
    Score,
    Scores,
    SharedModel,
    missing,
)
from calibrail.scores.labelled import both_classes
from calibrail.scores.learned import learns
from calibrail.scores.registry import ScoreSpec, build, parse_spec, spell

#: Why an example of the fit split has no value.
TAUGHT: Final = "it is one of those that the hybrid learnt from, and is not judged"

_Floats = NDArray[np.float64]

#: The cheap score where none is named: it needs no model and takes milliseconds.
CHEAP: Final = "novel_stretch"


class Hybrid:
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

    name = "hybrid"
    version = "calibrail-hybrid/1"

    def __init__(
        self,
        *,
        expensive: str,
        cheap: str = CHEAP,
        low: float | None = None,
        high: float | None = None,
        lost: float = 0.02,
    ) -> None:
        self.cheap, self.expensive = _member("cheap", cheap), _member("expensive", expensive)
        if (low is None) != (high is None):
            raise InputError("low and high bound the band together; give both or neither")
        for name, edge in (("low", low), ("high", high)):
            if edge is not None and (isinstance(edge, bool) or not isinstance(edge, int | float)):
                raise InputError(f"{name} must be a number; got {edge!r}")
        if low is not None and high is not None and not -np.inf < low <= high < np.inf:
            raise InputError(f"low must not be above high; got low={low!r}, high={high!r}")
        if isinstance(lost, bool) or not isinstance(lost, int | float) or not 0.0 <= lost < 0.5:
            raise InputError(f"lost must be a share from 0 to less than 0.5; got {lost!r}")
        self.low, self.high, self.lost = low, high, float(lost)
        self._band = None if low is None or high is None else (float(low), float(high))
        #: Answers scored, and those among them that the expensive score judged; figures only grow.
        self.n_scored = self.n_judged = 0
        self._taught: frozenset[str] = frozenset()

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value; the members as specifications."""
        return {
            "expensive": spell(self.expensive),
            "cheap": spell(self.cheap),
            "low": self.low,
            "high": self.high,
            "lost": self.lost,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the cascade and the members' fingerprints."""
        members = {"cheap": self.cheap, "expensive": self.expensive}
        return {
            "version": self.version,
            **{name: dict(member.fingerprint()) for name, member in members.items()},
        }

    @property
    def requires(self) -> tuple[str, ...]:
        """Fields that either member reads."""
        return tuple(dict.fromkeys((*self.cheap.requires, *self.expensive.requires)))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that members read."""
        named = [getattr(member, "columns", ()) for member in (self.cheap, self.expensive)]
        return tuple(dict.fromkeys(name for names in named for name in names))

    @property
    def tolerance(self) -> float:
        """The larger of the members' tolerances."""
        return max(self.cheap.tolerance, self.expensive.tolerance)

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """Every model that a member calls, once."""
        members: list[Any] = [self.cheap, self.expensive]
        found = [
            model for member in members if isinstance(member, Demanding) for model in member.models
        ]
        return tuple({id(model): model for model in found}.values())

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what the cheap score will look up; the expensive one's cases are not known yet."""
        cheap: Any = self.cheap
        return cheap.demands(examples) if isinstance(cheap, Demanding) else ()

    def undecided(self, examples: Sequence[Example]) -> list[int]:
        """Return the positions of the examples that the expensive score has to judge."""
        return self._undecided(examples, self._cheap_values(examples, self._edges()))

    def eventual_demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return all that scoring will look up, the expensive score's part included."""
        expensive: Any = self.expensive
        if not isinstance(expensive, Demanding):
            return self.demands(examples)
        judged = [examples[row] for row in self.undecided(examples)]
        return (*self.demands(examples), *expensive.demands(judged))

    def forget(self) -> None:
        """Drop what models have computed."""
        for model in self.models:
            model.forget()

    @property
    def fitted(self) -> bool:
        """Whether the band is known."""
        return self._band is not None

    def fit(self, examples: Sequence[Example]) -> Score:
        """Return a copy with the widest clear regions that lose no more than ``lost``.

        Raises
        ------
        InputError
            If a label is missing or a class is too rare.
        """
        values = self.cheap.score(examples).values
        usable = np.array(~np.isnan(values))
        labels = both_classes(self.name, examples, usable)
        known = values[usable]
        fitted = self._with(band(known[labels == 1], known[labels == 0], self.lost))
        # They neither calibrate nor test, so nobody has to be paid for judging them.
        fitted._taught = frozenset(example.id for example in examples)
        return fitted

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the band."""
        return {"band": np.array(self._edges())}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Score:
        """Return a copy with this band."""
        low, high = state["band"].tolist()
        return self._with((low, high))

    def pinned(self) -> Score:
        """Return a copy whose members are pinned."""
        other = copy.copy(self)
        for name in ("cheap", "expensive"):
            member: Any = getattr(self, name)
            if isinstance(member, Pinning):
                setattr(other, name, member.pinned())
        return other

    @property
    def companions(self) -> tuple[Score, ...]:
        """The same cascade over what the expensive score shows beside itself at no further call."""
        return tuple(self._over(other) for other in getattr(self.expensive, "companions", ()))

    def _over(self, expensive: Score) -> Hybrid:
        other = copy.copy(self)
        other.expensive = expensive
        other.n_scored = other.n_judged = 0
        return other

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know: the band, and how much was judged."""
        if self._band is None or not self.n_scored:
            return ()
        low, high = self._band
        said = (
            f"hybrid: {self.cheap.name} decides below {low:.4g} and above {high:.4g}; "
            f"{self.expensive.name} judged {self.n_judged:,} of {self.n_scored:,} answers "
            f"({self.n_judged / self.n_scored:.1%})."
        )
        return (said, *getattr(self.expensive, "lessons", ()))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return where each answer stands in the cascade; undefined where its judge is."""
        low, high = self._edges()
        found = ((row, self._lacking(example)) for row, example in enumerate(examples))
        reasons = {row: why for row, why in found if why is not None}
        self.n_scored += len(examples) - len(reasons)
        cheap = self._cheap_values(examples, (low, high))
        values = np.where(cheap < low, cheap - low, 1.0 + (cheap - high))
        judged = self._undecided(examples, cheap)
        verdicts = self.expensive.score([examples[row] for row in judged])
        _refuse_outside(self.expensive, verdicts.values)
        values[judged] = verdicts.values
        reasons |= {judged[place]: why for place, why in verdicts.reasons.items()}
        values[list(reasons)] = np.nan
        self.n_judged += len(judged)
        places = {row: place for place, row in enumerate(judged)}
        evidence: list[Mapping[str, JSON]] = []
        for row in range(len(examples)):
            if row in reasons:
                evidence.append({})
                continue
            first = None if np.isnan(cheap[row]) else float(cheap[row])
            items: list[dict[str, JSON]] = [{"score": self.cheap.name, "value": first}]
            if row in places:
                item = {"score": self.expensive.name, "value": float(values[row])}
                if verdicts.evidence is not None and verdicts.evidence[places[row]]:
                    item["evidence"] = dict(verdicts.evidence[places[row]])
                items.append(item)
            evidence.append({"kind": "scores", "items": items})
        return Scores(values, reasons, tuple(evidence))

    def _cheap_values(self, examples: Sequence[Example], edges: tuple[float, float]) -> _Floats:
        """Return the cheap values, those at an edge of the band as each is by itself.

        Rounding depends on the batch, and here it would decide who is judged.
        """
        values = self.cheap.score(examples).values.copy()
        tolerance = self.cheap.tolerance
        if tolerance == 0.0 or len(examples) == 1:
            return values
        near = np.min(np.abs(values[:, None] - np.array(edges)), axis=1) <= tolerance
        for row in np.flatnonzero(near).tolist():
            for model in getattr(self.cheap, "models", ()):
                model.forget()
            values[row] = self.cheap.score([examples[row]]).values[0]
        return values

    def _undecided(self, examples: Sequence[Example], cheap: _Floats) -> list[int]:
        low, high = self._edges()
        inside = np.flatnonzero(~((cheap < low) | (cheap > high))).tolist()
        return [row for row in inside if self._lacking(examples[row]) is None]

    def _lacking(self, example: Example) -> str | None:
        return TAUGHT if example.id in self._taught else missing(example, self.requires)

    def _edges(self) -> tuple[float, float]:
        if self._band is None:
            raise InputError(
                "hybrid learns from labelled examples which cases are clear before it can score: "
                "use calibrate or compare with a fit split (--fit-share), or give low and high"
            )
        return self._band

    def _with(self, edges: tuple[float, float]) -> Hybrid:
        other = copy.copy(self)
        other._band = edges
        other.n_scored = other.n_judged = 0
        return other


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
    spec: ScoreSpec = parse_spec(text)
    if spec.name == Hybrid.name:
        raise InputError(f"{name} cannot be a hybrid itself")
    member = build(spec)
    if learns(member):
        raise InputError(f"{name} cannot be {member.name}, which learns itself")
    return member


def _refuse_outside(expensive: Score, values: _Floats) -> None:
    known = values[~np.isnan(values)]
    if len(known) and not (known.min() >= 0.0 and known.max() <= 1.0):
        raise InputError(
            f"the expensive score of hybrid must lie in [0, 1], as judge, nli, sec and claims do; "
            f"{expensive.name} gave {known.min():.4g} to {known.max():.4g}"
        )
