"""A look at labelled answers: by what they are known again, and what two looks have in common.

Answers are known again by their texts; where one of two looks has none, by their ids, or all that
their rows hold, if most labels are the same, too; else by label and score to four digits, by the
labels in the order of the scores, or in that of the file. Of each, a look keeps the lowest digests,
a fair sample of them all (as in a bottom-k sketch). Of 256 answers it keeps sketches, of 240 bytes
each, by which they are known again where a fifth of them are reworded.
"""

import json
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from itertools import starmap
from math import nan
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from calibrail import guardrail
from calibrail.data.duplicates import SAMPLED, Sketches, alike_texts
from calibrail.data.example import Example, ascending, mix64, n_repeated
from calibrail.data.splits import TEST
from calibrail.data.values import group_name
from calibrail.options import Requirement
from calibrail.pipelines.calibration_overlap import ALIKE, KnownBy, rounded
from calibrail.pipelines.scoring import Scored
from calibrail.serialization import Record

#: Digests kept of every look, and of the answers of a large one: a share of them, at most so many,
#: so that a few hundred of them are known again.
KEPT: Final = 256
_KEPT_SHARE, _MOST_KEPT = 0.05, 16_384
#: Share of the answers that were looked at before from which a look is a further one.
VOID: Final = 0.1
#: Share of the smaller look's digests from which two looks are at the same answers; so much more
#: than chance must labels agree where scores of one detector can tell that answers are others.
_SAME: Final = 0.5
#: So much more must they agree where nothing but ids and labels can: other answers to the same
#: questions are often hallucinated where the first ones were.
_BY_LABELS: Final = 0.8
#: Fewest answers from whose scores it is told that those of one id are two, and the correlation
#: of their scores within the classes below which they are.
_FEWEST, _UNRELATED = 20, 0.7
#: Share of rewordings, beyond that among a look's own answers, from which two are at the same:
#: answers of another model to the same questions are fewer.
_REWORDED: Final = 0.2
#: Labels in a row by which answers in the order of their scores are known, and how often these
#: change in it at least: others come by chance. So do those of a file of which more come again.
_ROW, _CHANGES, _AGAIN = 32, 8, 0.1
#: Rows of them that are made at a time.
_WINDOWS: Final = 1 << 20
#: Fewest such rows.
_ROWS: Final = 5
#: Digits of scores by which answers are known.
DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class DataUse(Record):
    """One look at labelled data.

    Attributes
    ----------
    n : int
        Answers.
    seed : int or None
        Of the split; None where the data says it or there is none.
    content : str
        Digest of all answers' digests, whatever their order.
    lowest, answers : tuple of str
        The lowest digests of its answers, as they are spelt and whatever their spelling; empty
        where these do not tell them apart.
    verdict : str
        What it said.
    assumed : bool
        Whether all answers were taken as independent.
    reported : bool
        Whether it is the look of the guardrail's own report at its test part.
    detector : str
        Digest of the detector's specification, or of what a guardrail decides by.
    question : str
        Digest of what was asked about it (alpha, guarantee, ...).
    session : str
        Digest of what was agreed on before answers were labelled one after another; empty where
        they were not. However far it goes on, it is one look.
    traces, folder : str
        Of such a session: the digest of what it draws from, and where its labels are.
    told : str
        Digest of all answers with their labels, parts, and scores or decisions; with the question
        and the limits it makes the very same look.
    limits : str
        The limits as JSON.
    compared : tuple of str
        The digests of all detectors' specifications, where several stood side by side.
    given : str
        Digest of what was asked as it was named: guarantee and delta may have been left open. Of a
        guardrail, that of its thresholds and its report's scores, where no other has these.
    rows : str
        Digest of all answers with their labels and scores to the last digit, whatever their parts.
    whole : bool
        Whether no part is left that tests, so that parts change nothing.
    order : int
        Its place among all looks of the file, from 1 on; 0 in older ones.
    by : str
        What tells the answers from others: texts, id, or less.
    names : tuple of str
        The lowest digests of ids, each with the answer's label and score; without ids, of rows that
        differ.
    values, repeated : tuple of str, float
        The lowest digests of labels with scores to four digits, and how many occur again.
    ranks, placed : tuple of str
        The lowest digests of labels in a row, in the order of the scores, and of the file.
    score : str
        Digest of the specification of a guardrail's detector; else ``detector`` is it.
    sketches : str
        Of a sample of the answers (`Sketches.sample`), 82 kB at most, from which no text can be
        read; empty without texts, and in older files.
    faithful, hallucinated : tuple of str
        As ``answers``, the lowest digests of each class; empty in older files.
    near : str
        What was tried beside it, here and in the folders beside this one, as JSON; empty in older
        files.
    share : float or None
        Of the error that verdicts may have, what this look may err with; None in older files.
    declared : int or None
        How many looks there were to be.
    """

    later: ClassVar = (
        *("answers", "told", "limits", "names", "values", "repeated", "ranks", "share", "declared"),
        *("by", "order", "compared", "given", "rows", "whole", "sketches"),
        *("placed", "score", "near", "faithful", "hallucinated"),
    )
    #: By which earlier versions knew a look again.
    derived: ClassVar = ("split", "answers_split", "valued", "tried", "again")

    n: int
    seed: int | None
    content: str
    lowest: tuple[str, ...]
    verdict: str = ""
    assumed: bool = False
    reported: bool = False
    detector: str = ""
    question: str = ""
    session: str = ""
    traces: str = ""
    folder: str = ""
    answers: tuple[str, ...] = ()
    told: str = ""
    limits: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    repeated: int | float = 0.0
    ranks: tuple[str, ...] = ()
    share: int | float | None = None
    declared: int | None = None
    by: str = ""
    order: int = 0
    compared: tuple[str, ...] = ()
    given: str = ""
    rows: str = ""
    whole: bool = False
    sketches: str = ""
    placed: tuple[str, ...] = ()
    score: str = ""
    near: str = ""
    faithful: tuple[str, ...] = ()
    hallucinated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for item in fields(self):
            value, kind = getattr(self, item.name), cast(Any, item.type)
            if kind == tuple[str, ...]:
                spelt = "[0-9a-f]{16}" + "-?[01] [-+.0-9a-z]+" * (item.name == "names")
                lines = "".join([f"{text}\n" for text in value])
                right = {*map(type, value)} <= {str} and lines.count("\n") == len(value)
                right = right and re.fullmatch(f"(?:{spelt}\n)*+", lines) is not None
            else:
                right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not right:
                raise ValueError(f"{item.name} of a look is {value!r:.40}")
        Sketches.from_text(self.sketches)

    @classmethod
    def at(
        cls,
        digests: NDArray[np.uint64],
        labels: NDArray[np.int8],
        scores: NDArray[np.float64],
        *,
        told_by: Sequence[NDArray[np.uint64]] = (),
        kinds: Iterable[str] = (),
        codes: NDArray[np.int8] | None = None,
        marks: Sequence[NDArray[np.uint64]] = (),
        decided: bool = False,
        sketches: Sketches | None = None,
    ) -> "DataUse":
        """Return the look at answers with these digests, labels, scores and parts of a split.

        ``digests`` are of what texts say, ``told_by`` of texts as they stand and of ids beside
        them, ``kinds`` what tells the answers apart, and ``marks`` stand for what else verdicts
        rest on: labels of their sentences, and their groups. Where ``decided``, the codes are
        decisions, which count in place of the scores. ``sketches`` are of all of them.
        """
        known, near = set(kinds), rounded(scores, DIGITS)
        bits = np.where(np.isnan(near), nan, near).view(np.uint64)
        parts = np.zeros(len(digests), np.int8) if codes is None else codes
        exact = np.where(np.isnan(scores), nan, scores + 0.0).view(np.uint64)
        answered = _mixed(digests, labels)
        told, rows = (
            _of_all(_mixed(*first, *([] if decided else [values]), *marks, mixed=answered))
            for first, values in (([parts], bits), ([], exact))
        )
        answers, apart = _known_by(digests, scores, known)
        numbers = answers
        if told_by and not np.array_equal(told_by[0], digests):
            numbers = _known_by(told_by[0], scores, known)[0]
        most = max(KEPT, min(_MOST_KEPT, int(_KEPT_SHARE * len(digests))))
        values = mix64(bits ^ mix64(labels.astype(np.uint64)))[~np.isnan(scores)]
        by = "id" if known - {"texts"} else "".join(known)
        by = "rows" if known & {"content", "nothing"} else by
        alike = by == "rows" and not _differ(digests, known)
        placed = _in_rows(labels, np.arange(len(labels), dtype=np.float64))
        sampled = sketches and sketches.sample()
        return cls(
            len(digests),
            None,
            _of_all(numbers),
            _lowest(numbers, most) if apart else (),
            answers=_lowest(answers, most) if apart else (),
            faithful=_lowest(answers[labels == 0]) if apart else (),
            hallucinated=_lowest(answers[labels == 1]) if apart else (),
            told=told,
            rows=rows,
            by=by,
            names=() if alike else _named(told_by[1] if told_by else digests, labels, near),
            values=_lowest(values),
            repeated=round(n_repeated(values) / max(1, len(values)), 4),
            ranks=_lowest(_in_rows(labels, scores)),
            placed=_lowest(placed) if n_repeated(placed) <= _AGAIN * len(placed) else (),
            sketches=sampled.to_text() if sampled else "",
        )

    def chose(self, look: "DataUse") -> bool:
        """Return whether it may have chosen another look's detector: one of several, not its own.

        By another name the detector is known by its scores, or by their order.
        """
        if look.detector in self.compared or look.compared or not self.compared:
            return look.detector in self.compared and look.detector != self.detector
        # A judge of few values has all of its own among those of others.
        repeated = max(look.repeated, self.repeated)
        values = _beyond(_common(look.values, self.values), look, self, repeated)
        return bool(values[0] or _by_ranks(look, self)[0])

    def goes_on_with(self, subject: str, name: str, other: "DataUse") -> bool:
        """Return whether another look is at the same guardrail, however named, or at these answers.

        Of this one the ``subject`` is given, of the other one the ``name``.
        """
        return name == subject or self.decides_as(other) or self.is_at_answers_of(other)

    def decides_as(self, other: "DataUse") -> bool:
        """Return whether another look is at a guardrail of these thresholds, whatever its score."""
        return self.detector == other.detector != "" or self.given == other.given != ""

    def is_at_answers_of(self, other: "DataUse") -> bool:
        """Return whether it is at so many answers of another look that it goes on with that."""
        return exceeds_reuse_limit(overlapping_uses(self, [other]))

    def error(self, asked: float) -> float:
        """Return what its verdicts might err with by itself; what is asked now where none says."""
        return 1.0 - float(json.loads(self.limits or "{}").get("confidence", asked))

    def same(self, other: "DataUse") -> bool:
        """Return whether this is the very same look as an earlier one, or goes on with it."""
        if self.session or other.session:
            return self.session == other.session
        about = attrgetter("seed", "assumed", "reported", "question", "detector")
        own, its = about(self), about(other)
        if not (self.told and other.told):
            # An earlier version kept it, without its limits.
            return own == its and self.content == other.content
        # Earlier versions did not keep the rows.
        rows = self.rows == other.rows or not (self.rows and other.rows)
        if own == its and self.told == other.told and rows:
            return self._same_limits(other)
        return self._asks_after(other) and self._same_limits(other)

    def _asks_after(self, other: "DataUse") -> bool:
        """Return whether this look first asks for a verdict on what the other one showed.

        Nothing was chosen by it: guarantee and delta follow from the limit, as nobody named them,
        and what is promised was fixed before.
        """
        about = attrgetter("assumed", "reported", "detector", "given", "rows")
        unasked = json.loads(other.limits or "{}").get("min_coverage") is None
        parts = self.whole or (self.seed, self.told) == (other.seed, other.told)
        return bool(self.given) and about(self) == about(other) and unasked and parts

    def _same_limits(self, other: "DataUse") -> bool:
        """Return whether an earlier look had these limits, or had not the one that decides yet.

        The first limit may be read off: its bound holds wherever it comes to lie, and what must be
        caught was fixed before.
        """
        if self.limits == other.limits:
            return True
        then, now = json.loads(other.limits or "{}"), json.loads(self.limits or "{}")
        later = {"sentence": ("min_kept",), "threshold": ("max_fpr", "min_coverage")}
        unset = dict.fromkeys(later.get(then.get("unit"), ("max_fpr",)))
        return bool(then.items() >= unset.items() and then == {**now, **unset})

    def common(self, other: "DataUse") -> tuple[set[str], int]:
        """Return which of a fair sample of these answers the other look has, and its size."""
        # Other lots from the same traces are another chance, whichever answers they fall on.
        alike = self.traces and self.traces == other.traces
        if alike or (self.n and self.content == other.content):
            mine = self.answers if self.answers and other.answers else self.lowest
            return set(mine) or {self.content}, len(mine) or 1
        # Earlier versions took other spellings for the same, or for another answer.
        ways = [_common(self.answers, other.answers), _common(self.lowest, other.lowest)]
        # What is caught rests on one class, and false alarms on the other one.
        of_class = (self.faithful, other.faithful), (self.hallucinated, other.hallucinated)
        # A single answer of a class may have come again by itself.
        ways += [way for way in starmap(_common, of_class) if len(way[0]) >= _ROWS]
        by_texts = self.by == other.by == "texts"
        ways += self._by_name(other)
        # Texts may lack a column that they had: labels and scores tell, too.
        ways.append(_beyond(_common(self.values, other.values), self, other, other.repeated))
        ways.append(_by_ranks(self, other))
        in_order = _common(self.placed, other.placed)
        # Texts tell by themselves, and so do ids with one detector's scores of many values: of
        # every batch the labels may be shuffled alike.
        others = not other.reported and self.detector != other.detector
        told = self.by == other.by == "id" and not others and self.repeated <= _SAME
        if in_order[1] >= _ROWS and not (by_texts or told):
            ways.append(_beyond(in_order, self, other, 0.0))
        if self.sketches and other.sketches:
            again, near = _reworded(self.sketches, other.sketches)
            both, size = set(map(str, np.flatnonzero(again).tolist())), len(again)
            repeated = float(near.sum()) / max(1, size)
            ways.append(_beyond((both, size), self, other, repeated, _REWORDED))
        return max(ways, key=lambda way: len(way[0]) / max(1, way[1]))

    def _by_name(self, other: "DataUse") -> list[tuple[set[str], int]]:
        """Return which answers, of all and of each class, have the other look's ids and labels.

        Another batch may be numbered alike: its labels are others, and so is what one detector
        says of its answers.
        """
        mine, theirs = ({it[:16]: it[16:].split() for it in k.names} for k in (self, other))
        both, size = _common(tuple(mine), tuple(theirs))
        if not both:
            return []
        cells = [[names[key] for key in both] for names in (mine, theirs)]
        labels, scores = np.moveaxis(np.array(cells, np.float64), 2, 0)
        agree = labels[0] == labels[1]
        shares = (labels == 1).mean(axis=1)
        patterned = min(len(self.placed), len(other.placed)) < _ROWS
        rare = min(*shares, *(1.0 - shares)) * len(both)
        if self.by == other.by == "texts" and (patterned or rare < _ROWS):
            # Texts are others: labels that follow a pattern, or are few of a class, tell nothing.
            return []
        chance = shares.prod() + (1.0 - shares).prod()
        usable = agree & ~np.isnan(scores).any(axis=0)
        # A guardrail's own report is by its own detector.
        alike = other.reported or self.detector == other.detector
        least = _BY_LABELS
        if alike and usable.sum() >= _FEWEST:
            within = [_ranks_within(row[usable], labels[0][usable]) for row in scores]
            if spread := np.std(within[0]) * np.std(within[1]):
                related = abs(np.mean(within[0] * within[1])) >= _UNRELATED * spread
                # Labels that follow no pattern are not the same by chance, whatever the scores.
                least = _SAME if related else np.inf if patterned else _BY_LABELS
        if agree.mean() < chance + least * (1.0 - chance):
            return []
        parts = [{key for key, (label, _) in mine.items() if label == name} for name in ("0", "1")]
        of_class = (_common(tuple(mine), tuple(theirs), part) for part in parts)
        return [(both, size), *(way for way in of_class if len(way[0]) >= _ROWS)]


