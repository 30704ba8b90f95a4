"""Scores that ask others: their members, a cheap score before a judge, the worst sentence."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate, chain
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import InputError, error_text
from calibrail.formatting import percent
from calibrail.scores import base
from calibrail.scores.registry import build, parse_spec, spell
from calibrail.text.sentences import answer_sentences, answer_sentences_version


class Members(base.ModelScore):
    """Base of the scores that hold others, their members, by key or by their part."""

    members: dict[str, base.Score] = field(init=False)
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
        return base.whole_answers(self.members.values())

    def with_members(self, members: dict[str, base.Score]) -> Self:
        """Return a copy that holds others."""
        other = copy.copy(self)
        other.members = members
        return other

    def fingerprints(self) -> dict[str, base.JSON]:
        """Return the members' fingerprints by key."""
        return {key: dict(member.fingerprint()) for key, member in self.members.items()}

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the version of the combination and the members' fingerprints."""
        return {"version": self.version, "members": self.fingerprints()}

    @property
    def models(self) -> tuple[Any, ...]:
        """Every model that a member calls, once."""
        models = (getattr(member, "models", ()) for member in self.members.values())
        return tuple({id(model): model for model in chain.from_iterable(models)}.values())

    def background(self, example: Example) -> tuple[base.Demand, ...] | None:
        """Return what the members will look up whatever the response is, where all know it."""
        known = [base.background_of(member, example) for member in self.members.values()]
        return None if None in known else tuple(chain.from_iterable(filter(None, known)))

    def try_out(self, examples: Sequence[Example]) -> str | None:
        """Return why a member is not to be asked any more, as its first few calls show."""
        whys = (base.try_out(member, examples) for member in self.members.values())
        return next(filter(None, whys), None)

    def demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return what the members will look up."""
        demands = (demands_of(member, examples) for member in self.members.values())
        return tuple(chain.from_iterable(demands))


def pinned_member(score: Any) -> Any:
    """Return the pinned copy of a member that has one."""
    return score.pinned() if isinstance(score, base.Pinning) else score


def demands_of(score: Any, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
    """Return what a score will look up: nothing, where it calls no model."""
    return score.demands(examples) if isinstance(score, base.Demanding) else ()


def member_items(scored: Mapping[str, base.Scores], row: int) -> list[dict[str, base.JSON]]:
    """Return what each member said of one example: its value and evidence, or why it has none."""
    return [{"score": key, **_said(scores, row)} for key, scores in scored.items()]


def _said(scored: base.Scores, row: int) -> dict[str, base.JSON]:
    if row in scored.reasons:
        return {"value": None, "reason": scored.reasons[row]}
    evidence = dict((scored.evidence and scored.evidence[row]) or {})
    value = {"value": float(scored.values[row])}
    return {**value, "evidence": evidence} if evidence else value


#: Why an example of the fit split has no value.
LEARNT_FROM: Final = "it is one of those that the hybrid learnt from, and is not judged"

Floats = NDArray[np.float64]

#: The cheap score where none is named: it needs no model and takes milliseconds.
CHEAP: Final = "novel_stretch"


class Hybrid(base.Learning, Members):
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
        The score that judges, e.g. ``"judge:model=gpt-6-luna"``.
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
        "learns from labelled answers which cases are clear before it can score: "
        f"{base.FIT_SPLIT}, or give low and high"
    )
    arrays = ("band",)
    # Neither is a part of its state.
    stays_here = "one process has to know whom it learnt from, and how many answers it judged"

    def __post_init__(self) -> None:
        specs = {"cheap": self.cheap, "expensive": self.expensive}
        self.members = {part: _member(part, spec, self.name) for part, spec in specs.items()}
        low, high, lost = self.low, self.high, self.lost
        if (low is None) != (high is None):
            raise InputError("low and high bound the band together; give both or neither")
        if low is not None and high is not None:
            are_numbers = base.is_number(low) and base.is_number(high)
            if not are_numbers or not -np.inf < low <= high < np.inf:
                raise InputError.on("band_limits", low=low, high=high)
            self._state = {"band": np.array([low, high], dtype=np.float64)}
        if not base.is_number(lost) or not 0.0 <= lost < 0.5:
            raise InputError(f"lost must be a share from 0 to less than 0.5; got {lost!r}")
        self.lost = float(lost)
        #: Answers scored, and those among them that the expensive score judged; they only grow.
        self.n_scored = self.n_judged = 0
        self._learnt_from: frozenset[str] = frozenset()

    @property
    def params(self) -> Mapping[str, base.JSON]:
        """Every parameter with its value; the members as specifications."""
        return {**super().params, **{part: spell(score) for part, score in self.members.items()}}

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the version of the cascade and the members' fingerprints."""
        return {"version": self.version, **self.fingerprints()}

    def demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return what the cheap score will look up; the expensive one's cases are not known yet."""
        return demands_of(self.members["cheap"], examples)

    def undecided(self, examples: Sequence[Example], cheap: Floats | None = None) -> list[int]:
        """Return the positions of the examples that the expensive score has to judge.

        The cheap score's values are computed where they are not given.
        """
        cheap = self._cheap_values(examples) if cheap is None else cheap
        low, high = self.state()["band"]
        lacking = self.lacking(examples)
        inside = np.flatnonzero(~((cheap < low) | (cheap > high))).tolist()
        return [row for row in inside if row not in lacking]

    def try_out(self, examples: Sequence[Example]) -> str | None:
        """Return why a member is not to be asked any more."""
        cheap, expensive = self.members["cheap"], self.members["expensive"]
        why = base.try_out(cheap, examples)
        if why or not self.fitted or not callable(getattr(expensive, "try_out", None)):
            return why
        return base.try_out(expensive, [examples[row] for row in self.undecided(examples)])

    def eventual_demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return all that scoring will look up, the expensive score's part included."""
        judged = [examples[row] for row in self.undecided(examples)]
        return (*self.demands(examples), *demands_of(self.members["expensive"], judged))

    def fit(self, examples: Sequence[Example]) -> base.Score:
        """Return a copy with the widest clear regions that lose no more than ``lost``.

        Raises
        ------
        InputError
            If a label is missing or a class is too rare.
        """
        values = self.members["cheap"].score(examples).values
        usable = np.array(~np.isnan(values))
        labels = base.both_classes(self.name, examples, usable)
        known = values[usable]
        edges = band(known[labels == 1], known[labels == 0], self.lost)
        fitted = self.restore({"band": np.array(edges)})
        # They neither calibrate nor test, so nobody has to be paid for judging them.
        fitted._learnt_from = frozenset(example.id for example in examples)
        return fitted

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy with this band."""
        return super().restore(state)._anew(self.members)

    def pinned(self) -> base.Score:
        """Return a copy whose members are pinned."""
        pinned = {part: pinned_member(member) for part, member in self.members.items()}
        return self.with_members(pinned)

    @property
    def companions(self) -> tuple[base.Score, ...]:
        """The same cascade over what the expensive score shows beside itself at no further call."""
        companions = getattr(self.members["expensive"], "companions", ())
        return tuple(self._anew({**self.members, "expensive": other}) for other in companions)

    def _anew(self, members: dict[str, base.Score]) -> Self:
        other = self.with_members(members)
        other.n_scored = other.n_judged = 0
        return other

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know: the band, and how much was judged."""
        if self._state is None or not self.n_scored:
            return ()
        low, high = self._state["band"].tolist()
        share = percent(self.n_judged / self.n_scored)
        lesson = error_text("hybrid_band", of=self, low=low, high=high, share=share)
        return (lesson, *getattr(self.members["expensive"], "lessons", ()))

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return where each answer stands in the cascade; undefined where its judge is."""
        low, high = self.state()["band"].tolist()
        cheap, expensive = self.members["cheap"], self.members["expensive"]
        reasons = self.lacking(examples)
        self.n_scored += len(examples) - len(reasons)
        decided = self._cheap_values(examples)
        outside = np.where(decided < low, decided - low, 1.0 + (decided - high)).tolist()
        judged = self.undecided(examples, decided)
        verdicts = expensive.score([examples[row] for row in judged])
        known = verdicts.values[~np.isnan(verdicts.values)]
        if not ((known >= 0.0) & (known <= 1.0)).all():
            raise InputError.on("verdict_range", of=expensive, least=known.min(), most=known.max())
        reasons |= {judged[place]: why for place, why in verdicts.reasons.items()}
        self.n_judged += len(judged)
        places = {row: place for place, row in enumerate(judged)}

        def explained(row: int) -> tuple[float, Mapping[str, base.JSON]]:
            value = None if np.isnan(decided[row]) else float(decided[row])
            items = [{"score": cheap.name, "value": value}]
            if row not in places:
                return outside[row], {"kind": "scores", "items": items}
            items += member_items({expensive.name: verdicts}, places[row])
            return float(verdicts.values[places[row]]), {"kind": "scores", "items": items}

        return base.Scores.of(reasons.get(row) or explained(row) for row in range(len(examples)))

    def lacking(self, examples: Sequence[Example]) -> dict[int, str]:
        """Return the examples that have no value whatever they hold, and why."""
        learnt_from = (row for row, item in enumerate(examples) if item.id in self._learnt_from)
        return {**super().lacking(examples), **dict.fromkeys(learnt_from, LEARNT_FROM)}

    def _cheap_values(self, examples: Sequence[Example]) -> Floats:
        """Return the cheap values, those at an edge of the band as each is by itself.

        Rounding depends on the batch, and here it would decide who is judged.
        """
        cheap = self.members["cheap"]
        values = cheap.score(examples).values.copy()
        if cheap.tolerance == 0.0:
            return values
        near = np.abs(values[:, None] - self.state()["band"]).min(axis=1) <= cheap.tolerance
        for row in np.flatnonzero(near).tolist():
            values[row] = base.scored_alone(cheap, examples[row]).values[0]
        return values


def band(hallucinated: Floats, faithful: Floats, lost: float) -> tuple[float, float]:
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


def _member(name: str, text: object, asking: str) -> base.Score:
    """Build a member of the score that asks it from its specification."""
    if not isinstance(text, str):
        raise InputError(f'{name} must name a score, e.g. {name}="rad"; got {text!r}')
    member = build(parse_spec(text))
    if member.name == asking:
        raise InputError(f"{name} cannot be {asking} itself; name the score that it asks")
    if base.learns(member):
        raise InputError(f"{name} cannot be {member.name}, which learns; name one that does not")
    return member


#: The part that the scored detector plays.
_PART = "detector"


class WorstSentence(Members):
    """The highest score that a detector gives to a sentence of the answer.

    Each sentence is scored as `calibrail.data.sentences` makes an example of it, so that nothing
    of its score depends on what comes after it: an answer that is still being written can be
    stopped at its first sentence at or above the threshold. Sentences that the detector finds
    nothing in (no content word, no claim) do not count; where it failed on one, so has this.

    Parameters
    ----------
    detector : str
        The score, e.g. ``"rad"`` or ``"nli:model=..."``; none that learns.
    """

    detector: str

    name = "worst_sentence"
    version = "calibrail-worst-sentence/1"
    explains = True
    splitter = staticmethod(answer_sentences)

    def __post_init__(self) -> None:
        member = _member(_PART, self.detector, self.name)
        base.require_sentences([member])
        self.members = {_PART: member}

    @property
    def member(self) -> base.Score:
        """The detector that scores the sentences."""
        return self.members[_PART]

    @property
    def params(self) -> Mapping[str, base.JSON]:
        """The detector as a specification."""
        return {_PART: spell(self.member)}

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return how sentences are found, and the detector's fingerprint."""
        version = {"version": self.version, "sentences": answer_sentences_version()}
        return {**version, **self.cut(), **self.fingerprints()}

    @property
    def stays_here(self) -> str | None:
        """Why no other process can compute it; None where one can."""
        return getattr(self.member, "stays_here", None)

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what the detector has learnt or was answered."""
        return tuple(getattr(self.member, "lessons", ()))

    @property
    def companions(self) -> tuple[base.Score, ...]:
        """The same of what the detector shows beside itself at no further call."""
        beside = getattr(self.member, "companions", ())
        return tuple(self.with_members({_PART: other}) for other in beside)

    def pinned(self) -> base.Score:
        """Return a copy whose detector is pinned."""
        return self.with_members({_PART: pinned_member(self.member)})

    def demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return what the detector will look up for every sentence."""
        return demands_of(self.member, self._all_sentences(examples))

    def try_out(self, examples: Sequence[Example]) -> str | None:
        """Return why the detector is not to be asked any more."""
        return base.try_out(self.member, self._all_sentences(examples))

    def eventual_demands(self, examples: Sequence[Example]) -> tuple[base.Demand, ...]:
        """Return all that scoring will look up, what depends on a first step of it included."""
        return base.eventual_demands(self.member, self._all_sentences(examples))

    def _all_sentences(self, examples: Sequence[Example]) -> list[Example]:
        return list(chain.from_iterable(map(sentences_to_score, self.usable(examples))))

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return the highest score of each answer's sentences; undefined where none has one."""
        whys = list(map(self.lacks, examples))
        pairs = zip(whys, examples, strict=True)
        parts = [[] if why else sentences_to_score(item) for why, item in pairs]
        scored = self.member.score(list(chain.from_iterable(parts)))
        stops = accumulate(map(len, parts))
        return base.Scores.of(
            why or worst(example, part, scored, stop - len(part))
            for why, example, part, stop in zip(whys, examples, parts, stops, strict=True)
        )

    def score_parts(self, example: Example) -> base.Scores:
        """Return what `score` does of one answer, each of whose sentences is scored alone."""
        if why := self.lacks(example):
            return base.Scores.of([why])
        parts = sentences_to_score(example)
        scored = [base.scored_alone(self.member, part) for part in parts]
        return companion_scores(example, parts, scored)


