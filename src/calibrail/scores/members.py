"""How does a score hold others, and what did each of them say?"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.alone import background_of
from calibrail.scores.base import JSON, Demand, Demanding, DetectorFailure, Score, Scores
from calibrail.scores.detector import ModelScore
from calibrail.scores.learned import Learning, learns
from calibrail.scores.of_sentences import whole_answers
from calibrail.scores.registry import build, key_of, parse_specs

_Floats = NDArray[np.float64]


class Members(ModelScore):
    """Base of the scores that hold others, their members, by key or by their part."""

    members: dict[str, Score] = field(init=False)
    #: It goes up when the same members and the same state would give another value.
    version: ClassVar[str] = ""

    @property
    def requires(self) -> tuple[str, ...]:
        """Fields that any member reads: without one of them nothing is made up for it."""
        members = self.members.values()
        return tuple(dict.fromkeys(name for member in members for name in member.requires))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that members read."""
        columns = (getattr(member, "columns", ()) for member in self.members.values())
        return tuple(dict.fromkeys(chain.from_iterable(columns)))

    @property
    def tolerance(self) -> float:
        """The largest of the members' tolerances."""
        return max(member.tolerance for member in self.members.values())

    @property
    def whole_answers(self) -> str | None:
        """Why it says nothing of a single sentence; None where every member does."""
        return whole_answers(self.members.values())

    def fingerprints(self) -> dict[str, JSON]:
        """Return the members' fingerprints by key."""
        return {key: dict(member.fingerprint()) for key, member in self.members.items()}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version of the combination and the members' fingerprints."""
        return {"version": self.version, "members": self.fingerprints()}

    @property
    def models(self) -> tuple[Any, ...]:
        """Every model that a member calls, once."""
        models = (getattr(member, "models", ()) for member in self.members.values())
        return tuple({id(model): model for model in chain.from_iterable(models)}.values())

    def background(self, example: Example) -> tuple[Demand, ...] | None:
        """Return what the members will look up whatever the response is, where all know it."""
        found = list[Demand]()
        for member in self.members.values():
            if (demands := background_of(member, example)) is None:
                return None
            found += demands
        return tuple(found)

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what the members will look up."""
        demands = (demands_of(member, examples) for member in self.members.values())
        return tuple(chain.from_iterable(demands))


class Combined(Learning, Members):
    """Base of the scores that learn how to combine at least two others, none of which learns.

    What a member that learns knew of the examples that the combination learns from would be taken
    for skill.
    """

    def combine(self, members: Sequence[Score]) -> None:
        """Take the members, each once, by their keys."""
        keys = [key_of(member) for member in members]
        if len(set(keys)) != len(keys):
            raise InputError(f"{self.name} takes each score once; got {', '.join(keys)}")
        if len(keys) < 2:
            raise InputError(f"{self.name} combines at least two scores; got {keys}")
        if learning := [member.name for member in members if learns(member)]:
            raise InputError(
                f"{self.name} cannot combine scores that learn themselves: {', '.join(learning)}"
            )
        if unsettled := [m.name for m in members if m.params.get("mode") == "auto"]:
            raise InputError(
                f"{self.name} needs the mode of {', '.join(unsettled)} named: mode=logprob, "
                "mode=verdict, mode=votes or mode=graded"
            )
        self.members = dict(zip(keys, members, strict=True))

    def scored(self, examples: Sequence[Example]) -> dict[str, Scores]:
        """Return what each member says, by key."""
        return {key: member.score(examples) for key, member in self.members.items()}

    def explained(
        self,
        values: _Floats,
        scored: Mapping[str, Scores],
        reasons: dict[int, str],
        **details: _Floats,
    ) -> Scores:
        """Return the combined values, with what each member said of an example as evidence.

        Where there is none, every member's reason stands, unless another is given; where a member
        failed, there is none. The details of members, shape (n, members), join what they said.
        """
        for key, scores in scored.items():
            for row, why in scores.reasons.items():
                if isinstance(why, DetectorFailure):
                    reasons.setdefault(row, type(why)(f"{key}: {why}"))
        values[list(reasons)] = np.nan
        evidence: list[Mapping[str, JSON]] = [{} for _ in values]
        for row, value in enumerate(values):
            items = member_items(scored, row)
            if np.isnan(value):
                whys = (f"{item['score']}: {item['reason']}" for item in items if "reason" in item)
                reasons.setdefault(row, "; ".join(whys))
                continue
            for name, table in details.items():
                for item, number in zip(items, table[row].tolist(), strict=True):
                    item[name] = None if np.isnan(number) else number
            evidence[row] = {"kind": "scores", "items": items}
        return Scores(values, reasons, tuple(evidence))


def demands_of(score: Any, examples: Sequence[Example]) -> tuple[Demand, ...]:
    """Return what a score will look up: nothing, where it calls no model."""
    return score.demands(examples) if isinstance(score, Demanding) else ()


def build_members(scores: str, name: str) -> list[Score]:
    """Build the members named in a specification such as ``"novelty,rad:level=sentence"``.

    Raises
    ------
    InputError
        If one is unknown, or the specification is no text.
    """
    if not isinstance(scores, str):
        raise InputError(
            f'scores of {name} must be text, e.g. scores="rad,novelty"; got {scores!r}'
        )
    return [build(spec) for spec in parse_specs(scores)]


def matrix(scored: Mapping[str, Scores]) -> _Floats:
    """Return the members' values as columns, float64, shape (n, members)."""
    return np.stack([scores.values for scores in scored.values()], axis=1)


def member_items(scored: Mapping[str, Scores], row: int) -> list[dict[str, JSON]]:
    """Return what each member said of one example: its value and evidence, or why it has none."""
    items: list[dict[str, JSON]] = []
    for key, scores in scored.items():
        item: dict[str, JSON] = {"score": key, "value": float(scores.values[row])}
        if row in scores.reasons:
            item |= {"value": None, "reason": scores.reasons[row]}
        elif scores.evidence is not None and scores.evidence[row]:
            item["evidence"] = dict(scores.evidence[row])
        items.append(item)
    return items
