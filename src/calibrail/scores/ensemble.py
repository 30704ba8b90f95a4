"""Members, rank mean, stacking.

A logistic model or boosted trees, kept as plain arrays: what they compute afterwards needs numpy
alone, and nothing is ever unpickled. Both are told that a higher score means more likely
hallucinated. A score that says the opposite on the fit split gets no weight, and is named: to turn
it around would be to learn from a detector that does not work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from calibrail.data.example import Example
from calibrail.errors import InputError, error_text, extra
from calibrail.options import SplitOptions
from calibrail.options.fields import numbers, one_of, spell_option
from calibrail.scores import base
from calibrail.scores.members import Floats, Members, member_items, pinned_member
from calibrail.scores.registry import FIGURES, build, key_of, parse_specs, spell


class Combined(base.Learning, Members):
    """Base of the scores that learn how to combine at least two others, none of which learns.

    What a member that learns knew of the examples that the combination learns from would be taken
    for skill.
    """

    #: The members, as a specification.
    scores: str = field(init=False)

    def combine(self, members: Sequence[base.Score]) -> None:
        """Take the members, each once, by their keys."""
        keys = [key_of(member) for member in members]
        if len(set(keys)) != len(keys):
            raise InputError(f"{self.name} takes each score once; got {', '.join(keys)}")
        if len(keys) < 2:
            raise InputError(f"{self.name} combines at least two scores; got {keys}")
        if learning := [member.name for member in members if base.learns(member)]:
            raise InputError.on("learners_combined", of=self, which=", ".join(learning))
        if unsettled := [m.name for m in members if m.params.get("mode") == "auto"]:
            raise InputError.on("mode_not_named", of=self, names=", ".join(unsettled))
        self.members = dict(zip(keys, members, strict=True))

    def pinned(self) -> base.Score:
        """Return a copy whose members are pinned; the same where none asks an endpoint."""
        if not any(isinstance(member, base.Pinning) for member in self.members.values()):
            return self
        members = list(map(pinned_member, self.members.values()))
        keys = dict(zip(self.members, map(key_of, members), strict=True))
        other = self.with_members(dict(zip(keys.values(), members, strict=True)))
        other.scores = ",".join(map(spell, members))
        # An array of one member is called by its key.
        named = {f"values:{old}": f"values:{new}" for old, new in keys.items()}
        if self._state is not None:
            other._state = {named.get(name, name): array for name, array in self._state.items()}
        return other

    def scored(self, examples: Sequence[Example]) -> dict[str, base.Scores]:
        """Return what each member says, by key."""
        return {key: member.score(examples) for key, member in self.members.items()}

    def explained(
        self,
        values: Floats,
        scored: Mapping[str, base.Scores],
        reasons: dict[int, str],
        **details: Floats,
    ) -> base.Scores:
        """Return the combined values, with what each member said of an example as evidence.

        Where there is none, every member's reason stands, unless another is given; where a member
        failed, there is none. The details of members, shape (n, members), join what they said.
        """
        for key, scores in scored.items():
            for row, why in scores.reasons.items():
                if isinstance(why, base.DetectorFailure):
                    reasons.setdefault(row, type(why)(f"{key}: {why}"))

        def result(row: int) -> tuple[float, Mapping[str, base.JSON]] | str:
            items = member_items(scored, row)
            if row in reasons or np.isnan(values[row]):
                whys = (f"{item['score']}: {item['reason']}" for item in items if "reason" in item)
                return reasons.get(row) or "; ".join(whys)
            for name, table in details.items():
                for item, number in zip(items, table[row].tolist(), strict=True):
                    item[name] = None if np.isnan(number) else number
            return float(values[row]), {"kind": "scores", "items": items}

        return base.Scores.of(map(result, range(len(values))))


def build_members(scores: str, name: str) -> list[base.Score]:
    """Build the members named in a specification such as ``"novelty,rad:level=sentence"``.

    Raises
    ------
    InputError
        If one is unknown, or the specification is no text.
    """
    if not isinstance(scores, str):
        raise InputError.on("members_no_text", name=name, scores=scores)
    return [build(spec) for spec in parse_specs(scores)]


def matrix(scored: Mapping[str, base.Scores]) -> Floats:
    """Return the members' values as columns, float64, shape (n, members)."""
    return np.stack([scores.values for scores in scored.values()], axis=1)


#: What was learnt: arrays by name.
State = Mapping[str, NDArray[Any]]
Kind = Literal["logistic", "boosted"]

