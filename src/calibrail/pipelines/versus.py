"""Versus()."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import exact_bound
from calibrail.data.duplicates import CopyFinder
from calibrail.data.example import Example
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, names_of, reusable, spoken
from calibrail.data.splits import merge_groups
from calibrail.data.values import canonical_text, name_of, same_group
from calibrail.errors import DataError, InputError
from calibrail.evaluation import judge_agreement
from calibrail.evaluation.judge_agreement import NONE, SAMPLE_LEVEL, LabelCounts
from calibrail.evaluation.stats import tests
from calibrail.evaluation.stats.intervals import Floats, Mask, Measure, numbered_by
from calibrail.formatting import ShownContent
from calibrail.options import ReadOptions, Requirement, fields
from calibrail.options.data import ReadKeywords, judge_of
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, loading, look_overlap
from calibrail.pipelines.calibration_overlap import withdrawn_for
from calibrail.pipelines.run import write_run
from calibrail.report.documents import agree as words
from calibrail.report.documents.data import alike_names, labellers_note
from calibrail.report.messages import say
from calibrail.serialization import plain

SCHEMA: Final = "calibrail.versus/1"
#: More labels than this many times those that there are is no advice.
_MOST_TIMES: Final = 50.0
#: From fewer nothing is said of how many more it takes.
_FEWEST: Final = 20


@dataclass(frozen=True, slots=True, repr=False)
class SystemComparison(ShownContent):
    """Which of two systems hallucinates less often: what ``calibrail versus`` writes.

    Attributes
    ----------
    content : mapping
        JSON-able. ``outcome`` says what the interval shows of A (``better``, ``non-inferior``,
        ``worse``, ``not separated``, or ``no verdict`` where that is taken back), ``verdict`` is
        ``certified`` for the first two (of labels of a judge ``inconclusive``), and ``rejected``
        for the third, unless it is open whether that is more than ``margin``; ``reason`` says why.
        ``difference`` is the rate of A less that of B, a `Measure`: below 0, A is better.
        ``systems`` (A, then B) have what ``people`` say of the labelled questions, the
        ``judge`` of all (None of ratings), ``n_alone`` answers without a partner, and
        ``n_repeated`` ones that are not alone in what would join them; ``counts`` are labelled
        questions on which ``both`` hallucinate, ``only_a``, ``only_b`` and
        ``neither``; ``needed`` is about how many new ones would settle what is open, None below 20.
        ``margin``, ``confidence``, ``columns``, ``data``, ``random_sample``, ``warnings`` and
        ``reproduce`` say what was asked and read; ``labelled_by`` of ``data`` is the judge that
        labelled in people's place.
    """

    shown_as = "versus"

    content: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return str(self.content["verdict"])

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``versus.json`` and ``report.html``."""
        page = words.versus_document(self.content)
        return write_run(folder, {"versus.json": self.content}, page, force=force)


class _Reply(NamedTuple):
    """An answer, its file, and what people (`NONE`) and the judge (NaN for nothing) say of it."""

    example: Example
    file: str
    human: float
    judge: float


#: What answers to the same question may share, in the order of preference.
_KEYS: Final[Mapping[str, Callable[[Example], str | None]]] = {
    "id": lambda item: item.id if item.content is None else None,
    "question": lambda item: canonical_text(item.question),
    "group": lambda item: item.group,
}


