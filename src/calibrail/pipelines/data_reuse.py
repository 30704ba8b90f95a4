"""Looks at labelled answers: what each may err with, and what it leaves to the next ones.

A verdict errs with a stated probability once. Who looks, labels some more and looks again, tries
other limits, or splits the same data by seed after seed, has as many chances as looks. So a file
beside the results keeps the looks, and they share that probability: by the union bound all of
them together err with no more than one.

The looks of a guardrail spend it, whatever they are at: each takes three quarters of what is left,
or an equal part where their number was declared. A threshold that a run makes is new each time;
there the first look at answers has all of it, and later ones have what was declared beforehand.

Whoever sets detectors side by side may choose among them: a detector that stood beside others in a
look here, or in a folder beside this one, has no certificate from these answers. Where others had
looks of their own in folders beside it, nobody knows whether these chose it; that is said.

Answers are known again by their texts; by their ids, or all that their rows hold, where most labels
are the same, too; else by label and score to four digits, or by the labels in the order of the
scores; where rows have no ids, by their labels in the order of the file, too. Of each, a look keeps
the lowest digests, a fair sample of them all (as in a bottom-k sketch). Of 256 answers it keeps
sketches, of 240 bytes each, by which they are known again where a fifth of them are reworded.

Labels of one folder are one look, from where they were begun, and so is a verdict that is
recomputed.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from math import nan
from operator import attrgetter
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from calibrail.atomic_files import folder_lock, new_folder, read_regular, write_atomically
from calibrail.data.duplicates import Sketches, reworded
from calibrail.data.example import Example, mix64, n_repeated
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import DataError, InputError, file_errors
from calibrail.evaluation import Report
from calibrail.evaluation.evaluate import ReportWarning
from calibrail.guardrail.file import FrozenConfig
from calibrail.labelling.folder import agreed_on, read_plan
from calibrail.labelling.ledger import LedgerAnswer, SessionPlan
from calibrail.options import Costs, Promise, Requirement
from calibrail.options.fields import cli_or_python, spell_option
from calibrail.options.guarantee import TAKEN
from calibrail.pipelines.calibration_overlap import (
    ALIKE,
    KnownBy,
    revised_report,
    rounded,
    withdrawn_for,
    without_cost_bound,
)
from calibrail.pipelines.scoring import Scored
from calibrail.report.documents.calibrate_sections import (
    few_looked_before,
    looked_before,
    message,
)
from calibrail.report.messages import say, spell
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
#: Fewest such rows.
_ROWS: Final = 5
#: Digits of scores by which answers are known.
_DIGITS: Final = 4


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
        Digest of what was asked as it was named: guarantee and delta may have been left open.
    rows : str
        Digest of all answers with their labels and scores to the last digit, whatever their parts.
    whole : bool
        Whether no part is left that tests, so that seed and parts change nothing.
    tried : int
        Other detectors that had looks of their own at these answers, in folders beside this one.
    again : int
        Other looks of this detector at them, there.
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
    share : float or None
        Of the error that verdicts may have, what this look may err with; None in older files.
    declared : int or None
        How many looks there were to be.
    """

    later: ClassVar = (
        *("answers", "told", "limits", "names", "values", "repeated", "ranks", "share", "declared"),
        *("by", "order", "compared", "tried", "again", "given", "rows", "whole", "sketches"),
        *("placed", "score"),
    )
    #: By which earlier versions knew a look again.
    derived: ClassVar = ("split", "answers_split", "valued")

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
    tried: int = 0
    again: int = 0
    given: str = ""
    rows: str = ""
    whole: bool = False
    sketches: str = ""
    placed: tuple[str, ...] = ()
    score: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            value, kind = getattr(self, item.name), cast(Any, item.type)
            if kind == tuple[str, ...]:
                spelt = re.compile("[0-9a-f]{16}" + "-?[01] [-+.0-9a-z]+" * (item.name == "names"))
                right = all(isinstance(text, str) and spelt.fullmatch(text) for text in value)
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
        spelt: NDArray[np.uint64] | None = None,
        kinds: Iterable[str] = (),
        codes: NDArray[np.int8] | None = None,
        marks: NDArray[np.uint64] | None = None,
        decided: bool = False,
        sketches: Sketches | None = None,
    ) -> "DataUse":
        """Return the look at answers with these digests, labels, scores and parts of a split.

        ``digests`` are of what texts say, ``spelt`` of texts as they stand, ``kinds`` what tells
        the answers apart, and ``marks`` stand for the labels of their sentences, where they count.
        Where ``decided``, the codes are decisions, which count in place of the scores. ``sketches``
        are of all of them.
        """
        known, near = set(kinds), rounded(scores, _DIGITS)
        bits = np.where(np.isnan(near), nan, near).view(np.uint64)
        parts = np.zeros(len(digests), np.int8) if codes is None else codes
        exact = np.where(np.isnan(scores), nan, scores + 0.0).view(np.uint64)
        last = [] if marks is None else [marks]
        told, rows = (
            _of_all(_mixed(digests, labels, *first, *([] if decided else [values]), *last))
            for first, values in (([parts], bits), ([], exact))
        )
        answers, apart = _known_by(digests, scores, known)
        numbers = answers if spelt is None else _known_by(spelt, scores, known)[0]
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
            told=told,
            rows=rows,
            by=by,
            names=() if by == "texts" or alike else _named(digests, labels, near),
            values=_lowest(values),
            repeated=round(n_repeated(values) / max(1, len(values)), 4),
            ranks=_lowest(_in_rows(labels, scores)),
            placed=_lowest(placed) if n_repeated(placed) <= _AGAIN * len(placed) else (),
            sketches=sampled.to_text() if sampled else "",
        )

    def chose(self, detector: str) -> bool:
        """Return whether it may have chosen a detector: one of several, not named as its own."""
        return detector in self.compared and detector != self.detector

    def goes_on_with(self, subject: str, name: str, other: "DataUse") -> bool:
        """Return whether another look is at the same guardrail, however named, or at these answers.

        Of this one the ``subject`` is given, of the other one the ``name``.
        """
        same = name == subject or other.detector == self.detector != ""
        return same or self.is_at_answers_of(other)

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
        mine, theirs = self.lowest, other.lowest
        if self.answers and other.answers:
            mine, theirs = self.answers, other.answers
        # Other lots from the same traces are another chance, whichever answers they fall on.
        alike = self.traces and self.traces == other.traces
        if alike or (self.n and self.content == other.content):
            return set(mine) or {self.content}, len(mine) or 1
        ways = [_common(mine, theirs), self._by_name(other)]
        # Texts may lack a column that they had: labels and scores tell, too.
        ways.append(_beyond(_common(self.values, other.values), self, other, other.repeated))
        if min(len(self.ranks), len(other.ranks)) >= _ROWS:
            ways.append(_beyond(_common(self.ranks, other.ranks), self, other, 0.0))
        in_order = _common(self.placed, other.placed)
        # One detector's scores tell by themselves.
        others = not other.reported and self.detector != other.detector
        if in_order[1] >= _ROWS and "rows" in (self.by, other.by) and others:
            ways.append(_beyond(in_order, self, other, 0.0))
        if self.sketches and other.sketches:
            again, near = reworded(self.sketches, other.sketches)
            both, size = set(map(str, np.flatnonzero(again).tolist())), len(again)
            repeated = float(near.sum()) / max(1, size)
            ways.append(_beyond((both, size), self, other, repeated, _REWORDED))
        return max(ways, key=lambda way: len(way[0]) / max(1, way[1]))

    def _by_name(self, other: "DataUse") -> tuple[set[str], int]:
        """Return which answers have the ids and the labels of the other look's.

        Another batch may be numbered alike: its labels are others, and so is what one detector
        says of its answers.
        """
        mine, theirs = (
            {item[:16]: item[16:].split() for item in look.names} for look in (self, other)
        )
        both, size = _common(tuple(mine), tuple(theirs))
        if not both:
            return both, size
        cells = [[names[key] for key in both] for names in (mine, theirs)]
        labels, scores = np.moveaxis(np.array(cells, np.float64), 2, 0)
        agree = labels[0] == labels[1]
        shares = (labels == 1).mean(axis=1)
        chance = shares.prod() + (1.0 - shares).prod()
        usable = agree & ~np.isnan(scores).any(axis=0)
        # A guardrail's own report is by its own detector.
        alike = other.reported or self.detector == other.detector
        least, related = _BY_LABELS, True
        if alike and usable.sum() >= _FEWEST:
            within = [_ranks_within(row[usable], labels[0][usable]) for row in scores]
            spread = np.std(within[0]) * np.std(within[1])
            if spread:
                least = _SAME
                related = abs(np.mean(within[0] * within[1])) >= _UNRELATED * spread
        if not related or agree.mean() < chance + least * (1.0 - chance):
            return set(), size
        return both, size


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


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[set[str], int]:
    """Return which of a fair sample of one look's digests the other's hold, and its size."""
    # Only below the lower of both limits do both samples hold all that there is.
    limit = min(kept[-1] if len(kept) >= KEPT else "g" for kept in (one, other))
    sample = {item for item in one if item <= limit}
    return sample & set(other), len(sample)