#: Boosted trees: few, shallow and slow, since fit splits are small.
FOREST: Final[Mapping[str, Any]] = FIGURES["fused"]


def train(
    kind: Kind, features: Floats, labels: NDArray[np.int8], strength: float = 1.0
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model trained on features, NaN where missing.

    Features are compressed by sign(x) log(1 + |x|), since counts have long tails. A missing value
    becomes the median of its feature, with a feature of its own, a flag, that says so; then all are
    standardised.

    Parameters
    ----------
    kind : {"logistic", "boosted"}
        The model.
    features : ndarray of float64, shape (n, features)
        What it learns from.
    labels : ndarray of int8, shape (n,)
        1 = hallucinated.
    strength : float
        Inverse strength of the L2 penalty of the logistic model.
    """
    reached = np.array([base.separation(column, labels) for column in features.T])
    # Bound to rise, a score that points the wrong way could still help by accident in a forest.
    kept = np.ones(len(reached), bool) if kind == "logistic" else reached >= 0.5
    compressed = _compressed(np.where(kept, features, 0.0))
    missing = np.isnan(compressed)
    known = [column[~gone] for column, gone in zip(compressed.T, missing.T, strict=True)]
    state: dict[str, NDArray[Any]] = {
        "auroc": reached,
        "kept": kept.astype(np.int64),
        "median": np.array([np.median(column) if len(column) else 0.0 for column in known]),
        "flagged": np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)).astype(np.int64),
    }
    filled = _filled(state, compressed)
    spread = filled.std(axis=0)
    state |= {"mean": filled.mean(axis=0), "scale": np.where(spread > 0.0, spread, 1.0)}
    inputs = (filled - state["mean"]) / state["scale"]
    # What is not bound says that a score is undefined: that may speak either way.
    bound = np.arange(inputs.shape[1]) < features.shape[1]
    if kind == "boosted":
        return state | _forest(inputs, labels, bound)
    return state | _logistic(inputs, labels, strength, bound)


def unweighted(state: State | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each score that pointed the wrong way where the model learnt."""
    if state is None:
        return ()
    weights = state["weights"] if "weights" in state else state["kept"]
    return tuple(
        error_text("member_points_wrong", name=name, reached=reached)
        for name, reached, weight in zip(names, state["auroc"].tolist(), weights, strict=False)
        if reached < 0.5 and weight <= 1e-9
    )


def _compressed(features: Floats) -> Floats:
    return np.asarray(np.sign(features) * np.log1p(np.abs(features)))


def _filled(state: State, compressed: Floats) -> Floats:
    """Return the features without gaps, and the flags of those that were ever missing."""
    missing = np.isnan(compressed)
    flags = missing[:, state["flagged"]].astype(np.float64)
    return np.concatenate([np.where(missing, state["median"], compressed), flags], axis=1)


def _logistic(
    inputs: Floats, labels: NDArray[np.int8], strength: float, bound: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return weights, at least 0 where bound, of the least loss with an L2 penalty."""
    signs = 2.0 * labels - 1.0

    def loss(x: Floats) -> tuple[float, Floats]:
        weights, total = x[:-1], inputs @ x[:-1] + x[-1]
        slope = -signs * expit(-signs * total)
        value = float(-log_expit(signs * total).sum() + weights @ weights / (2.0 * strength))
        return value, np.append(inputs.T @ slope + weights / strength, slope.sum())

    best = minimize(
        loss,
        np.zeros(inputs.shape[1] + 1),
        jac=True,
        bounds=[(0.0 if held else None, None) for held in bound] + [(None, None)],
        method="L-BFGS-B",
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    return {"weights": best[:-1], "intercept": best[-1:]}


def _forest(
    inputs: Floats, labels: NDArray[np.int8], bound: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Return the nodes of boosted trees that rise with what is bound; leaves have no children."""
    with extra("learning", "an ensemble of boosted trees"):
        from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(**FOREST, monotonic_cst=bound.astype(int))
    model.fit(inputs, labels)
    trees = [stage[0].nodes for stage in model._predictors]
    roots = np.cumsum([0, *(len(tree) for tree in trees[:-1])]).astype(np.int64)

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([tree[name] for tree in trees]).astype(dtype)

    shift = np.repeat(roots, [len(tree) for tree in trees])
    leaf = joined("is_leaf", bool)
    return {
        "roots": roots,
        "left": np.where(leaf, -1, joined("left", np.int64) + shift),
        "right": np.where(leaf, -1, joined("right", np.int64) + shift),
        "feature": joined("feature_idx", np.int64),
        "threshold": joined("num_threshold", np.float64),
        "value": joined("value", np.float64),
        "intercept": np.array(model._baseline_prediction, np.float64).reshape(-1),
    }


def logits(state: State, features: Floats) -> Floats:
    """Return log-odds of a hallucination, float64, shape (n,)."""
    filled = _filled(state, _compressed(np.where(state["kept"] > 0, features, 0.0)))
    inputs = (filled - state["mean"]) / state["scale"]
    if "weights" in state:
        # Row by row: a product of matrices may round differently in another batch.
        return np.asarray((inputs * state["weights"]).sum(axis=1) + state["intercept"][0])
    total = np.full(len(inputs), float(state["intercept"][0]))
    rows = np.arange(len(inputs))
    for root in state["roots"].tolist():
        node = np.full(len(inputs), root, dtype=np.int64)
        while (inner := state["left"][node] >= 0).any():
            low = inputs[rows, state["feature"][node]] <= state["threshold"][node]
            node = np.where(inner, np.where(low, state["left"][node], state["right"][node]), node)
        total += state["value"][node]
    return total


def tolerance(state: State | None, tolerances: Sequence[float]) -> float:
    """Return how far a probability may move when each score moves by its tolerance, or one of them.

    A logistic curve climbs by a quarter at most, and compressing never widens. Without weights it
    is the largest of the tolerances.
    """
    largest = max(tolerances)
    if state is None or "weights" not in state:
        return largest
    n = len(tolerances)
    slopes = state["weights"][:n] / state["scale"][:n]
    return max(largest, float(0.25 * (np.abs(slopes) * np.array(tolerances)).sum()))


def probabilities(state: State, features: Floats) -> Floats:
    """Return probabilities of a hallucination, float64, shape (n,), in [0, 1]."""
    return np.asarray(expit(logits(state, features)))


#: Values this many tolerances to either side share in a rank, so that rounding moves it little.
BLUR = 1000.0

#: What is fused where nothing is named: scores that need no model and take milliseconds.
MEMBERS = "novel_stretch,novel_run,novel_count,novelty,rouge_l,numbers,entities"


class Ensemble(Combined):
    """Weighted mean of the members' ranks among the answers of the fit split. In [0, 1].

    A member's value becomes the share of fit examples with a smaller one, equal ones counted half
    (a little smoothed for members that round).
    Where some members find nothing to judge the mean is over the others; the evidence names them.
    A member that points the wrong way on the fit split gets no weight, and the report names it.

    Parameters
    ----------
    scores : str
        The members, e.g. ``"novelty,rad,sec"``.
    weights : str or None
        As many numbers above 0, ``"2,1,1"``; None for equal weights.
    """

    scores: str
    weights: str | None = None

    name = "ensemble"
    version = "calibrail-ensemble/1"
    unfitted = f"learns ranks before it can score: {base.FIT_SPLIT}"

    def __post_init__(self) -> None:
        self.combine(build_members(self.scores, self.name))
        n = len(self.members)
        weights = [1.0] * n if self.weights is None else numbers(self.weights, float)
        self._weights = np.array(weights)
        if len(self._weights) != n or not ((self._weights > 0.0) & (self._weights < np.inf)).all():
            raise InputError.on("ensemble_weights", n=n, weights=self.weights)

    @property
    def tolerance(self) -> float:
        """How far rounding may move the mean rank; 0 where every member is exact."""
        return 0.5 / BLUR if super().tolerance > 0.0 else 0.0

    def fit(self, examples: Sequence[Example]) -> base.Score:
        """Return a copy that knows the members' values on these examples.

        Raises
        ------
        InputError
            If a member is defined on none of them.
        """
        state: dict[str, Floats] = {}
        labels = np.array([-1 if example.label is None else example.label for example in examples])
        reached = []
        for key, scores in self.scored(examples).items():
            known = scores.values[~np.isnan(scores.values)]
            reached.append(base.separation(scores.values, labels))
            if not len(known):
                option = spell_option(SplitOptions, "fit_share")
                raise InputError.on("member_undefined", key=key, option=option)
            state[f"values:{key}"] = np.sort(known)
        if max(reached) < 0.5:
            names = ", ".join(f"{area:.2f}" for area in reached)
            raise InputError.on("ensemble_points_wrong", names=names)
        return self.restore({"auroc": np.array(reached), **state})

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: members that got no weight, and why."""
        state = self._state and {"kept": self._state["auroc"] >= 0.5, **self._state}
        return unweighted(state, list(self.members))

    @property
    def arrays(self) -> Iterable[str]:
        """The members' AUROC on the fit split, and their values there."""
        return ("auroc", *(f"values:{key}" for key in self.members))

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return the mean rank; undefined where every member is."""
        state = self.state()
        scored = self.scored(examples)
        values = matrix(scored)
        ranks = np.full(values.shape, np.nan)
        for column, (key, member) in enumerate(self.members.items()):
            width = BLUR * member.tolerance
            ranks[:, column] = _ranks(values[:, column], state[f"values:{key}"], width)
        known = ~np.isnan(values)
        weights = known * self._weights * (state["auroc"] >= 0.5)
        total = weights.sum(axis=1)
        # Row by row: a product of matrices may round differently in another batch.
        mean = (np.where(known, ranks, 0.0) * weights).sum(axis=1)
        mean = np.divide(mean, total, out=np.full(len(mean), np.nan), where=total > 0.0)
        return self.explained(mean, scored, self.lacking(examples), rank=ranks)


class Fused(Combined):
    """P(hallucinated) of a model trained on the fit split, from the values of other scores.

    In [0, 1]; higher means more likely hallucinated. The probability is that of the fit split's
    own mix of classes: what makes it a promise is the calibration that follows. On RAGTruth
    answers that its default members were not designed on it was no better than ``novel_count``.

    Parameters
    ----------
    scores : str
        The members, e.g. ``"novel_count,rad,sec:model=..."``.
    model : {"logistic", "boosted"}
        A logistic model with weights of at least 0, or boosted trees that never fall where a score
        rises; the trees take members that need no model only.
    strength : float
        Inverse strength of the logistic model's L2 penalty; above 0.
    """

    scores: str = MEMBERS
    model: Kind = "logistic"
    strength: float = 1.0

    name = "fused"
    version = "calibrail-fused/1"

    def __post_init__(self) -> None:
        self.combine(build_members(self.scores, self.name))
        one_of(self.model, Kind, "model")
        self.strength = base.positive(self.strength, "strength")
        rounding = [key for key, member in self.members.items() if member.tolerance > 0.0]
        if self.model == "boosted" and rounding:
            raise InputError.on("boosted_scores_round", names=", ".join(rounding))

    @property
    def tolerance(self) -> float:
        """How far rounding may move the probability, by what was learnt."""
        return tolerance(self._state, [m.tolerance for m in self.members.values()])

    def fit(self, examples: Sequence[Example]) -> base.Score:
        """Return a copy trained on labelled examples.

        Raises
        ------
        InputError
            If a label is missing, or a class is too rare.
        """
        scored = self.scored(examples)
        features = matrix(scored)
        usable = np.array(~np.isnan(features).all(axis=1))
        usable[list(self.lacking(examples))] = False
        # Whether a call failed says nothing of the answer.
        for scores in scored.values():
            whys = scores.reasons.items()
            usable[[row for row, why in whys if isinstance(why, base.DetectorFailure)]] = False
        labels = base.both_classes(self.name, examples, usable)
        return self.restore(train(self.model, features[usable], labels, self.strength))

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what was learnt: members that got no weight, and why."""
        return unweighted(self._state, list(self.members))

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return the probability; undefined where every member is."""
        state = self.state()
        scored = self.scored(examples)
        features = matrix(scored)
        values = probabilities(state, features)
        values[np.isnan(features).all(axis=1)] = np.nan
        return self.explained(values, scored, self.lacking(examples))


def _ranks(values: Floats, reference: Floats, width: float) -> Floats:
    """Return the share of the reference below each value, equal ones half; NaN stays.

    With a width, the mean of that share over all values so near: a step would turn the rounding of
    a batch into a whole rank.
    """
    n = len(reference)
    if width == 0.0:
        below, up_to = (np.searchsorted(reference, values, side) for side in ("left", "right"))
        return np.where(np.isnan(values), np.nan, (below + up_to) / (2.0 * n))
    # The integral of a step function that climbs by 1/n at each value of the reference.
    sums = np.concatenate([np.zeros(1), np.cumsum(reference)])

    def integral(x: Floats) -> Floats:
        below = np.searchsorted(reference, x, "right")
        return np.asarray((below * x - sums[below]) / n)

    ranks = (integral(values + width) - integral(values - width)) / (2.0 * width)
    return np.clip(ranks, 0.0, 1.0)