@options_from_keywords(reading=ReadOptions)
def versus(
    first: Source,
    second: Source | None = None,
    *,
    judge_column: str | None = None,
    labels: Source | tuple[Source, ...] | None = None,
    margin: float | None = None,
    system_column: str | None = None,
    system: Sequence[str] = (),
    judge_higher: str | None = None,
    probability: str | None = None,
    confidence: float = 0.95,
    n_looks: int | None = None,
    looks: data_reuse.LooksFile = None,
    reading: ReadOptions | None = None,
    context: loading.Context | None = None,
    **how: Unpack[ReadKeywords],
) -> SystemComparison:
    """Say which of two systems hallucinates less often, from their answers to the same questions.

    Where questions are independent (or grouped) and drawn at random for people, each end of the
    interval errs with at most half of 1 - confidence, for any judge that has not seen these labels:
    without a judge, groups and probabilities it is exact, else that of bets on paired
    prediction-powered differences (`calibrail.evaluation.stats.tests`). After more labels it is
    another look.

    Parameters
    ----------
    first, second : path, str or data in memory
        Answers of A, which may take the place of B, and of B; joined by id, question or group: by
        the first that joins most. Or ``first`` holds both.
    judge_column : str, optional
        What a judge says of all answers: 1 = hallucinated, 0 = faithful, or ratings.
    labels : path or data in memory, or two of them, optional
        Where the human labels are, by the ids of the answers, if not in their label column: those
        of both systems, or of A in the first and of B in the second.
    margin : float, optional
        Ask whether A hallucinates at most so much more often than B, e.g. 0.03.
    system_column : str, optional
        Column of one source that says which system gave an answer; of ``labels``, whose they are.
    system : sequence of str
        Its values for A and for B; without, the two that there are, as they come. In ``labels``
        they may be two columns, of the labels of either system.
    judge_higher : {"hallucinated", "faithful"}, optional
        What a higher rating means; what the column's name says where that is clear.
    probability : str, optional
        Column of A's answers: the probabilities, in (0, 1], with which questions were drawn for
        people, each by itself: at 1 % they must agree with the number labelled. Without, those
        labelled must be a random sample.
    confidence : float
        Of the interval.
    n_looks : int, optional
        How many looks at these answers there will be, declared with the first.
    looks : path, optional
        File that keeps what was looked at, as that of `calibrate`. Another margin is no other
        look: the interval holds for every one.
    reading : ReadOptions, optional
        How to read; ``label_column`` holds the people's labels (found, as by `agree`), and
        ``group_column`` what questions share that are sampled together.
    context : Context, optional
        The command that gives this again.

    Raises
    ------
    InputError
        If it is not said which are the two systems, or an option is outside its domain.
    DataError
        If no question has answers of both, or none of them two human labels; if an id of ``labels``
        may stand for several answers, or none stands for any.

    Examples
    --------
    >>> from calibrail import Example
    >>> def answers(every: int) -> list[Example]:
    ...     return [Example(id=str(i), columns={"human": str(int(i % every == 0))})
    ...             for i in range(200)]
    >>> result = versus(answers(20), answers(5)).to_dict()
    >>> result["outcome"], result["counts"]["only_b"], round(result["difference"]["upper"], 3)
    ('better', 30, -0.097)
    """
    reading = fields.optional(reading, ReadOptions, "reading")
    asked = Requirement(confidence=confidence, n_looks=n_looks)
    margin = None if margin is None else fields.share(margin, "margin")
    given = () if labels is None else labels
    apart = given if isinstance(given, tuple) else names_of(given) or (given,)
    called = [*dict.fromkeys(name_of(name) or "" for name in fields.texts(system, "system"))]
    # Of two sources one file of labels may name the systems.
    named = bool(system_column or called) and len(apart) != 1
    if len(apart) > 2 or (system_column is None if second is None else named):
        raise InputError(say("refused.which_systems"))
    first, human = reusable(first), "human"
    if not apart:
        seen = loading.open_source(first, replace(reading, label_column=None), labelled=False)
        others = [name for name in seen.fields if name != system_column]
        human, reading = loading.column_of_people(seen, reading, others, here=True, apart=True)
        if judge_column == human:
            raise InputError(say("refused.judge_is_human", column=human))
    plainly = replace(reading, label_column=None)
    columns = {"human": human, "judge": judge_column, "probability": probability}
    judges = () if judge_column is None else (judge_column,)
    keep = [None if apart else human, system_column if second is None else None]
    sources = [first] if second is None else [first, second]
    opened, readers, answers = list[Reading](), list[loading.JudgedLabels](), list[list[_Reply]]()
    for source, further in zip(sources, (probability, None), strict=False):
        wanted = [item for item in (*keep, *judges, further) if item is not None]
        plainly = replace(plainly, quarantine=reading.quarantine)
        rows = loading.open_source(source, plainly, keep=wanted, labelled=False)
        about = spoken(source), reading, human, judges, judge_higher, rows
        reader = loading.JudgedLabels(*about, {} if apart else None)
        read = ((item, rows.place[0], reader.read(item)) for item in rows)
        answers.append([_Reply(item, file, *(*row, np.nan)[:2]) for item, file, row in read if row])
        reader.append()
        if reader.first and not apart and all(row.human == NONE for row in answers[-1]):
            # Else what is missed would be pairs, or a system.
            raise DataError(next(iter(reader.first.values())))
        opened.append(rows)
        readers.append(reader)
        if reading.quarantine is not None:
            path = reading.quarantine
            reading = replace(reading, quarantine=path.with_stem(f"{path.stem}-b"))
    names, found = [spoken(source) for source in sources], list[str]()
    if second is not None and opened[0].digest() == opened[1].digest():
        raise InputError(say("refused.same_source", a=names[0], b=names[1]))
    if readers[0].signs != readers[-1].signs:
        raise InputError(say("refused.judge_differs", column=judge_column))
    if second is None and system_column is not None:
        answers, names, found = _parted(answers[0], system_column, called)
        if len(apart) == 2 and not called:
            # Whose answers come first says not whose labels do.
            raise InputError(say("refused.two_systems", column=system_column, found=found))
    whose, n_unmet = opened, 0
    if apart:
        called = names if second is None else called
        answers, whose, n_unmet = _labelled(answers, names, apart, reading, system_column, called)
        held = (name for item in whose for name in item.columns.label_columns)
        columns["human"] = ", ".join(dict.fromkeys(held))
    joined_by, (pairs, left_out, unlike) = _joined(answers, names)
    table = _Table.of(pairs, columns, sign=sum(readers[0].signs), source=names[0])
    history = data_reuse.DataUseHistory(looks or None)
    # What the column of labels is called in a file of their own asks for nothing.
    asks = columns | ({"human": "human"} if apart else {})
    look = table.look([asks, sorted(names)], asked)
    standing = history.record(SCHEMA, look, n_looks=n_looks)
    level = standing.confidence(confidence)
    difference, sample = table.difference(level, margin), table.sample_tests()
    gap, n = difference.to_dict(), int(table.known.sum())
    content: dict[str, Any] = {"schema": SCHEMA, **_outcome(difference, margin), "reason": ""}
    content |= {"needed": None, "difference": gap, "margin": margin, "confidence": level}
    content["reason"] = words.versus_reason(content, names)
    # A judge that labelled for one of the systems labelled for the comparison.
    judge = next(filter(None, (judge_of(item.how()) for item in whose)), None)
    left = data_reuse.certificate_after_reuse(content, standing)
    if judge is not None and left["verdict"] == "certified":
        left |= withdrawn_for("labels_of_judge", say("versus.by_judge", left, judge=judge))
    if doubt := words.differing(sample):
        why = say("versus.no_verdict", doubt=doubt, columns=columns, data={"labelled_by": judge})
        left |= withdrawn_for("no_sample", why)
    content |= {name: left[name] for name in content}
    if content["reason_code"] not in ("bounds", "labels_of_judge"):
        content["outcome"] = "no verdict"
    elif content["verdict"] == "inconclusive" and content["reason_code"] == "bounds":
        # More labels settle what bounds leave open, and nothing else.
        content["needed"] = table.needed(difference, margin)
    # Which of the two was A: the other way round it is the same look.
    history.conclude(SCHEMA, look, f"{content['verdict']}, {names[0]} against {names[1]}")
    counts, systems = table.counts, []
    for side, name, said, out in zip("ab", names, table.judge.T, left_out, strict=True):
        people = exact_bound(counts["both"] + counts[f"only_{side}"], n, level)
        # A mean of ratings is no share.
        mean = np.nanmean(said) if np.isfinite(said).any() and not any(readers[0].signs) else None
        systems.append({"name": name, "people": people, "judge": mean, **out})
    aside = [item.n_quarantined for item in dict.fromkeys([*opened, *whose])]
    aside += [len(reader.entries) for reader in readers]
    one, both = (~np.isnan(table.human)).any(axis=1), (~np.isnan(table.judge)).all(axis=1)
    data: dict[str, Any] = {
        "source": ", ".join(spoken(item) for item in sources),
        "sha256": " and ".join(str(item.digest()) for item in opened),
    }
    data |= {"n": len(pairs), "n_labelled": n, "n_half_labelled": int(one.sum()) - n}
    data |= {"n_judged": int(both.sum()), "n_groups": int(table.group.max()) + 1}
    data |= {"n_quarantined": sum(aside), "part": opened[0].part()}
    said = [[canonical_text(item.example.response) for item in both] for _, *both in pairs]
    data |= {"n_near": table.n_near, "n_same": sum(bool(one) and one == two for one, two in said)}
    data |= {"n_unlike": len(unlike), "first_unlike": unlike[:1], "labelled_by": judge}
    data["n_unmet"] = n_unmet
    content |= {"systems": systems, "counts": counts, "data": data, "random_sample": sample}
    content["columns"] = {**columns, "system": system_column, "joined_by": joined_by}
    content["looks"] = standing.to_dict(confidence)
    content["warnings"] = [text for reader in readers for text in reader.warnings()]
    content["warnings"] += alike_names(system_column or "", found, "systems")
    for rows in whose:
        content["warnings"] += labellers_note(rows.labellers.found())
    content["reproduce"] = fields.optional(context, loading.Context, "context").reproduce()
    return SystemComparison(plain(content))