def _mixed(*columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each row of some columns."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = mix64(mixed ^ column.astype(np.uint64))
    return mixed


def _of_all(numbers: NDArray[np.uint64]) -> str:
    """Return a digest of numbers in any order."""
    return sha256(np.sort(numbers).astype("<u8").data).hexdigest()


def _lowest(numbers: NDArray[np.uint64], most: int = KEPT) -> tuple[str, ...]:
    """Return so many of the lowest numbers, each once."""
    ordered = np.sort(numbers)
    lowest = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]][:most]
    return tuple(f"{value:016x}" for value in lowest.tolist())


def _named(
    digests: NDArray[np.uint64], labels: NDArray[np.int8], scores: NDArray[np.float64]
) -> tuple[str, ...]:
    """Return the lowest digests, each once, with label and score."""
    _, first = np.unique(digests, return_index=True)
    return tuple(f"{digests[i]:016x}{labels[i]} {scores[i]:.6g}" for i in first[:KEPT].tolist())


def _in_rows(labels: NDArray[np.int8], scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return digests of the labels in a row, in the order of the scores, either way."""
    known = ~np.isnan(scores)
    ordered = (labels[known] == 1)[np.lexsort((labels[known], scores[known]))]
    if len(ordered) < _ROW:
        return np.zeros(0, np.uint64)
    rows = sliding_window_view(ordered.astype(np.uint64), _ROW)
    powers = np.uint64(1) << np.arange(_ROW, dtype=np.uint64)
    ahead, back = rows @ powers, rows @ powers[::-1]
    changes = np.append(0, np.cumsum(ordered[1:] != ordered[:-1]))
    enough = changes[_ROW - 1 :] - changes[: len(rows)] >= _CHANGES
    return mix64(np.minimum(ahead, back)[enough])


#: Earlier looks, each with the estimated share of the answers that it was the first to look at.
Earlier: TypeAlias = tuple[tuple[DataUse, float], ...]


def overlapping_uses(look: DataUse, others: Sequence[DataUse], *, every: bool = False) -> Earlier:
    """Return the looks at data that shares answers with this one, each with the share it adds.

    With ``every`` those at other data return, too.

    Those that return without traces drew from other ones.
    """
    found: set[str] = set()
    result = []
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


@dataclass(frozen=True, slots=True)
class Standing:
    """What a look may err with, among all that share one error.

    Attributes
    ----------
    number : int
        Of this look, from 1 on.
    share : float
        Of the error; 0 where nothing is left.
    left, following : float
        What it leaves of the error, and what of it the next look takes.
    declared : int or None
        How many looks there were to be.
    spent : tuple of DataUse
        Looks that it shares the error with, before it. Those that an earlier version kept took the
        whole error each.
    earlier : tuple
        Looks before it.
    compared : int
        Among how many detectors an earlier look at these answers chose this one; 0 where none did.
    tried, again : int
        How many others had looks of their own at them, and how many other looks it had, in folders
        beside it.
    """

    number: int = 1
    share: float = 1.0
    left: float = 0.0
    following: float = 0.0
    declared: int | None = None
    spent: tuple[DataUse, ...] = ()
    earlier: Earlier = ()
    compared: int = 0
    tried: int = 0
    again: int = 0

    def confidence(self, asked: float) -> float:
        """Return the confidence of this look's verdict; as asked where nothing is left."""
        return asked if self.share in (0.0, 1.0) else 1.0 - self.share * (1.0 - asked)

    def part_of(self, promise: Promise) -> Promise:
        """Return a promise of this very threshold with this look's part of its error."""
        if self.share in (0.0, 1.0) or not promise.of_this_threshold:
            return promise
        return replace(promise, delta=promise.delta * self.share)

    def strict(self, requirement: Requirement) -> Requirement:
        """Return a requirement at the confidence of this look."""
        return replace(requirement, confidence=self.confidence(requirement.confidence))

    def to_dict(self, asked: float) -> dict[str, Any]:
        """Return the number, and how likely this look, all of them, and the next one may err."""
        error = 1.0 - asked
        # Each look had its part of the error that was asked for then.
        before = [
            (1.0 if look.share is None else look.share) * look.error(asked) for look in self.spent
        ]
        rates = {
            "level": self.share * error,
            "together": sum(before) + (self.share + self.left) * error,
            "left": self.left * error,
            "next_level": self.following * error,
        }
        rates = {name: round(rate, 12) for name, rate in rates.items()}
        return {"number": self.number, **rates, "declared": self.declared}


def _shared(chain: Sequence[DataUse], n_looks: int | None, *, spends: bool) -> tuple[float, float]:
    """Return what is left after looks, and what of it the next one takes."""
    left = 1.0
    for look in chain:
        # Earlier versions kept looks that each took all of it.
        if look.share is None:
            left *= (1.0 - TAKEN) if spends else 0.0
    left -= sum(look.share or 0.0 for look in chain)
    left = left if left > 1e-9 else 0.0
    declared = [look for look in chain if look.declared is not None]
    if declared:
        further = (declared[0].declared or 0) - len(declared)
        return left, left / further if further > 0 else 0.0
    if n_looks is not None and (spends or not chain):
        return left, left / n_looks
    return left, TAKEN * left if spends else 0.0 if chain else left


def to_report_rows(earlier: Earlier) -> list[dict[str, Any]]:
    """Return earlier looks as a report holds them, without digests.

    Of labels that may go on it holds that they were begun: what is said once stays.
    """
    return [
        {
            "n": 0 if look.session else look.n,
            "seed": look.seed,
            "verdict": "begun" if look.session else look.verdict,
            "reported": look.reported,
            "shared": float(bool(look.traces)) if look.session else share,
            "folder": look.folder,
            "same_traces": bool(look.traces),
            "compared": len(look.compared),
        }
        for look, share in earlier
    ]


SCHEMA: Final = "calibrail.looks/1"
#: Subject of the looks at labelled answers that a run splits itself.
SPLIT: Final = "split"
#: Subject of those that a guardrail has taken over from the folders of runs.
BESIDE: Final = "beside"

_REMEDY: Final = "; it keeps what was looked at, so that a verdict is no second chance: "


def looks_of(guardrail: str | PathLike[str]) -> Path:
    """Return the file of looks that stands beside a guardrail's.

    >>> looks_of("guards/faq.json").as_posix()
    'guards/faq.looks.json'
    """
    return Path(guardrail).with_suffix(".looks.json")


#: Who keeps the looks at a guardrail: the file that is named, the one beside it (None), or nobody.
LooksFile: TypeAlias = str | PathLike[str] | Literal[False] | None
#: Looks at guardrails that have no file, as long as the process lives.
_HERE: Final = dict[str, tuple["DataUse", ...]]()
_ONE_AT_A_TIME: Final = Lock()


class DataUseHistory:
    """The file of looks, by subject: labelled answers with their split, or one guardrail.

    Parameters
    ----------
    path : path or None
        File that keeps them; None keeps none.
    here : bool
        Whether this process keeps them where there is no file.

    Raises
    ------
    DataError
        If the file is there and is damaged, or cannot be read or written: before any work is done.
    """

    def __init__(self, path: str | PathLike[str] | None, *, here: bool = False) -> None:
        self._path = None if path is None else Path(path)
        #: Whether looks are kept.
        self.keeps = here or self._path is not None
        if self._path is None:
            return
        self.read(self._path)
        folder = self._path.absolute().parent
        with self._writing():
            while not folder.exists():
                folder = folder.parent
            tempfile.TemporaryFile(dir=folder).close()

    @classmethod
    def of_guardrail(cls, file: str | PathLike[str] | None, looks: LooksFile) -> "DataUseHistory":
        """Return what keeps the looks at a guardrail of this file: at best the file beside it."""
        if looks is False:
            return cls(None)
        return cls(looks_of(file) if looks is None and file is not None else looks, here=True)

    def following(self, subject: Any, n_looks: int | None = None) -> float:
        """Return what the next look at a guardrail would take, whatever it is at."""
        if not self.keeps:
            return 1.0
        kept = _HERE if self._path is None else self.read(self._path)
        chain = kept.get(digest_of(subject), ())
        return _shared(chain, n_looks, spends=True)[1]

    def record(
        self,
        subject: Any,
        look: DataUse,
        *others: DataUse,
        spends: bool = False,
        n_looks: int | None = None,
        wants: float | None = None,
    ) -> Standing:
        """Keep a look, unless this very one is kept; return what it may err with.

        Parameters
        ----------
        subject : object
            Anything that JSON can hold.
        look : DataUse
            Its verdict follows, by `conclude`.
        *others : DataUse
            Looks that are kept elsewhere: after one at the same answers nothing is left.
        spends : bool
            Whether all looks of the subject share one error, and those of others at the same
            answers with them: a guardrail that is made anew until one is certified has as many
            chances. Else those at the same answers do.
        n_looks : int, optional
            How many looks there are to be, where the first one says so.
        wants : float, optional
            What a look was begun with; it gets that, or nothing. Of one that does not spend, at
            most that.

        Raises
        ------
        DataError
            If the file cannot be read or written.
        InputError
            If another number of looks was declared.
        """
        elsewhere = overlapping_uses(look, others)
        void = exceeds_reuse_limit(elsewhere)
        if not self.keeps:
            # Where nothing is kept, what was declared is taken at its word.
            share = 0.0 if void else _shared((), n_looks, spends=False)[1]
            return Standing(share=share, declared=n_looks, earlier=elsewhere)
        key, tried, again = digest_of(subject), 0, 0
        with self._changing() as questions:
            if spends:
                _take_over(questions, self._at_others(), partial(look.goes_on_with, key))
                # How many looks a run was to have says nothing of how many a guardrail has.
                beside = [replace(run, declared=None) for run in _looks_beside(self._path, True)]
                beside = [run for run in beside if look.is_at_answers_of(run)]
                _take_over(questions, ((digest_of(BESIDE), run) for run in beside), lambda *_: True)
                # Whatever share of the error they had, they may have chosen this guardrail.
                void = void or exceeds_reuse_limit(overlapping_uses(look, beside))
            else:
                beside = [*_looks_beside(self._path), *_looks_of_guardrails(self._path)]
                # Labels that grow may stand in files of several names.
                grown = (pair for pair in self._at_others() if pair[0] == key)
                _take_over(questions, grown, lambda _, item: look.is_at_answers_of(item))
                # They may have chosen this detector.
                chosen = ((key, item) for item in beside if item.chose(look.detector))
                _take_over(questions, chosen, lambda *_: True)
                tried, again = _n_tried(beside, look)
            kept = questions.get(key, ())
            place = next((i for i, item in enumerate(kept) if look.same(item)), len(kept))
            before, first = kept[:place], kept[place] if place < len(kept) else None
            order = 1 + sum(map(len, questions.values())) if first is None else first.order
            there = [
                item
                for name in questions
                for item in questions[name]
                if spends and name != key and item.order < order
            ]
            own = [*before, *(item for item in there if item.detector == look.detector != "")]
            own, there = [*_once(own)], [*_once(item for item in there if item not in own)]
            at_these = overlapping_uses(look, there if spends else own)
            chain = own if spends else []
            at_few = [item for item, _ in at_these]
            chose = [item for item in own if not spends and item.chose(look.detector)]
            # However many looks were declared, one of them chose the detector by these answers.
            void = void or exceeds_reuse_limit(overlapping_uses(look, chose))
            if exceeds_reuse_limit(at_these):
                chain = [*chain, *at_few]
            declared = next((item.declared for item in chain if item.declared is not None), None)
            if n_looks is not None and declared not in (None, n_looks):
                option = spell_option(Requirement, "n_looks", n_looks)
                raise InputError(say("refused.other_looks", declared=declared, option=option))
            if first is None:
                left, share = _shared(chain, n_looks, spends=spends)
                if wants is not None:
                    share = min(wants, share) if not spends else wants * (wants <= left + 1e-9)
                if declared is None and (spends or not chain):
                    declared = n_looks
                share = 0.0 if void else share
            else:
                share, declared = cast(float, first.share), first.declared
                tried, again = first.tried, first.again
            look = replace(look, order=order, share=share, declared=declared)
            look = replace(look, tried=tried, again=again)
            if first is None or (look.n and (look.told, look.limits) != (first.told, first.limits)):
                # It is new, labels went on, or the first limit was set.
                questions[key] = (*before, look, *kept[place + 1 :])
        earlier = overlapping_uses(look, chain if chain else at_few, every=bool(chain))
        share = 1.0 if look.share is None else look.share
        left, following = _shared([*chain, look], None, spends=spends)
        return Standing(
            len(chain) + 1,
            share,
            left,
            following,
            look.declared,
            tuple(chain),
            (*elsewhere, *earlier),
            max((len(item.compared) for item, _ in overlapping_uses(look, chose)), default=0),
            look.tried,
            look.again,
        )

    def conclude(self, subject: Any, look: DataUse, verdict: str | None) -> None:
        """Keep what a look that was recorded says; one that has shown nothing (None) is none."""
        if not self.keeps:
            return
        key = digest_of(subject)
        with self._changing() as questions:
            questions[key] = tuple(
                replace(item, verdict=verdict or item.verdict) if look.same(item) else item
                for item in questions.get(key, ())
                if verdict is not None or item.verdict or not look.same(item)
            )

    def _at_others(self) -> Iterator[tuple[str, DataUse]]:
        """Yield the looks that stand beside other guardrails here, each with its subject."""
        beside = () if self._path is None else sorted(self._path.parent.glob("*.looks.json"))
        for path in (path for path in beside if path != self._path):
            for name, items in _undamaged(path).items():
                yield from ((name, item) for item in sorted(items, key=attrgetter("order")))

    @contextmanager
    def _changing(self) -> Iterator[dict[str, tuple[DataUse, ...]]]:
        """Let one process read what is kept, and keep what it changes."""
        if self._path is None:
            with _ONE_AT_A_TIME:
                yield _HERE
            return
        # Read again under the lock, since another process may have looked meanwhile.
        with self._writing(), new_folder(self._path.parent), folder_lock(self._path.parent):
            questions = self.read(self._path)
            before = dict(questions)
            yield questions
            if questions == before:
                return
            content = {name: [item.to_dict() for item in questions[name]] for name in questions}
            text = json.dumps({"schema": SCHEMA, "questions": content}, indent=1)
            write_atomically(self._path, f"{text}\n".encode("ascii"))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        there = cli_or_python("a folder", "a file (looks=...)")
        remedy = f"{_REMEDY}name {there} that can be written, or copy the guardrail to one"
        with file_errors(f"cannot write {self._path}", remedy):
            yield

    @staticmethod
    def read(path: Path) -> dict[str, tuple[DataUse, ...]]:
        """Return the looks in a file, by the digest of their subject."""
        remedy = f"{_REMEDY}restore it, or name another folder"
        try:
            with file_errors(f"cannot read {path}", remedy):
                if not path.exists():
                    return {}
                content = json.loads(read_regular(path))
            if content["schema"] != SCHEMA:
                raise ValueError(f"its schema is {content['schema']!r}")
            return {
                name: tuple(map(DataUse.from_dict, items))
                for name, items in content["questions"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} holds no looks ({error}){remedy}") from error


def _undamaged(path: Path) -> dict[str, tuple[DataUse, ...]]:
    """Return the looks in a file, or none: a damaged one is told of by those who look there."""
    with suppress(DataError):
        return DataUseHistory.read(path)
    return {}


def _take_over(
    questions: dict[str, tuple[DataUse, ...]],
    items: Iterable[tuple[str, DataUse]],
    wanted: Callable[[str, DataUse], bool],
) -> None:
    """Add the looks of other files that are wanted, each once."""
    for name, item in items:
        own = questions.get(name, ())
        if not any(map(item.same, own)) and wanted(name, item):
            order = 1 + sum(map(len, questions.values()))
            questions[name] = (*own, replace(item, order=order))


def _once(looks: Iterable[DataUse]) -> Iterator[DataUse]:
    """Yield looks in order, of labels that went on the first one only."""
    sessions = set[str]()
    for look in looks:
        if not look.session or look.session not in sessions:
            yield look
        sessions.add(look.session)


def certificate_after_reuse(
    certificate: Mapping[str, Any], standing: Standing, *, spends: bool = False
) -> dict[str, Any]:
    """Return a certificate in words as earlier looks leave it: none where nothing is left."""
    looks = to_report_rows(standing.earlier)
    if standing.share or certificate["verdict"] == "inconclusive":
        few = certificate["verdict"] == "certified" and sum(row["shared"] for row in looks) > 0.0
        if not few or spends or exceeds_reuse_limit(standing.earlier):
            return dict(certificate)
        why = f"{spell(certificate['reason'])} {few_looked_before(looks)}"
        return {**certificate, "reason": why}
    # What runs beside it have shown of these answers is no look at the guardrail.
    own = standing.declared or not exceeds_reuse_limit(standing.earlier)
    own = own or any(row["folder"] for row in looks)
    if spends and own and not any(row["reported"] for row in looks):
        return {**certificate, **withdrawn_for("no_look_left", no_look_left(looks, standing))}
    return {**certificate, **withdrawn_for("looked_before", looked_before(looks))}


def no_look_left(looks: Sequence[Mapping[str, Any]], standing: Standing) -> str:
    """Return why a guardrail is not judged any more."""
    folder = next((row["folder"] for row in looks if row["folder"]), "")
    return say("verdict.no_look_left", n=len(looks), declared=standing.declared, folder=folder)


def begin_report(
    history: DataUseHistory,
    scored: Scored,
    keys: Sequence[str],
    promise: Promise,
    requirement: Requirement,
    *,
    costs: Costs | None = None,
    threshold: float | None = None,
    asked: bool = True,
    given: Promise | None = None,
) -> tuple[DataUse, Standing]:
    """Keep the look that a report is; return it, and what it may err with.

    It is one at all answers, by the detectors in some columns, for what is promised and required.
    Other ``costs`` pick another threshold, or another bound of its cost. Of a ``threshold`` that
    was given, what is required may be named later, where nothing is ``asked`` yet: each of the two
    bounds then has half of the error, so that they hold for any. ``given`` is the promise as it was
    named.
    """
    looks = [_look_at(scored, key, slice(None)) for key in sorted(keys)]
    # Of coarse scores, those of one say nothing of the others.
    told = [item for item in looks if item.repeated <= ALIKE] or looks[:1]
    specs: Any = {key: scored.specs[key] for key in keys}
    question = promise.to_dict() | {"clustered": None}
    if threshold is not None:
        question |= {"alpha": None, "threshold": threshold}
    if costs is not None and costs.cost_miss is not None:
        question |= {"alpha": None, "costs": costs.to_dict()}
    every = sorted(map(digest_of, scored.specs.values()))
    look = replace(
        looks[0],
        values=tuple(sorted({value for item in told for value in item.values})[:KEPT]),
        repeated=sum(item.repeated for item in told),
        ranks=tuple(sorted({rank for item in looks for rank in item.ranks})[:KEPT]),
        assumed=requirement.assume_independent,
        detector=digest_of(specs if len(specs) > 1 else specs[keys[0]]),
        compared=tuple(every) if len(every) > 1 else (),
        question=digest_of(question),
        limits=limits_of(requirement, promise.unit if threshold is None else "threshold"),
        told=digest_of([item.told for item in looks]),
        rows=digest_of([item.rows for item in looks]),
        given="" if given is None else digest_of(given.to_dict()),
        whole=bool((scored.codes == CALIBRATION).all()),
    )
    wants = None if asked else 0.5
    return look, history.record(SPLIT, look, n_looks=requirement.n_looks, wants=wants)


def limits_of(requirement: Requirement, unit: str) -> str:
    """Return what is required, as JSON, but for how many looks there are to be."""
    asked = {**replace(requirement, n_looks=None).to_dict(), "min_kept": requirement.min_kept}
    return json.dumps({**asked, "unit": unit}, sort_keys=True)


def _looks_beside(path: Path | None, below: bool = False) -> Iterator[DataUse]:
    """Yield the looks of runs in the folders beside a file's and, with ``below``, beside it."""
    own = Path() if path is None else path.absolute()
    for place in () if path is None else own.parents[0 if below else 1 : 2]:
        for file in sorted(place.glob("*/looks.json")):
            yield from _undamaged(file).get(digest_of(SPLIT), ()) if file != own else ()


def _looks_of_guardrails(path: Path | None) -> Iterator[DataUse]:
    """Yield the looks that are kept beside guardrails in a run's folder and in the one above."""
    for place in () if path is None else path.absolute().parents[:2]:
        for file in sorted(place.glob("*.looks.json")):
            for name, items in _undamaged(file).items():
                if name not in map(digest_of, (SPLIT, BESIDE)):
                    yield from (replace(item, detector=item.score) for item in items)


def _n_tried(beside: Iterable[DataUse], look: DataUse) -> tuple[int, int]:
    """Return how many other detectors, and how many other looks of this one, these answers saw."""
    at_these = [item for item in beside if look.is_at_answers_of(item)]
    others = {item.detector for item in at_these if not item.chose(look.detector)}
    again = list[DataUse]()
    for item in at_these:
        # Of a threshold that was given, limits that are named after a look are others.
        same = look.same(item) and (look.limits == item.limits or '"threshold"' not in item.limits)
        if item.score:
            # A guardrail was asked the same, of its own unit.
            then = json.loads(item.limits)
            same = then == {**json.loads(look.limits), "unit": then["unit"]}
        if item.detector == look.detector and not (same or any(map(item.same, again))):
            again.append(item)
    return len(others - {"", look.detector, *look.compared}), len(again)


def _with_tried(report: Report, tried: int, again: int) -> Report:
    """Return a report that says what was tried beside it, where it certifies."""
    counts = {"others_tried": tried, "tested_beside": again}
    warnings = [item for item in report.warnings if item.code not in counts]
    for code, n in counts.items():
        if n and report.verdict == "certified":
            said = message(code, report.to_dict(), values := {"n": n})
            warnings.append(ReportWarning(code, said, values))
    return replace(report, warnings=tuple(warnings))


def with_tried_since(report: Report, folder: Path) -> Report:
    """Return a report of a run with what was tried by now in the folders beside the run's own."""
    path, detector = folder / "looks.json", digest_of(report.score)
    kept = _undamaged(path).get(digest_of(SPLIT), ())
    own = [item for item in kept if item.detector == detector]
    return _with_tried(report, *_n_tried(_looks_beside(path), own[-1])) if own else report


def report_after_reuse(report: Report, standing: Standing) -> Report:
    """Return what earlier looks leave of a report, and what was tried beside it."""
    if not standing.share:
        report = without_cost_bound(report)
    further = not standing.share and exceeds_reuse_limit(standing.earlier)
    otherwise = standing.again * (report.verdict != "certified") + len(standing.earlier) * further
    # Whoever gave the threshold was promised nothing.
    otherwise *= report.promise.guarantee != "fixed" and not standing.compared
    counts = {"compared_before": standing.compared, "calibrated_before": otherwise}
    found = (ReportWarning(code, values={"n": n}) for code, n in counts.items() if n)
    report = replace(report, warnings=(*report.warnings, *found))
    void = report.verdict != "inconclusive" and not standing.share
    revised = revised_report(
        replace(report, looks=tuple(to_report_rows(standing.earlier))),
        lambda row: certificate_after_reuse(row, standing),
        "looked_before" if void else None,
    )
    return _with_tried(revised, standing.tried, standing.again)


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
            spelt=self.known_by.spelt,
            kinds=self.known_by.kinds,
            codes=np.array(self._decided, np.int8) if self._decided else None,
            marks=np.array(self._marks, np.uint64) if self._marks else None,
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
    return replace(_look_at(scored, scored.keys[0], rows), verdict=verdict, reported=True)


def own_look(config: FrozenConfig) -> tuple[DataUse, ...]:
    """Return the look of a guardrail's own report, where its file holds it."""
    held = config.data.looked_at
    return () if held is None else (DataUse.from_dict(held),)


def _look_at(scored: Scored, key: str, rows: NDArray[np.bool_] | slice) -> DataUse:
    marks = None
    if (sentences := scored.sentences) is not None:
        each = np.split(sentences.labels, sentences.first[1:-1])
        marks = np.array([_of_marks(part.tolist()) for part in each], np.uint64)[rows]
    look = DataUse.at(
        scored.known_by.digests[rows],
        scored.table.labels[rows],
        scored.table.columns[key][rows],
        spelt=scored.known_by.spelt[rows],
        kinds={kind for kind, n in scored.data["known_by"].items() if n and kind != "alike"},
        codes=scored.codes[rows],
        marks=marks,
        sketches=scored.sketches and scored.sketches.of_rows(rows),
    )
    return replace(look, seed=scored.data["split"]["seed"])


def _of_marks(labels: Iterable[int]) -> int:
    """Return a number for the labels of an answer's sentences, from -1 to 1."""
    spelt = bytes(label + 1 for label in labels)
    return int.from_bytes(sha256(spelt).digest()[:8], "little")


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
    if _differ(hashed):
        return hashed, True
    return (digests, True) if _differ(digests, known) else (hashed, False)


def _differ(numbers: NDArray[np.uint64], known: Iterable[str] = ()) -> bool:
    """Return whether numbers tell rows apart: of one that nothing is known of it is its place."""
    return "nothing" not in known and n_repeated(numbers) <= ALIKE * len(numbers)


def digest_of(content: Any) -> str:
    """Return a short digest of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")
    return sha256(text).hexdigest()[:16]


def history_of_labels(
    plan: SessionPlan, given: str | PathLike[str] | None, looks: LooksFile
) -> DataUseHistory:
    """Return what keeps the looks at the guardrail that labels are about.

    At best it stands beside the guardrail that they were begun with. Where the place of that is
    gone, or was never known, it is beside the one given.
    """
    places = [file for file in (plan.guardrail_file, given) if file and Path(file).parent.is_dir()]
    return DataUseHistory.of_guardrail(next(iter(places), None), looks)


def look_at_labels(folder: Path, plan: SessionPlan, answers: list[LedgerAnswer]) -> DataUse:
    """Return the look at these answers of a folder of labels."""
    digests = np.array([int(item.draw.digest, 16) for item in answers], np.uint64)
    labels = np.array([-1 if item.label is None else item.label for item in answers], np.int8)
    scores = [nan if item.draw.score is None else item.draw.score for item in answers]
    return replace(
        DataUse.at(digests, labels, np.array(scores, np.float64)),
        seed=plan.seed,
        session=agreed_on(folder),
        traces=plan.traces.sha256 or "",
        folder=str(folder.absolute()),
        limits="" if plan.asked is None else limits_of(plan.asked, "answer"),
    )


def begin_look(folder: Path, history: DataUseHistory) -> list[dict[str, Any]]:
    """Keep that labelling has begun; return earlier looks after which nothing is left.

    Raises
    ------
    DataError
        If the file of looks is damaged, or cannot be written.
    """
    plan = read_plan(folder)
    standing = record_labels(history, look_at_labels(folder, plan, []), plan)
    rows = to_report_rows(standing.earlier)
    return [] if standing.share else [item for item in rows if item["folder"]] or rows


def record_labels(
    history: DataUseHistory, look: DataUse, plan: SessionPlan, *others: DataUse
) -> Standing:
    """Keep the look of a folder of labels, which gets what it was begun with, or nothing."""
    n_looks = None if plan.requirement is None else plan.requirement.n_looks
    return history.record(
        plan.guardrail, look, *others, spends=True, n_looks=n_looks, wants=plan.share
    )