def companion_scores(
    example: Example, sentences: Sequence[Example], parts: Sequence[base.Scores]
) -> base.Scores:
    """Return the score of an answer by those of its sentences, one by one, of which it has some."""
    results = (
        part.reasons.get(0) or (float(part.values[0]), part.evidence[0] if part.evidence else {})
        for part in parts
    )
    return base.Scores.of([worst(example, sentences, base.Scores.of(results, explains=False))])


def sentences_to_score(example: Example) -> list[Example]:
    """Return the sentences of an answer; a sentence is its only one."""
    return [example] if example.before is not None else sentence_examples(example)


def worst(
    example: Example, sentences: Sequence[Example], scored: base.Scores, first: int = 0
) -> tuple[float, Mapping[str, base.JSON]] | str:
    """Return an answer's highest sentence score with every sentence's, or why there is none.

    Parameters
    ----------
    example : Example
        The answer.
    sentences : sequence of Example
        Its sentences, in order.
    scored : Scores
        Holds their scores.
    first : int
        Where in it they begin.
    """
    if not sentences:
        return base.NO_SENTENCE
    rows = range(first, first + len(sentences))
    whys = dict.fromkeys(scored.reasons[row] for row in rows if row in scored.reasons)
    for why in whys:
        if isinstance(why, base.DetectorFailure):
            return why
    values = scored.values[rows.start : rows.stop]
    if np.isnan(values).all():
        return f"no sentence has a score: {'; '.join(whys)}"
    items = [_item(example, k, it, scored) for k, it in zip(sentences, rows, strict=True)]
    return float(np.nanmax(values)), {"kind": "sentences", "items": items}


def _item(
    example: Example, sentence: Example, row: int, scored: base.Scores
) -> dict[str, base.JSON]:
    # What a sentence follows is known where it is a part of its answer, not the answer itself.
    start = 0 if sentence is example else len(sentence.before or "")
    item: dict[str, base.JSON] = {"text": sentence.response, "start": start}
    item |= {"end": start + len(sentence.response), **_said(scored, row)}
    if "evidence" in item:
        item["evidence"] = shift_offsets(item["evidence"], start)
    return item


def shift_offsets(evidence: Mapping[str, base.JSON], by: int) -> dict[str, Any]:
    """Return a sentence's evidence with its places as those in the answer.

    >>> evidence = {"kind": "words", "items": [{"text": "1853", "start": 3, "end": 7}]}
    >>> shift_offsets(evidence, 10)["items"]
    [{'text': '1853', 'start': 13, 'end': 17}]
    """
    items = []
    for given in evidence.get("items", ()):
        item = dict(given)
        for edge in ("start", "end"):
            if edge in item:
                item[edge] += by
        if isinstance(item.get("evidence"), Mapping):
            item["evidence"] = shift_offsets(item["evidence"], by)
        items.append(item)
    return {**evidence, "items": items}