def _parted(
    rows: Sequence[_Reply], column: str, wanted: Sequence[str]
) -> tuple[list[list[_Reply]], list[str], list[str]]:
    """Return the answers of the two systems of one source, their names, and all names there."""
    by_system: dict[str, list[_Reply]] = {}
    for row in rows:
        if name := name_of(row.example.columns.get(column)):
            by_system.setdefault(name, []).append(row)
    names = [*(wanted or by_system)]
    if len({*names}) != 2 or len(names) != 2 or not {*names} <= by_system.keys():
        raise InputError(say("refused.two_systems", column=column, found=[*by_system]))
    return [by_system[name] for name in names], names, [*by_system]


def _labelled(
    answers: Sequence[Sequence[_Reply]],
    names: Sequence[str],
    given: Sequence[Source],
    reading: ReadOptions,
    column: str | None,
    systems: Sequence[str],
) -> tuple[list[list[_Reply]], list[Reading], int]:
    """Return answers with other files' labels, how these were read, and how many have no answer."""
    ids = [[row.example.id for row in rows if row.example.content is None] for rows in answers]
    either = {"a": names[0], "b": names[1], "ids": sorted({*ids[0]} & {*ids[1]})}
    labels, read = _labels_apart(given, reading, column, systems, either)
    labelled, met = list[list[_Reply]](), list[dict[str, Example]]()
    for name, rows, here, by_id in zip(names, answers, ids, [*labels, labels[0]], strict=False):
        labelled.append([])
        met.append({})
        for row in rows:
            # An id that several files have is told apart by their names.
            known = row.example.id, row.example.id.removeprefix(f"{row.file}:")
            id = next((id for id in known if id in by_id), None)
            if id is not None and met[-1].setdefault(id, row.example) != row.example:
                raise DataError(say("refused.two_answers", name=name, id=id))
            labelled[-1].append(row._replace(human=by_id.get(id, NONE)))
        if not met[-1]:
            first = {"first": next(iter(by_id)), "here": next(iter(here), "")}
            raise DataError(say("refused.no_id_met", first, name=name))
    if len(labels) == 1 and (both := [id for id in met[0] if id in met[1]]):
        raise DataError(say("refused.label_of_either", either, ids=both))
    return labelled, read, sum(map(len, labels)) - sum(map(len, met))