def _ranks_within(values: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value in its class, from -1/2 to 1/2; values that tie share it."""
    result = np.zeros(len(values))
    for label in set(labels.tolist()):
        rows = labels == label
        ordered = np.sort(values[rows])
        places = [np.searchsorted(ordered, values[rows], side) for side in ("left", "right")]
        result[rows] = (places[0] + places[1]) / 2.0 / len(ordered) - 0.5
    return result


def _beyond(
    way: tuple[set[str], int], look: DataUse, other: DataUse, repeated: float, least: float = _SAME
) -> tuple[set[str], int]:
    """Return what two looks have in common where it is more than chance; nothing else.

    Chance gives what a look of its own answers has ``repeated``, more where the other is larger.
    """
    both, size = way
    times = other.n / max(1, look.n)
    chance, part = repeated * max(1.0, times), min(1.0, times)
    enough = chance <= _SAME and len(both) >= size * (chance + least * part * (1.0 - chance))
    return (both, size) if enough else (set(), size)


def _by_ranks(look: DataUse, other: DataUse) -> tuple[set[str], int]:
    """Return what two looks have in common by the labels in the order of the scores."""
    few = min(len(look.ranks), len(other.ranks)) < _ROWS
    return _beyond(_common(look.ranks, other.ranks), look, other, float(few))


def _common(
    one: Sequence[str], other: Sequence[str], among: Container[str] | None = None
) -> tuple[set[str], int]:
    """Return which of a fair sample of one look's digests the other's hold, and its size.

    Of all of them, or those that are ``among`` some.
    """
    # Only below the lower of both limits do both samples hold all that there is.
    limit = min(kept[-1] if len(kept) >= KEPT else "g" for kept in (one, other))
    sample = {item for item in one if item <= limit and (among is None or item in among)}
    return sample & set(other), len(sample)


def _mixed(*columns: NDArray[Any], mixed: Any = 0) -> NDArray[np.uint64]:
    """Return a number for each row of some columns, after those that are mixed already."""
    for column in columns:
        mixed = mix64(mixed ^ column.astype(np.uint64))
    return np.asarray(mixed)


def _of_all(numbers: NDArray[np.uint64]) -> str:
    """Return a digest of numbers in any order."""
    return sha256(ascending(numbers).astype("<u8").data).hexdigest()


def _lowest(numbers: NDArray[np.uint64], most: int = KEPT) -> tuple[str, ...]:
    """Return so many of the lowest numbers, each once."""
    return tuple(f"{value:016x}" for value in numbers[_places(numbers, most)].tolist())


def _named(
    digests: NDArray[np.uint64], labels: NDArray[np.int8], scores: NDArray[np.float64]
) -> tuple[str, ...]:
    """Return the lowest digests, each once, with label and score."""
    places = _places(digests, KEPT).tolist()
    return tuple(f"{digests[i]:016x}{labels[i]} {scores[i]:.6g}" for i in places)


def _places(numbers: NDArray[np.uint64], most: int) -> NDArray[np.intp]:
    """Return where so many of the lowest numbers first stand, each once; few are put in order."""
    among = most
    while among < len(numbers):
        low = np.flatnonzero(numbers <= np.partition(numbers, among)[among])
        first = np.unique(numbers[low], return_index=True)[1]
        if len(first) >= most:
            return low[first[:most]]
        among *= 16
    return np.unique(numbers, return_index=True)[1][:most]


def _in_rows(labels: NDArray[np.int8], scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return digests of the labels in a row, in the order of the scores, either way."""
    known = ~np.isnan(scores)
    values, wrong = scores[known], labels[known] == 1
    ordered = np.zeros(len(values), np.bool_)
    # Of answers of one score, the hallucinated ones come last.
    others, own = np.sort(values[~wrong]), np.sort(values[wrong])
    ordered[np.searchsorted(others, own, "right") + np.arange(len(own))] = True
    if len(ordered) < _ROW:
        return np.zeros(0, np.uint64)
    begins = range(0, len(ordered) - _ROW + 1, _WINDOWS)
    return np.concatenate([_windows(ordered[at : at + _WINDOWS + _ROW - 1]) for at in begins])


def _windows(ordered: NDArray[np.bool_]) -> NDArray[np.uint64]:
    ahead = back = ordered.astype(np.uint64)
    # Bits of neighbouring rows become rows of twice the length.
    for width in np.uint64(1) << np.arange(_ROW.bit_length() - 1, dtype=np.uint64):
        end = len(ahead) - int(width)
        ahead = ahead[:end] | (ahead[-end:] << width)
        back = (back[:end] << width) | back[-end:]
    changes = np.append(0, np.cumsum(ordered[1:] != ordered[:-1]))
    enough = changes[_ROW - 1 :] - changes[: len(ahead)] >= _CHANGES
    return mix64(np.minimum(ahead, back)[enough])


#: Earlier looks, each with the estimated share of the answers that it was the first to look at.
Earlier: TypeAlias = tuple[tuple[DataUse, float], ...]


def overlapping_uses(look: DataUse, others: Sequence[DataUse], *, every: bool = False) -> Earlier:
    """Return the looks at data that shares answers with this one, each with the share it adds.

    With ``every`` those at other data return, too.

    Those that return without traces drew from other ones.
    """
    found, result = set[str](), []
    for other in others:
        among, size = look.common(other)
        if among or every:
            same = other if other.traces == look.traces else replace(other, traces="")
            result.append((same, len(among - found) / max(1, size)))
        found |= among
    return tuple(result)


def exceeds_reuse_limit(earlier: Earlier) -> bool:
    """Return whether so many answers were looked at before that this is a further look."""
    # Of several estimates, each of which is a share of another sample.
    return sum(share for _, share in earlier) >= VOID - 1e-9


def limits_of(requirement: Requirement, unit: str) -> str:
    """Return what is required, as JSON, but for how many looks there are to be."""
    asked = {**replace(requirement, n_looks=None).to_dict(), "min_kept": requirement.min_kept}
    return json.dumps({**asked, "unit": unit}, sort_keys=True)


class TestSetFingerprint:
    """Collects which answers are looked at, one by one.

    Rows of scores are known by id and score together. Those without an id are known by their
    scores, which further columns beside them do not change; where many have the same score, by all
    that the row holds; where many of these are alike, too, not at all.
    """

    def __init__(self) -> None:
        self.known_by = KnownBy()
        self._scores, self._labels = list[float](), list[int]()
        self._marks, self._decided = list[int](), list[int]()

    def add(self, example: Example, score: float | None, decided: int | None = None) -> None:
        """Add one answer; what was decided about it counts in place of its score."""
        self.known_by.add(example)
        if decided is not None:
            self._decided.append(decided)
        self._labels.append(int(example.label or 0))
        self._scores.append(nan if score is None else score)

    def mark(self, labels: Iterable[int | None]) -> None:
        """Note the labels of the sentences of the answer that was added last: they count, too."""
        self._marks.append(_of_marks(-1 if label is None else label for label in labels))

    def look(self, sketches: Sketches | None, *, assumed: bool) -> DataUse:
        """Return the look at all of them, of which sketches are given."""
        look = DataUse.at(
            self.known_by.digests,
            np.array(self._labels, np.int8),
            np.array(self._scores, np.float64),
            told_by=(self.known_by.spelt, self.known_by.ids),
            kinds=self.known_by.kinds,
            codes=np.array(self._decided, np.int8) if self._decided else None,
            marks=[np.array(self._marks, np.uint64)] if self._marks else (),
            decided=bool(self._decided),
            sketches=sketches,
        )
        return replace(look, assumed=assumed)


def with_reuse_reported(scored: Scored, *, everyone: bool, verdict: str) -> DataUse:
    """Return the look of a guardrail's own report: at the test part by the first detector.

    With ``everyone``, at the faithful calibration answers, too, on which a certificate rests where
    the coverage is proven by construction.
    """
    codes, labels = scored.codes, scored.table.labels
    rows = (codes == TEST) | (everyone & (codes > 0) & (labels == 0))
    return replace(look_at(scored, scored.keys[0], rows), verdict=verdict, reported=True)


def own_look(config: "guardrail.FrozenConfig") -> tuple[DataUse, ...]:
    """Return the look of a guardrail's own report, where its file holds it."""
    held = config.data.looked_at
    return () if held is None else (DataUse.from_dict(held),)


def look_at(scored: Scored, key: str, rows: NDArray[np.bool_] | slice) -> DataUse:
    """Return the look at some scored answers by the detector in one column."""
    marks, digests, kept = list[NDArray[np.uint64]](), scored.known_by.digests, scored.table.kept
    if (sentences := scored.sentences) is not None:
        each = np.split(sentences.labels, sentences.first[1:-1])
        marks.append(np.array([_of_marks(part.tolist()) for part in each], np.uint64))
    # Which answers of a group count, and which topics get a verdict, is another chance.
    names = (np.array([*map(group_name, cells)], object) for cells in kept.values())
    told = (np.unique(cells, return_inverse=True)[1] for cells in names)
    marks += [parted(digests, part) for part in (scored.groups, *told) if n_repeated(part)]
    if n_repeated(scored.groups) or (scored.data["copies"] or {}).get("n"):
        # So are the lots that say which count: they follow from seed, spelling and ids.
        marks.append(scored.lots)
    look = DataUse.at(
        digests[rows],
        scored.table.labels[rows],
        scored.table.columns[key][rows],
        told_by=(scored.known_by.spelt[rows], scored.known_by.ids[rows]),
        kinds={kind for kind, n in scored.data["known_by"].items() if n and kind != "alike"},
        codes=scored.codes[rows],
        marks=[item[rows] for item in marks],
        sketches=scored.sketches and scored.sketches.of_rows(rows),
    )
    return replace(look, seed=scored.data["split"]["seed"])


def parted(digests: NDArray[np.uint64], numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the lowest digest among those of an answer's group, however that is numbered.

    >>> parted(np.array([5, 3, 4], np.uint64), np.array([0, 1, 0])).tolist()
    [4, 3, 4]
    """
    lowest = np.full(len(digests), ~np.uint64(0))
    np.minimum.at(lowest, numbers, digests)
    return lowest[numbers]


def _of_marks(labels: Iterable[int]) -> int:
    """Return a number for the labels of an answer's sentences, from -1 to 1."""
    return int.from_bytes(sha256(bytes(label + 1 for label in labels)).digest()[:8], "little")


def _known_by(
    digests: NDArray[np.uint64], scores: NDArray[np.float64], known: set[str]
) -> tuple[NDArray[np.uint64], bool]:
    """Return the numbers by which answers are known, and whether these tell them apart."""
    if known <= {"texts"}:
        return digests, True
    # Adding zero makes one of both zeros.
    hashed = mix64((scores + 0.0).view(np.uint64))
    if not known & {"content", "nothing"}:
        # Another batch may be numbered alike: an id is one answer only together with its score.
        return mix64(digests ^ hashed), True
    if _differ(hashed := ascending(hashed)):
        return hashed, True
    return (digests, True) if _differ(digests, known) else (hashed, False)


def _differ(numbers: NDArray[np.uint64], known: Iterable[str] = ()) -> bool:
    """Return whether numbers tell rows apart: of one that nothing is known of it is its place."""
    return "nothing" not in known and n_repeated(numbers) <= ALIKE * len(numbers)


def digest_of(content: Any) -> str:
    """Return a short digest of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")
    return sha256(text).hexdigest()[:16]


#: Of the responses of which one is the other one reworded: answers of other models to the same
#: questions hardly are (of FaithBench's and RAGTruth's at most 13 % between any two).
_OF_RESPONSE: Final = 0.5


@lru_cache(maxsize=64)
def _reworded(mine: str, theirs: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which answers of a sample may be another one's reworded, and which one another.

    Of the word pairs of their responses half are shared: some words, the order of sentences and
    punctuation are others. Of the sample those count that would be in the other one.

    Parameters
    ----------
    mine, theirs : str
        Of both samples (`Sketches.sample`) the text (`Sketches.to_text`).

    Returns
    -------
    (ndarray of bool, ndarray of bool)
        Of each answer that counts.
    """
    one, other = map(Sketches.from_text, (mine, theirs))
    full = [item.order[-1] for item in (one, other) if len(item) == SAMPLED]
    rows = np.flatnonzero(one.order <= min(full, default=~np.uint64(0)))
    # What many answers say, as an apology is, counts once.
    first, times = np.unique(one.exact[rows], return_index=True, return_counts=True)[1:]
    every = one.joined(other)
    held = [((it.parts[:, 0] != 0xFF).any(), it.contexts.any()) for it in (one, other)]
    if held[0] != held[1]:
        # Of texts that one lacks, or that stand in a question there, nothing can be told; nor of
        # responses that several questions have.
        first = first[times == 1]
        every = replace(every, parts=every.parts[:, [1, 1]], contexts=0 * every.contexts)
    # Of eight values two that share half have one in common all but 4 times in 1,000.
    rows = rows[first]
    near = np.logical_or.reduce([np.equal.outer(v[rows], v) for v in every.parts[:, 1, :8].T])
    left, right = np.nonzero(near)
    near[left, right] = alike_texts(every, rows[left], right, _OF_RESPONSE)
    again, fresh = np.split(near, [len(one)], axis=1)
    again &= one.exact[rows, np.newaxis] != one.exact
    return np.logical_or.reduce(fresh, axis=1), np.logical_or.reduce(again, axis=1)