def _labels_apart(
    given: Sequence[Source],
    reading: ReadOptions,
    column: str | None,
    systems: Sequence[str],
    either: Mapping[str, Any],
) -> tuple[list[dict[Any, Any]], list[Reading]]:
    """Return labels by id, of A and of B or all together, and how they were read.

    One file says whose they are by a column of ``systems``, by a column for each, or by ids that
    ``either`` does not share.
    """
    for item in given:
        loading.is_label_folder(item)
    ways = [(reusable(item), reading) for item in given]
    if len(given) == 1:
        (source, _), plainly = ways[0], replace(reading, label_column=None, quarantine=None)
        seen = loading.open_source(source, plainly, labelled=False).fields
        if column in seen:
            by_key, found = loading.labels_by_id(source, reading, column)
            sides = [{id: it for (of, id), it in by_key.items() if of == name} for name in systems]
            if len(systems) != 2 or not all(sides):
                names = dict.fromkeys(name for name, _ in by_key)
                raise InputError(say("refused.two_systems", column=column, found=[*names]))
            return sides, [found]
        if len(systems) == 2 and {*systems} <= {*seen} and not reading.label_column:
            ways = [(source, replace(reading, label_column=name)) for name in systems]
        elif column is not None and [*systems] != [either["a"], either["b"]]:
            raise InputError(say("refused.two_systems", column=column, found=[]))
        elif either["ids"]:
            raise DataError(say("refused.label_of_either", either, seen=", ".join(seen)))
    each = [loading.labels_by_id(*way) for way in ways]
    # Two copies of a file say no more than one.
    n = len({found.digest() for _, found in each}) if len(given) == 2 else len(each)
    return [labels for labels, _ in each[:n]], [found for _, found in each[:n]]


#: What names a pair, and its answers.
_Pair = tuple[str, _Reply, _Reply]


#: Pairs by one key, what of either system is left out, and keys of unlike questions.
_Joined = tuple[list[_Pair], list[dict[str, int]], list[str]]


def _joined(answers: Sequence[Sequence[_Reply]], names: Sequence[str]) -> tuple[str, _Joined]:
    """Return by what most answers of either system, each alone there, have a partner, and these.

    What means another question in the other source, as a row number may, joins nothing.
    """
    found: dict[str, _Joined] = {}
    for kind, key in _KEYS.items():
        keys = [[key(item.example) for item in rows] for rows in answers]
        times = [Counter(side) for side in keys]
        first, second = (
            {name: item for name, item in zip(side, rows, strict=True) if name and n[name] == 1}
            for side, rows, n in zip(keys, answers, times, strict=True)
        )
        both = [(name, item, second[name]) for name, item in first.items() if name in second]
        texts = [{canonical_text(it.example.question) for it in pair[1:]} for pair in both]
        alike = [len(asked - {""}) < 2 for asked in texts]
        unlike = [pair[0] for pair in compress(both, np.logical_not(alike))]
        left_out = []
        for side in keys:
            shared = sum(bool(name) and all(count[name] for count in times) for name in side)
            left_out.append({"n_alone": len(side) - shared, "n_repeated": shared - len(both)})
        found[kind] = [*compress(both, alike)], left_out, unlike
    best = max(found, key=lambda kind: len(found[kind][0]))
    if not found[best][0]:
        unlike = [name for item in found.values() for name in item[2]]
        raise DataError(say("refused.no_pair", a=names[0], b=names[1], unlike=unlike))
    return best, found[best]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Pairs of answers as numbers: labels in columns for A and B, NaN where there is none.

    Attributes
    ----------
    human, judge : ndarray of float64, shape (n, 2)
        The judge from 0 to 1.
    group, lots : ndarray of int64 and of uint64, shape (n,)
        What pairs share, numbered by lot, and the lots, which nothing of a label decides.
    chance : ndarray of float64, shape (n,), or None
        Of being labelled.
    by_text : bool
        Whether pairs are known by their texts.
    n_near : int
        How many pairs may be near copies of others, and are one group with these.
    """

    human: Floats
    judge: Floats
    group: NDArray[np.int64]
    lots: NDArray[np.uint64]
    chance: Floats | None
    by_text: bool
    n_near: int

    @classmethod
    def of(
        cls, pairs: Sequence[_Pair], columns: Mapping[str, Any], *, sign: float, source: str
    ) -> "_Table":
        """Return the table of pairs; those with the same texts, or nearly, are one group.

        Ratings have the ``sign`` that makes the higher ones mean hallucinated; labels have 0.
        """
        human, judge = (
            np.array([[getattr(item, name) for item in both] for _, *both in pairs], np.float64)
            for name in ("human", "judge")
        )
        human[human == NONE] = np.nan
        if sign and np.isfinite(judge).any():
            ranges = [sign * side[np.isfinite(side)] for side in judge.T]
            few, most = sorted(ranges, key=lambda part: float(part.max(initial=0.0)))
            # A scale from 0 to 1 beside one that goes beyond, as 1 to 5 or 0 to 100.
            if len({*few.tolist()}) > 2 and few.min() >= 0.0 and few.max() <= 1.0 < np.median(most):
                ends = [(part.min(), part.max()) for part in ranges]
                raise DataError(say("refused.two_scales", columns, ends=ends))
            low, high = np.nanmin(judge), np.nanmax(judge)
            judge = (judge - low) / ((high - low) or 1.0)
        examples = [[item.example for item in both] for _, *both in pairs]
        by_text = all(item.response for both in examples for item in both)
        words = [pair[0] for pair in pairs]
        if by_text:
            words = [" ".join(sorted(item.digest("plain") for item in both)) for both in examples]
        hashed = (blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8) for word in words)
        lots = np.array([int(item.hexdigest(), 16) for item in hashed], np.uint64)
        shared = [
            [*map(same_group, (one.group or other.group or word, other.group or one.group or word))]
            for (one, other), word in zip(examples, words, strict=True)
        ]
        # What either system's answers share.
        group, copied = np.unique(np.array(shared, object), return_inverse=True)[1].reshape(-1, 2).T
        group = merge_groups(group, copied)
        finder = CopyFinder()
        for one, other in examples:
            finder.add(replace(one, response=f"{one.response}\n{other.response}"))
        copies = finder.finish(lots, lots)
        group = numbered_by(lots, merge_groups(group, copies.groups))
        table = cls(human, judge, group, lots, None, by_text, copies.n_near)
        if not (known := table.known).any():
            raise DataError(say("refused.no_labelled_pair", column=columns["human"], n=len(pairs)))
        if (name := columns["probability"]) is None:
            return table
        if half := int((~np.isnan(human[:, 0])).sum() - known.sum()):
            # A was drawn: without B's label it would count as if it had not been.
            raise DataError(say("refused.half_drawn", n=half))
        # One that could not be drawn says nothing, and neither do the others of it.
        return replace(
            table, chance=np.array([loading.chance_of(source, one, name) for one, _ in examples])
        )

    @property
    def known(self) -> Mask:
        """Which pairs people labelled."""
        return cast(Mask, ~np.isnan(self.human).any(axis=1))

    @property
    def counts(self) -> dict[str, int]:
        """Labelled pairs by what people say of both answers."""
        cells = Counter(map(tuple, self.human[self.known].astype(int).tolist()))
        kinds = {"both": (1, 1), "only_a": (1, 0), "only_b": (0, 1), "neither": (0, 0)}
        return {name: cells[kind] for name, kind in kinds.items()}

    @property
    def gaps(self) -> tuple[Floats, Floats]:
        """What people and the judge say of A less what they say of B; 0 of a silent judge."""
        human, judge = (values[:, 0] - values[:, 1] for values in (self.human, self.judge))
        return human, np.nan_to_num(judge)

    def difference(self, level: float, margin: float | None) -> Measure:
        """Return the rate of A less that of B, with its interval."""
        (human, judge), counts, n = self.gaps, self.counts, int(self.known.sum())
        independent = self.chance is None and int(self.group.max()) + 1 == len(self.group)
        if independent and (n == len(human) or np.isnan(self.judge).all()):
            first, second = counts["only_a"], counts["only_b"]
            ends = tests.exact_difference(first, second, n, level)
            return Measure((first - second) / n, *ends, "exact, paired (Buehler)", level)
        units = tests.paired_units(human, judge, self.group, self.chance)
        limits = () if margin is None else (margin,)
        ends = tests.difference_by_bets(units, level, *limits)
        estimate = min(max(units.estimate, ends.lower), ends.upper)
        return Measure(estimate, *ends, "bets on paired, prediction-powered differences", level)

    def sample_tests(self) -> list[dict[str, Any]]:
        """Test whether labelled pairs look like the others, or are as many as was stated."""
        # Of a group the pair that the lot has first.
        order = np.argsort(self.lots, kind="stable")
        one = order[np.unique(self.group[order], return_index=True)[1]]
        if self.chance is not None:
            return [judge_agreement.drawing_test(self.known[one], self.chance[one])]
        found, human = list[dict[str, Any]](), self.human[one]
        for side in human.T:
            # Whether the other answer got a label, too, must not hang on this one's.
            labelled, whole = ~np.isnan(side), self.known[one]
            cells, said = np.zeros((3, 3, 2), np.int64), np.nan_to_num(side).astype(np.int64)
            kinds = np.where(whole, 0, NONE), said, 0 * said
            np.add.at(cells, tuple(item[labelled] for item in kinds), 1)
            found += judge_agreement.sample_tests(LabelCounts(cells), SAMPLE_LEVEL / 2.0)
        found = [{**item, "share": "by_people"} for item in found if item["p_value"] is not None]
        if np.isnan(self.judge).all():
            return found
        # Whether the judge calls A the worse one, and B: the other way round these change places.
        cells, gap = np.zeros((3, 3, 2), np.int64), self.gaps[1][one]
        np.add.at(cells, (np.where(self.known[one], 0, NONE), 1 * (gap > 0.0), 1 * (gap < 0.0)), 1)
        by_judge = judge_agreement.sample_tests(LabelCounts(cells))
        names = "a_worse", "b_worse"
        return found + [{**item, "share": name} for name, item in zip(names, by_judge, strict=True)]

    def needed(self, difference: Measure, margin: float | None) -> int | None:
        """Return about how many labelled pairs would show on which side of a limit A lies."""
        n, estimate = int(self.known.sum()), cast(float, difference.estimate)
        gap = estimate - (margin or 0.0)
        end = cast(float, difference.upper if gap < 0.0 else difference.lower)
        times = ((end - estimate) / gap) ** 2 if gap else math.inf
        return math.ceil(times * n) if times <= _MOST_TIMES and n >= _FEWEST else None

    def look(self, question: Any, asked: Requirement) -> look_overlap.DataUse:
        """Return the look that this comparison is, whatever its margin, and whichever is A."""
        (human, judge), known = self.gaps, self.known
        kinds = ("texts",) if self.by_text else ("id",)
        labels = np.abs(human[known]).astype(np.int8)
        look = look_overlap.DataUse.at(self.lots[known], labels, np.abs(judge[known]), kinds=kinds)
        if not self.by_text:
            # Another batch may be numbered alike: ids are known together with their labels.
            look = replace(look, lowest=(), answers=(), faithful=(), hallucinated=())
        chance = np.zeros(len(human)) if self.chance is None else self.chance
        shared = [] if int(self.group.max()) + 1 == len(self.group) else [self.group]
        each = np.stack([self.lots, *shared, chance, np.nan_to_num(human), judge]).astype(float)
        # Zero has one sign.
        turned = np.vstack([each[:-2], -each[-2:]]) + 0.0
        ways = (sorted(map(list, way.T.tolist())) for way in (each + 0.0, turned))
        told, key = (look_overlap.digest_of(item) for item in ([look.told, min(ways)], question))
        limits = look_overlap.limits_of(asked, "versus")
        return replace(look, told=told, question=key, detector=key, limits=limits)


def _outcome(difference: Measure, margin: float | None) -> dict[str, Any]:
    """Return what an interval shows of A, and the verdict."""
    lower, upper = cast(float, difference.lower), cast(float, difference.upper)
    outcome, verdict = "not separated", "inconclusive"
    if upper <= 0.0 or (margin is not None and upper <= margin):
        outcome, verdict = "better" if upper <= 0.0 else "non-inferior", "certified"
    elif lower > 0.0 or lower >= (margin or 0.0):
        # Between 0 and the margin A is worse, and the question is open.
        outcome, verdict = "worse", "rejected" if lower >= (margin or 0.0) else verdict
    return {"outcome": outcome, "verdict": verdict, "reason_code": "bounds"}
